"""Tasks and edges by name become a graph, or a sentence with its place."""

import numpy as np
import pytest

from msbgen.core.errors import ProfileError
from msbgen.graphs.records import GraphEdge, GraphRecords, GraphTask, checked, only, shown


def records(*tasks, edges=()):
    made = [
        GraphTask(name, kind, numbers, f"line {i}") for i, (name, kind, numbers) in enumerate(tasks)
    ]
    return GraphRecords("g.csv", made, list(edges))


def test_times_become_works_of_which_one_is_the_mean_of_the_kind():
    graph = records(
        ("a", "x", {"time": 1.0}), ("b", "x", {"time": 3.0}), ("c", "y", {"time": 5.0})
    ).graph()
    np.testing.assert_allclose(graph["work"], [0.5, 1.5, 1.0])
    np.testing.assert_allclose(graph["time"], [1.0, 3.0, 5.0])
    assert graph.attrs["name"] == "g"


def test_a_repeated_edge_counts_once_and_amounts_are_kept_if_all_edges_have_them():
    tasks = ("a", "x", {"work": 1.0}), ("b", "x", {"work": 1.0}), ("c", "x", {"work": 1.0})
    twice = [GraphEdge("a", "b", "p", amount=1.0), GraphEdge("a", "b", "q", amount=1.0)]
    graph = records(*tasks, edges=twice).graph()
    assert graph.sizes["edge"] == 1
    assert graph["edge_bytes"].values.tolist() == [1.0]
    some = [*twice, GraphEdge("b", "c", "r")]
    assert "edge_bytes" not in records(*tasks, edges=some).graph()


@pytest.mark.parametrize(
    ("tasks", "edges", "message"),
    [
        ([], [], "there are no tasks"),
        ([("a", "x", {"work": 1}), ("a", "x", {"work": 1})], [], "line 1: task 'a' is there alre"),
        ([("a", "x", {})], [], "line 0: task 'a' has neither 'work'"),
        ([("a", "x", {"work": 1}), ("b", "x", {"time": 1})], [], "line 1: task 'b' has no 'work'"),
        ([("a", "x", {"time": 0.0})], [], "line 0: 'time' of task 'a' is 0; a positive number"),
        ([("a", "x", {"work": float("nan")})], [], "'work' of task 'a' is nan"),
        ([("a", "x", {"time": float("inf")})], [], "'time' of task 'a' is inf"),
        (
            [("a", "x", {"work": 1})],
            [GraphEdge("a", "b", "line 7")],
            "line 7: the edge 'a' → 'b' leads",
        ),
        (
            [("a", "x", {"work": 1}), ("b", "x", {"work": 1})],
            [GraphEdge("a", "b", "line 7"), GraphEdge("a", "b", "line 8", "join")],
            "line 8: the edge 'a' → 'b' is there already, line 7, with another type or bytes",
        ),
        ([("a", "x", {"work": 1})], [GraphEdge("a", "a", "line 7")], "in a circle: a → a"),
    ],
)
def test_errors_name_the_file_and_the_place(tasks, edges, message):
    with pytest.raises(ProfileError) as caught:
        records(*tasks, edges=edges).graph()
    assert str(caught.value).startswith("g.csv: ")
    assert message in str(caught.value)


def test_numbers_types_and_keys():
    r = GraphRecords("g.json")
    assert r.number("2.5e3", "work", "p") == 2500
    assert r.edge_type("spawn", "p") == "spawn"
    for value in (True, None, "x", [1], 10**400):
        with pytest.raises(ProfileError, match="'work' is"):
            r.number(value, "work", "p")
    with pytest.raises(ProfileError, match="type is 'fork'; spawn, join, data are known"):
        r.edge_type("fork", "p")
    with pytest.raises(ProfileError, match="did you mean 'work'"):
        only(["wrk"], ("work", "kind"), "task 0", r)
    with pytest.raises(ProfileError, match="task 0 is missing; an object is wanted"):
        checked(None, dict, "an object", "task 0", r.error)
    assert len(shown("x" * 500)) <= 60
    assert shown("a\n  b") == "a b"
