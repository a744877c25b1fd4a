"""Tasks that wait for tasks, while a graph is drawn."""

import numpy as np
import pytest

from msbgen.core.errors import ArgumentError
from msbgen.graphs.families.builder import Family, GraphBuilder, TaskTemplate

OPERATIONS = {"map": TaskTemplate("gzip", 0.5, 2), "sum": TaskTemplate("sort", 0.1, 1, 0.3)}


def test_a_task_is_its_operation_and_waits_once_for_each():
    p = GraphBuilder(OPERATIONS, np.random.default_rng(0), 10)
    a, b = p.add("map-0"), p.add("map-1", work=2.0)
    c = p.add("sum", [a, b, a], by="join")
    assert (p.names[c], p.kinds, p.loops) == ("sum", ["gzip", "gzip", "sort"], [2, 2, 1])
    assert p.edges == [(a, c), (b, c)]
    assert p.types == ["join", "join"]
    assert p.works[:2] == [0.5, 1.0]


def test_works_spread_as_their_operation_says():
    p = GraphBuilder(OPERATIONS, np.random.default_rng(0), 3000)
    for i in range(2000):
        p.add(f"sum-{i}")
    logs = np.log(np.array(p.works) / 0.1)
    assert abs(logs.std() - 0.3) < 0.02
    assert abs(logs.mean()) < 0.03


def test_a_program_has_an_end():
    def endless(p, size):
        while True:
            p.add("map")

    with pytest.raises(ArgumentError, match="more than 50 tasks; a smaller one"):
        Family("endless", endless, (1,), OPERATIONS).draw(1, np.random.default_rng(0), 50)
