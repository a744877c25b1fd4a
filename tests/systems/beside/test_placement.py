"""Who hurts whom, which programs to put together, and partitions that repair a pair."""

from dataclasses import replace

import numpy as np
import pytest

from msbgen.core.errors import ArgumentError
from msbgen.data.sharing import shared_by_all
from msbgen.systems.beside.course import play_durations
from msbgen.systems.beside.harm import find_harm
from msbgen.systems.beside.placement import best_partition, choose_placement

SOCKET = shared_by_all(1, ways=8, bandwidth=100.0)


@pytest.fixture(scope="module")
def several(tables):
    """Four programs: two that miss, and two that hardly do."""
    quiet = [
        replace(t, misses=0.05 * t.misses, reuse=0.05 * t.reuse, requests=0.05 * t.requests)
        for t in tables
    ]
    return [*tables, *quiet]


def test_harm_is_what_a_program_would_save(tables):
    sharing = shared_by_all(3, ways=8, bandwidth=100.0)
    three = [*tables, tables[0]]
    harm = find_harm(three, sharing)
    whole = play_durations(three, sharing)
    without = play_durations(three[:2], sharing.only([0, 1]))
    np.testing.assert_allclose(harm.by[:2, 2], whole[:2] - without)
    np.testing.assert_allclose(harm.by[0, 1], harm.by[2, 1])
    assert np.all(np.diag(harm.by) == 0)
    assert np.all(harm.by >= 0)
    assert np.all(harm.bandwidth > 0)
    unlimited = find_harm(tables, shared_by_all(2, ways=8))
    np.testing.assert_allclose(unlimited.bandwidth, 0.0, atol=1e-9)
    np.testing.assert_allclose(unlimited.cache, unlimited.by.sum(axis=1), atol=1e-9)


@pytest.mark.parametrize("objective", ["makespan", "slowdown", "deadlines"])
def test_the_best_pairing_is_the_best_of_all(several, objective):
    limits = [0.12, 0.12, 0.09, 0.2] if objective == "deadlines" else None
    found = choose_placement(several, 2, SOCKET, objective=objective, deadlines=limits)
    assert found.compared == 3
    sharing = shared_by_all(2, ways=8, bandwidth=100.0)
    values = []
    alone = np.array([play_durations([t], SOCKET)[0] for t in several])
    for groups in (((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2))):
        durations = np.empty(4)
        for group in groups:
            durations[list(group)] = play_durations([several[i] for i in group], sharing)
        by = {"makespan": 1.0, "slowdown": alone, "deadlines": np.array(limits or 1.0)}[objective]
        values.append((durations / by).max())
    np.testing.assert_allclose(found.value, min(values))
    np.testing.assert_allclose(found.worst, max(values))
    assert sorted(i for group in found.groups for i in group) == [0, 1, 2, 3]


@pytest.mark.parametrize(("n", "sockets", "many"), [(5, 2, 10), (4, 3, 6), (3, 1, 1), (6, 2, 10)])
def test_every_placement_is_compared_once(several, n, sockets, many):
    several = [*several, *several][:n]
    assert choose_placement(several, sockets, SOCKET).compared == many


def test_equal_groups_are_played_once(several):
    a, b, *_ = several
    mixed, calls = [b, a, b, a], []
    found = choose_placement(mixed, 2, SOCKET, progress=lambda *step: calls.append(step))
    assert calls == [(1, 3), (2, 3), (3, 3)]  # of six pairs
    again = choose_placement([replace(t) for t in mixed], 2, SOCKET)
    np.testing.assert_allclose(found.durations, again.durations, rtol=1e-12)
    assert (found.groups, found.compared) == (again.groups, again.compared)


def test_a_partition_repairs_a_pair_that_thrashes(several):
    # a stream without reuse displaces what the other would use again
    stream = several[1]
    reuse = np.zeros_like(stream.reuse)
    reuse[:, -1] = 3 * stream.requests
    misses = np.repeat(reuse.sum(axis=1, keepdims=True), stream.misses.shape[1], axis=1)
    stream = replace(stream, reuse=reuse, misses=misses, requests=reuse.sum(axis=1))
    sharing = shared_by_all(2, ways=6, afterwards="loop")
    found = best_partition([several[0], stream], sharing)
    assert len(found.sharing.ways) == 2
    assert found.sharing.ways[0] >= 4
    shared = play_durations([several[0], stream], sharing)
    assert found.durations[0] < shared[0]
    assert found.compared == 6


def test_sharing_stays_where_no_partition_is_better(several):
    found = best_partition([several[2], several[3]], shared_by_all(2, ways=8, bandwidth=100.0))
    assert found.value < 1.05
    split = best_partition(several[:2], SOCKET.only([0, 0]), split_bandwidth=True)
    assert split.compared == 1 + 7 * 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sockets": 4}, "sockets is 4 for 4 programs; fewer"),
        ({"sockets": 2, "objective": "speed"}, "objective is 'speed'; one of makespan"),
        ({"sockets": 2, "objective": "deadlines"}, "deadlines are missing; one for each"),
        ({"sockets": 2, "deadlines": [1.0]}, "4 times above 0 s are wanted"),
    ],
)
def test_placements_that_cannot_be_are_refused(several, arguments, message):
    with pytest.raises(ArgumentError, match=message):
        choose_placement(several, sharing=SOCKET, **arguments)
    with pytest.raises(ArgumentError, match="1 programs are given"):
        best_partition(several[:1], SOCKET)
