"""Changes of the work: which of it is compared beside inserted and removed work."""

import numpy as np

from conftest import MEASURED, synthetic_task
from msbgen.compare import changes
from msbgen.compare.alignment import Alignment, Gap
from msbgen.compare.changes import find_changes
from msbgen.compare.matching import match_profiles
from msbgen.compare.pairs import pair_profiles
from msbgen.compare.results import CompareSettings


def test_work_beside_a_gap_is_not_compared_wherever_the_gap_may_be(monkeypatch):
    old, new = synthetic_task(MEASURED), synthetic_task(MEASURED, seed=8)
    pair = pair_profiles(old, new, match_profiles(old, new))
    called = []
    monkeypatch.setattr(
        changes, "find_stretches", lambda *args, **named: called.append((args, named)) or []
    )
    removed = Gap(old=(0.3, 0.34), new=(0.3, 0.3), begins=(0.25, 0.4))
    knots = np.array([0.0, 0.3, 0.34, 1.0]), np.array([0.0, 0.3, 0.3, 1.0])
    aligned = Alignment(*knots, (removed,), mismatch=0.0)
    (change,) = find_changes(pair, aligned, CompareSettings(), np.random.default_rng(0))
    assert (change.quantity, change.old, change.begins) == ("removed", (0.3, 0.34), (0.25, 0.4))
    ((runs, _), named) = called[0]
    # from .25 to .44 of the work, and two of a hundred bins on either side
    left_out = np.flatnonzero(~named["compared"])
    assert (left_out[0], left_out[-1] + 1, len(left_out)) == (23, 46, 23)
    assert runs.is_shifted
    different = Alignment(*knots, (removed,), mismatch=0.9)
    assert find_changes(pair, different, CompareSettings(), np.random.default_rng(0)) == ()
