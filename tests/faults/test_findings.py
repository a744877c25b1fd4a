"""Findings in sentences, and the measurements mended."""

import json

import numpy as np
import pytest

from msbgen.faults.findings import Fault, Findings

SLOW = Fault("slow", (1,), (), 2.0, 0.5, 30.0, ((2.0, 3.0),))
BAD = Fault("bad", (2,), (), 1.0, 1.0, 20.0)
EXCHANGED = Fault("exchanged", (0, 3), (), 1.0, 1.0, 40.0, ((0.0, 1.0), (6.0, 7.0)))
STRETCHED = Fault("stretched", (4,), (1.0, 0.2, 0.4), 1.5, 1.0, 9.0)
COUNT = Fault("count", (4,), (0.0, 3.0, 1.0), 1e6, 1.0, 14.0)
DRIFT = Fault("drift", (), (0.1,), 1.22, 1.0, 9.0)
ALL = Findings((SLOW, BAD, EXCHANGED, STRETCHED, COUNT))


def measured():
    counts = np.arange(5 * 2 * 6 * 2, dtype=float).reshape(5, 2, 6, 2)
    return counts, np.full((5, 2), 4.0), np.arange(10.0).reshape(5, 2)


def test_nothing_found_changes_nothing():
    given = measured()
    mended = Findings().mend(*given)
    assert all(a is b for a, b in zip((mended.counts, mended.duration, mended.contexts), given))
    assert not Findings()
    assert list(Findings()) == []


def test_mended_as_the_sentences_say():
    counts, duration, contexts = measured()
    before = counts.copy()
    mended = ALL.mend(counts, duration, contexts)
    assert mended.kept.tolist() == [0, 1, 3, 4]
    assert mended.duration.tolist()[:3] == [[4.0, 4.0], [2.0, 2.0], [4.0, 4.0]]
    assert mended.pace[1].tolist() == [2.0, 2.0]
    assert mended.worth.tolist() == [1.0, 0.5, 1.0, 1.0]
    assert mended.contexts[[0, 2]].tolist() == contexts[[3, 0]].tolist()
    assert np.isnan(mended.duration[3, 1])
    assert np.isnan(mended.counts[3, 1]).all()
    assert mended.counts[3, 0, 3, 1] == (before[4, 0, 2, 1] + before[4, 0, 4, 1]) / 2
    assert np.array_equal(counts, before)  # what was given stays as it is


def test_a_context_without_a_run_left_is_left_out():
    counts, duration, contexts = measured()
    both = Findings((STRETCHED, Fault("stretched", (4,), (0.0, 0.0, 0.1), 2.0, 1.0, 9.0)))
    assert both.mend(counts, duration, contexts).kept.tolist() == [0, 1, 2, 3]


def test_a_drift_is_scaled_to_the_mean_of_the_sweep():
    counts, duration, contexts = measured()
    started = np.arange(10.0).reshape(5, 2)
    mended = Findings((SLOW, DRIFT)).mend(counts, duration, contexts, started)
    paces = np.exp(0.1 * (2 * started / 9 - 1))
    paces[1] *= 2.0
    assert mended.pace == pytest.approx(paces)
    assert mended.duration == pytest.approx(4.0 / paces)
    assert mended.guessed.tolist() == [False, True, False, False, False]
    assert np.array_equal(Findings((DRIFT,)).mend(*measured()).duration, duration)  # no times


@pytest.mark.parametrize("fault", [*ALL, DRIFT])
def test_a_sentence_names_the_place_and_a_remedy(fault):
    text = fault.sentence(lambda i: f"context {i}", ["instructions", "misses"])
    assert all(f"context {i}" in text for i in fault.contexts)
    assert "measure" in text
    assert text.endswith(".")
    assert text.count("\n") == 0


def test_a_pace_that_comes_back_is_not_said_to_have_stayed():
    turned = Fault("drift", (), (0.005, -0.1), 1.01, 1.0, 9.0)
    text = turned.sentence(str, [])
    assert "changed its pace by up to 16.8%, and grew 1.0% slower from the first to" in text
    assert "changed its pace" not in DRIFT.sentence(str, [])


def test_plain_and_back():
    again = Findings.from_plain(json.loads(json.dumps(ALL.to_plain())))
    assert again == ALL
    assert again.again == [(0.0, 1.0), (6.0, 7.0), (2.0, 3.0)]


def test_an_absurd_count_without_neighbours_is_none():
    counts = np.full((1, 1, 1, 1), 2.0**48)
    alone = Fault("count", (0,), (0.0, 0.0, 0.0), 1e6, 1.0, 14.0)
    mended = Findings((alone,)).mend(counts, np.ones((1, 1)), np.ones((1, 1)))
    assert mended.counts.tolist() == [[[[0.0]]]]
