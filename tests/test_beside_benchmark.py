"""The study of programs that share, on small made-up data."""

import beside_study
import pytest


def test_every_pairing_is_there_once():
    found = list(beside_study.all_pairings(tuple(range(8))))
    assert len(found) == len(set(found)) == 105
    assert all(sorted(p for pair in pairs for p in pair) == list(range(8)) for pairs in found)


def test_the_mean_of_other_pairs_leaves_the_pair_out():
    def row(name, other, true):
        return {"name": name, "programs": [name, other], "true": true, "alone": 1.0}

    rows = [row("a", "b", 2.0), row("a", "c", 3.0), row("a", "d", 4.0)]
    assert beside_study.by_other_pairs(rows) == [0.75, 0.0, pytest.approx(-0.375)]


def test_figures_are_means_and_worst_cases():
    rows = [
        {"error": e, "misses": 2 * e, "ndtw": 0.1, "true": 2.0, "alone": 1.0} for e in (0.01, -0.03)
    ]
    found = beside_study.figures(rows)
    assert (found["cases"], found["mean"], found["worst"]) == (2, 0.02, 0.03)
    assert (found["misses"], found["slowdown"]) == (0.04, 2.0)
