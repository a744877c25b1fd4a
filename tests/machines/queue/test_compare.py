"""Placements side by side: rows are what simulations alone give."""

import numpy as np
import pytest

from machines import made_queue
from msbgen.machines import queue
from msbgen.machines.queue.compare import Variant, simulate_variants


@pytest.fixture
def some():
    return made_queue(0)


def test_every_variant_equals_a_simulation_of_its_own(some):
    jobs, machines = some
    steps = []
    rows = queue.compare_variants(
        jobs, machines, arrivals=["as submitted", "at once", 0.8], placements=["aware", "greedy"],
        queues=["machine", "one"], progress=lambda done, total: steps.append((done, total)),
    )  # fmt: skip
    assert steps == [(k, 24) for k in range(1, 25)]
    assert len({tuple(row[k] for k in ("arrivals", "placement", "queue", "times"))
                for row in rows}) == 24  # fmt: skip
    for row in rows:
        submitted = {
            "as submitted": jobs,
            "at once": jobs.submitted(np.full(len(jobs), jobs.submission.min())),
            0.8: queue.at_load(jobs, machines, 0.8),
        }[row["arrivals"]]
        submitted = submitted.with_true_times() if row["times"] == "true" else submitted
        alone = queue.simulate_queue(
            submitted, machines, placement=row["placement"], queue=row["queue"]
        )  # fmt: skip
        assert row["makespan"] == queue.makespan(submitted, alone)
        assert row["slowdown"] == queue.bounded_slowdown(submitted, alone).mean()
        against_fastest = queue.slowdown_against_fastest(submitted, alone, machines)
        assert row["slowdown_against_fastest"] == against_fastest.mean()
        assert row["makespan_over_bound"] == row["makespan"] / row["bound"] >= 1 - 1e-9
        assert row["wait"] == (alone.start - submitted.submission).mean()
        if row["arrivals"] != "as submitted":
            assert row["load"] == pytest.approx({"at once": np.inf, 0.8: 0.8}[row["arrivals"]])


def test_right_estimates_are_simulated_once(some):
    jobs, machines = some
    rows = queue.compare_variants(jobs.with_true_times(), machines)
    assert [row["times"] for row in rows] == ["true"] * len(queue.PLACEMENTS)


def test_random_placements_are_the_same_at_every_load_and_follow_the_seed(some):
    jobs, machines = some
    listed = queue.variants(jobs, ["as submitted", "at once"], ["random"])
    drawn = [
        [
            each.schedule.machine.tolist()
            for each in simulate_variants(jobs, machines, listed, rng=r)
        ]
        for r in (0, 0, 1)
    ]
    assert drawn[0] == drawn[1] != drawn[2]


def test_names_are_those_of_files():
    assert Variant("at once", "aware", "one", "true").name == "at-once-aware-one-true"
    name = Variant(0.95, "round_robin", "machine", "estimated").name
    assert name == "load-0.95-round_robin-machine-estimated"
    near = [Variant(load, "aware", "one", "true").name for load in (1, 1.0, 0.9, 0.90000001)]
    assert near[0] == near[1] == "load-1-aware-one-true"
    assert len({*near}) == 3
