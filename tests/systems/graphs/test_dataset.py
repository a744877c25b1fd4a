"""Task graphs: what follows from their edges, and what is refused."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphs import all_paths, longest_path, small_graphs
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.systems.graphs import dataset as graphs
from msbgen.systems.graphs.dataset import make as make_graph
from msbgen.systems.graphs.dataset import times_are_shares


def diamond(**given):
    kinds = ["gzip", "zstd", "zstd", "gzip"]
    return make_graph(
        kinds, [0.1, 0.2, 0.3, 0.1], [(0, 1), (0, 2), (1, 3), (2, 3)], names="abcd", **given
    )


@given(small_graphs())
@settings(max_examples=25)
def test_depths_distances_and_critical_edges_are_those_of_all_paths(drawn):
    n, edges, works = drawn
    graph = make_graph(["k"] * n, works, edges)
    paths = all_paths(n, edges)
    depth = [max(path.index(i) for path in paths if i in path) for i in range(n)]
    sink = [max(len(path) - 1 - path.index(i) for path in paths if i in path) for i in range(n)]
    assert graph["depth"].values.tolist() == depth
    assert graph["distance_to_sink"].values.tolist() == sink
    longest = longest_path(n, edges, works)
    critical = {
        pair
        for path in paths
        if sum(works[i] for i in path) == longest  # quarters add up exactly
        for pair in itertools.pairwise(path)
    }
    assert {e for e, c in zip(edges, graph["critical"].values) if c} == critical
    assert graph["hops"].values.tolist() == [depth[t] - depth[s] for s, t in edges]


@given(small_graphs(), st.randoms())
def test_a_cycle_is_found_and_its_tasks_are_named_in_order(drawn, random):
    n, edges, works = drawn
    path = random.choice(all_paths(n, edges))
    closed = [*edges, (path[-1], path[0])]
    cycle = graphs.find_cycle(n, np.array(closed).reshape(-1, 2))
    assert {(a, b) for a, b in zip(cycle, [*cycle[1:], cycle[0]])} <= set(closed)
    assert len(set(cycle)) == len(cycle) >= 1
    names = [f"task{i}" for i in range(n)]
    with pytest.raises(ArgumentError) as caught:
        make_graph(["k"] * n, works, closed, names=names)
    assert " → ".join(names[i] for i in [*cycle, cycle[0]]) in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edges": [(0, 4)]}, "leads to task number 4, which is not there"),
        ({"edges": [(-1, 0)]}, "comes from task number -1"),
        ({"names": ["a", "b", "a", "c"]}, "task 'a' is listed twice, as number 0 and 2"),
        ({"work": [0.1, 0.0, 0.1, 0.1]}, "'work' is 0 at task 'b'; a positive number"),
        ({"work": [0.1]}, "work has shape (1,)"),
        ({"kind": ["gzip", " ", "gzip", "gzip"]}, "'kind' is empty at task 'b'"),
        ({"bcet": [1, 1, 3, 1], "wcet": [2, 2, 2, 2]}, "'bcet' of task 'c' is above its 'wcet'"),
        (
            {"branch_entropy": [0, 2, 0, 0]},
            "'branch_entropy' is 2 bit at task 'b'; a number from 0 to",
        ),
        ({"types": ["data", "fork", "data", "data"]}, "edge 'a' → 'c' is of type 'fork'"),
        ({"edges": [(0, 1), (0, 1)]}, "edge 'a' → 'b' is listed twice"),
        ({"edges": [(1, 1)]}, "in a circle: b → b"),
        ({"mips": [1, 1, 1, 1]}, "'mips' is no number of a task; time"),
        ({"types": ["data"]}, "types are 1 for 4 edges"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence_with_its_place(change, message):
    given = {
        "kind": ["gzip"] * 4,
        "work": [0.1, 0.2, 0.3, 0.1],
        "edges": [(0, 1), (0, 2), (1, 3), (2, 3)],
        "names": list("abcd"),
    }
    with pytest.raises(ArgumentError) as caught:
        make_graph(**{**given, **change})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda g: g.assign_attrs(schema="x"), "'msbgen-graph/1' is wanted for a task graph"),
        (lambda g: g.assign(work=("edge", np.ones(4))), "'work' has dimensions ['edge']"),
        (lambda g: g.assign(work=("task", np.ones(4), {"units": "s"})), "units 's'; '1'"),
        (lambda g: g.assign(source=("edge", [0, 0, 1, 9])), "task number 9"),
        (lambda g: g.assign(depth=("task", [0, 1, 1, 1])), "'depth' does not follow"),
    ],
)
def test_files_that_break_the_contract_are_refused(spoil, message):
    with pytest.raises(ProfileError) as caught:
        graphs.SCHEMA.validate(spoil(diamond()), "g.nc")
    assert caught.value.problems[0].startswith("g.nc: ")
    assert message in str(caught.value)


def test_times_are_what_profiles_say_of_the_work(measured):
    profiles = {"gzip": measured, "zstd": measured}
    timed = graphs.with_times(diamond(), profiles)
    duration = measured["duration"]
    most = duration.isel(context=-1)
    work = np.array([0.1, 0.2, 0.3, 0.1])
    np.testing.assert_allclose(timed["time"], work * float(most.mean()))
    np.testing.assert_allclose(timed["wcet"], work * float(duration.max()))
    np.testing.assert_allclose(timed["bcet"], work * float(duration.min()))
    with pytest.raises(ProfileError, match=r"task 'b' is of kind 'zstd'.*did you mean 'zstt'"):
        graphs.with_times(diamond(), {"gzip": measured, "zstt": measured})


def test_recorded_times_become_work(measured):
    graph = diamond(time=[1.0, 2.0, 3.0, 4.0])
    adopted = graphs.with_profiles(graph, {"p": measured}, {"gzip": "p", "zstd": "p"})
    np.testing.assert_allclose(adopted["time"], graph["time"])
    np.testing.assert_allclose(adopted["work"] / adopted["work"][0], [1, 2, 3, 4])
    with pytest.raises(ArgumentError, match="has no 'time'"):
        graphs.with_profiles(diamond(), {"p": measured})


def test_works_that_are_shares_of_times_are_known():
    def graph(work, **given):
        return make_graph(["a", "b", "a"], work, [], time=[1.0, 5.0, 3.0], **given)

    assert times_are_shares(graph([0.5, 1.0, 1.5]))
    assert not times_are_shares(graph([0.5, 2.0, 1.5]))
    limits = {"bcet": [1.0, 5.0, 3.0], "wcet": [1.0, 5.0, 3.0]}  # as profiles say them
    assert not times_are_shares(graph([0.5, 1.0, 1.5], **limits))
    assert not times_are_shares(make_graph(["a"], [1.0], []))
