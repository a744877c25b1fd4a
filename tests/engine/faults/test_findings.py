"""Faults in sentences, and the repair of measurements."""

from dataclasses import replace

import numpy as np
import pytest

from forged import restored
from msbgen.engine.faults.findings import (
    BadContext,
    ExchangedContexts,
    Findings,
    MachineDrift,
    SlowContext,
    StretchedRun,
    WrongCount,
)

SLOW = SlowContext(contexts=(1,), factor=2.0, weight=0.5, log_odds=30.0, levels=((2.0, 3.0),))
BAD = BadContext(contexts=(2,), log_odds=20.0)
EXCHANGED = ExchangedContexts(contexts=(0, 3), log_odds=40.0, levels=((0.0, 1.0), (6.0, 7.0)))
STRETCHED = StretchedRun(contexts=(4,), run=1, begin=0.2, end=0.4, factor=1.5, log_odds=9.0)
COUNT = WrongCount(contexts=(4,), run=0, interval=3, counter=1, factor=1e6, log_odds=14.0)
DRIFT = MachineDrift(terms=(0.1,), factor=1.22, log_odds=9.0)
ALL = Findings((SLOW, BAD, EXCHANGED, STRETCHED, COUNT))


def measured():
    counts = np.arange(5 * 2 * 6 * 2, dtype=float).reshape(5, 2, 6, 2)
    return counts, np.full((5, 2), 4.0), np.arange(10.0).reshape(5, 2)


def test_findings_without_a_fault_change_nothing():
    arrays = measured()
    repaired = Findings().repair(*arrays)
    assert all(
        a is b for a, b in zip((repaired.counts, repaired.duration, repaired.contexts), arrays)
    )
    assert not Findings()
    assert list(Findings()) == []


def test_each_fault_is_repaired_as_its_sentence_says():
    counts, duration, contexts = measured()
    before = counts.copy()
    repaired = ALL.repair(counts, duration, contexts)
    assert repaired.kept.tolist() == [0, 1, 3, 4]
    assert repaired.duration.tolist()[:3] == [[4.0, 4.0], [2.0, 2.0], [4.0, 4.0]]
    assert repaired.slowdown[1].tolist() == [2.0, 2.0]
    assert repaired.weights.tolist() == [1.0, 0.5, 1.0, 1.0]
    assert repaired.contexts[[0, 2]].tolist() == contexts[[3, 0]].tolist()
    assert repaired.untimed[3, 1].tolist() == [0.2, 0.4]
    assert np.argwhere(repaired.untimed[..., 1]).tolist() == [[3, 1]]
    assert np.array_equal(repaired.counts[3, 1], before[4, 1])
    assert repaired.counts[3, 0, 3, 1] == (before[4, 0, 2, 1] + before[4, 0, 4, 1]) / 2
    assert np.array_equal(counts, before)  # the arguments are unchanged


def test_a_context_is_kept_if_every_run_was_slowed_in_part():
    both = Findings((STRETCHED, replace(STRETCHED, run=0)))
    repaired = both.repair(*measured())
    assert repaired.kept.tolist() == [0, 1, 2, 3, 4]
    assert repaired.untimed[4].tolist() == [[0.2, 0.4], [0.2, 0.4]]


def test_times_of_a_drifting_machine_are_scaled_to_the_mean_of_the_sweep():
    counts, duration, contexts = measured()
    started = np.arange(10.0).reshape(5, 2)
    repaired = Findings((SLOW, DRIFT)).repair(counts, duration, contexts, started)
    slowdowns = np.exp(0.1 * (2 * started / 9 - 1))
    slowdowns[1] *= 2.0
    assert repaired.slowdown == pytest.approx(slowdowns)
    assert repaired.duration == pytest.approx(4.0 / slowdowns)
    assert repaired.estimated.tolist() == [False, True, False, False, False]
    assert np.array_equal(Findings((DRIFT,)).repair(*measured()).duration, duration)  # no times


@pytest.mark.parametrize("fault", [*ALL, DRIFT])
def test_a_sentence_names_the_place_and_a_remedy(fault):
    text = fault.sentence(lambda i: f"context {i}", ["instructions", "misses"])
    assert all(f"context {i}" in text for i in fault.contexts)
    assert "measure" in text
    assert text.endswith(".")
    assert text.count("\n") == 0


def test_wrong_counts_of_a_run_are_one_sentence():
    counts = [replace(COUNT, interval=interval) for interval in (3, 4, 9)]
    others = replace(COUNT, run=1), replace(COUNT, counter=0)
    sentences = Findings((*counts, SLOW, *others)).sentences(
        "context {}".format, ["instructions", "misses"]
    )
    assert len(sentences) == 4
    assert "run 0, interval 3 and 2 more of this run: they were read wrongly" in sentences[0]
    assert "run 1, interval 3: it was read wrongly" in sentences[2]


def test_the_sentence_names_a_drift_that_turned_back():
    turned = MachineDrift(terms=(0.005, -0.1), factor=1.01, log_odds=9.0)
    text = turned.sentence(str, [])
    assert "changed its speed by up to 16.8%, and became 1.0% slower from the first to" in text
    assert "changed its speed" not in DRIFT.sentence(str, [])


def test_faults_survive_json():
    every = Findings((*ALL, DRIFT))
    loaded = restored(every)
    assert loaded == every
    assert loaded.to_remeasure == [(0.0, 1.0), (6.0, 7.0), (2.0, 3.0)]


def test_a_wrong_count_without_neighbours_becomes_zero():
    counts = np.full((1, 1, 1, 1), 2.0**48)
    only = replace(COUNT, contexts=(0,), interval=0, counter=0)
    repaired = Findings((only,)).repair(counts, np.ones((1, 1)), np.ones((1, 1)))
    assert repaired.counts.tolist() == [[[[0.0]]]]
