"""Sentences with their places."""

import numpy as np

from msbgen.data.profiles import Profiles
from msbgen.data.violations import Violations


def test_a_sentence_is_said_once_with_its_first_place_and_how_many_more(measured):
    breaches = Violations(Profiles.of(measured))
    mask = np.zeros((2, 3), dtype=bool)
    breaches.of(0)("nothing PLACE.", mask)
    mask[1, 2] = True
    breaches.of(2)("wrong PLACE: correct it.", mask)
    breaches.of(4)("wrong PLACE: correct it.", mask | True)
    breaches.of(0)("odd PLACE.", np.arange(6) == 5)
    assert list(breaches.sentences()) == [
        "wrong in context 3 (cache_ways=4, frequency=2 GHz), run 2 and 6 more places: correct it.",
        "odd in context 5 (cache_ways=8, frequency=2 GHz).",
    ]
