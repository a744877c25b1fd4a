import dataclasses

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.systems.graphs.boards import Board, placements, prepare_graph, schedule
from msbgen.systems.graphs.dataset import edges_of
from msbgen.systems.graphs.dataset import make as make_graph
from msbgen.systems.graphs.devices import SHARES
from msbgen.systems.graphs.kinds import read_kinds
from msbgen.systems.graphs.simulator import Simulator
from toy_board import CYCLES, MOVED, device_of, layered, profiles_of, seconds_of

LARGEST = [2, 2.0, 2, 1.0, 8, 800]


def time_of(board, graph, context, **how):
    rows = board.rows([context])
    start = np.array([25.0])
    return schedule(prepare_graph(graph, board.kinds), board.arrays, rows, start, **how)[0, 0]


def test_one_task_takes_what_its_profile_says_of_all_that_is_given(board):
    for kind in CYCLES:
        graph = make_graph([kind], [0.5], [])
        wanted = 0.5 * seconds_of(kind, 4, 800, 1.0) + 2e-4  # dispatch at half the clock
        assert time_of(board, graph, [1, 1.0, 0, 0.5, 4, 800]) == pytest.approx(wanted)
        slow = 0.5 * seconds_of(kind, 8, 800, 0.8) + 2e-4
        assert time_of(board, graph, [0, 2.0, 1, 1.0, 8, 800]) == pytest.approx(slow)


def test_two_tasks_share_bandwidth_and_on_one_cluster_the_cache(board):
    graph = make_graph(["stream"] * 2, [1.0, 1.0], [])
    together = seconds_of("stream", 4, 400, 2.0) + 1e-4
    assert time_of(board, graph, [2, 2.0, 0, 0.5, 8, 800]) == pytest.approx(together)
    # one on each: caches of their own; the one on the swift core ends first
    apart = seconds_of("stream", 8, 400, 2.0) + 1e-4
    slow = seconds_of("stream", 8, 400, 0.8) + 2e-4
    left = 1 - (apart - 2e-4) / (slow - 2e-4)
    wanted = apart + left * seconds_of("stream", 8, 800, 0.8)
    assert time_of(board, graph, [1, 2.0, 1, 1.0, 8, 800]) == pytest.approx(wanted)


def test_a_share_may_be_fixed_at_the_start_or_for_each_core(kinds):
    boards = {shares: Board(device_of(shares=shares), kinds) for shares in SHARES}
    two = make_graph(["stream"] * 2, [1.0, 1.0], [])
    # the one on the slow core keeps its half of the bandwidth, although it ends alone
    slow = seconds_of("stream", 8, 400, 0.8) + 2e-4
    for shares in ("fixed", "partitioned"):
        assert time_of(boards[shares], two, [1, 2.0, 1, 1.0, 8, 800]) == pytest.approx(slow)
    one = make_graph(["stream"], [1.0], [])
    alone, parted = (seconds_of("stream", *share, 2.0) + 1e-4 for share in ((8, 800), (4, 200)))
    context = [2, 2.0, 2, 1.0, 8, 800]
    assert time_of(boards["fixed"], one, context) == pytest.approx(alone)
    assert time_of(boards["partitioned"], one, context) == pytest.approx(parted)
    # the second starts when the first ends, so that it finds the device empty
    line = make_graph(["stream"] * 2, [1.0, 1.0], [(0, 1)])
    assert time_of(boards["fixed"], line, context) == pytest.approx(2 * alone)


def test_a_cache_of_the_device_is_shared_by_all(kinds):
    board = Board(device_of(shared_by="device"), kinds)
    graph = make_graph(["stream"] * 2, [1.0, 1.0], [])
    first = seconds_of("stream", 4, 400, 2.0) + 1e-4
    slow = seconds_of("stream", 4, 400, 0.8) + 2e-4
    left = 1 - (first - 2e-4) / (slow - 2e-4)
    wanted = first + left * seconds_of("stream", 8, 800, 0.8)
    assert time_of(board, graph, [1, 2.0, 1, 1.0, 8, 800]) == pytest.approx(wanted)


def test_joules_are_those_of_cycles_stalls_and_misses(board):
    core, stall, miss = (table[1, 0, 2, 1, 1] for table in board.joules)
    for k, kind in enumerate(sorted(CYCLES)):
        busy = CYCLES[kind] / 2.0
        assert core[k] == pytest.approx(2.0 * busy)
        # a core that waits draws half of its 2 W
        assert stall[k] == pytest.approx(seconds_of(kind, 8, 800, 2.0) - busy, abs=1e-9)
        lines = MOVED[kind] * 0.6 * 1e6 / 64 + 1
        assert miss[k] == pytest.approx(lines * 50e-9, rel=1e-6)


def test_ranks_are_the_heaviest_paths_to_the_end(kinds):
    graph = make_graph(["busy"] * 4, [1, 2, 5, 1], [(0, 1), (0, 2), (1, 3), (2, 3)])
    prepared = prepare_graph(graph, kinds)
    ranks = np.array([-3.5, -1.5, -3.0, -0.5])
    assert prepared.amounts[0, :, 1] == pytest.approx(ranks[prepared.order])


def test_the_longest_path_goes_first_by_rank(board):
    graph = make_graph(["busy"] * 3, [1.0, 1.0, 4.0], [])
    context = [2, 2.0, 0, 0.5, 8, 800]
    assert time_of(board, graph, context, ranked=True) == pytest.approx(2.0 + 1e-4, rel=1e-3)
    # of orders and the same from the back, the long one is last in one or in none
    orders = prepare_graph(graph, board.kinds).amounts[..., 0]
    wanted = np.where(orders[:, 2] == 4.0, 2.5, 2.0).mean()
    assert time_of(board, graph, context) == pytest.approx(wanted, rel=1e-3)


def test_each_order_is_the_same_graph(board):
    graph = layered("abcd", 2)
    prepared = prepare_graph(graph, board.kinds)
    edges = edges_of(graph)
    work = graph["work"].values
    wanted = sorted((work[u], work[v]) for u, v in edges)
    seen = set()
    for nodes, successors, amounts in zip(prepared.nodes, prepared.successors, prepared.amounts):
        source = np.repeat(np.arange(len(work)), np.diff(nodes[:, 0]))
        assert sorted(zip(amounts[source, 0], amounts[successors, 0])) == wanted
        assert np.array_equal(nodes[:-1, 1], np.bincount(successors, minlength=len(work)))
        seen.add(tuple(amounts[:, 0]))
    assert len(seen) == len(prepared.nodes)


def test_placements_say_where_and_when(board):
    graph = prepare_graph(make_graph(["busy"] * 2, [1.0, 1.0], [(0, 1)]), board.kinds)
    result = placements(graph, board.arrays, board.rows([LARGEST])[0], 25.0)
    assert result[:, 2].tolist() == [0, 0]
    assert result[1, 0] == pytest.approx(result[0, 1])
    assert result[1, 1] == pytest.approx(1.0 + 2e-4)


def test_shares_outside_the_profiles_are_marked(kinds, board):
    graph = prepare_graph(layered("abc", 0), kinds)
    rows = board.rows([LARGEST, [0, 2.0, 1, 0.5, 4, 800]])
    # the slow clock is 0.4 GHz of the profiles' processor, which they do not go down to
    assert board.outside(graph, rows).tolist() == [False, True]
    few = Board(device_of(bandwidth=(300.0,)), kinds)
    rows = few.rows([[2, 2.0, 1, 1.0, 8, 300], [2, 2.0, 2, 1.0, 8, 300]])
    assert few.outside(graph, rows).tolist() == [False, True]  # 300 / 4 is below 100


def test_what_is_no_context_and_a_kind_without_profile_are_refused(board):
    with pytest.raises(ArgumentError, match="clock_big is 1"):
        board.rows([[1, 1.7, 0, 1.0, 8, 800]])
    with pytest.raises(ProfileError, match="of kind 'bussy', which has no profile; did you mean"):
        prepare_graph(make_graph(["bussy"], [1.0], []), board.kinds)


@given(st.sampled_from(sorted(CYCLES)), st.floats(1, 8), st.floats(100, 800), st.floats(0.2, 4))
def test_durations_between_levels_and_beyond_clocks_are_those_of_the_law(kind, w, b, f):
    (table,) = TABLES[kind]
    seconds, _ = table.at(w, b, f)
    assert seconds == pytest.approx(max(seconds_of(kind, w, b, f), 0), rel=1e-9)


TABLES = {kind: read_kinds({kind: profiles_of(kind)}) for kind in CYCLES}


def test_beyond_cache_and_memory_the_last_level_counts_and_is_told():
    (table,) = TABLES["stream"]
    assert table.at(0.1, 400, 1.0)[0] == pytest.approx(seconds_of("stream", 1, 400, 1.0))
    assert table.at(8, 5000, 1.0)[0] == pytest.approx(seconds_of("stream", 8, 800, 1.0))
    out = table.outside([0.5, 2, 2, 2, 2], [400, 50, 400, 400, 400], [1, 1, 3, 0.4, 2])
    assert out.tolist() == [True, True, True, True, False]


def test_misses_and_core_cycles_come_with_durations():
    (table,) = TABLES["mixed"]
    misses = table.at(np.array([1.0, 3.0]), 400, 1.0)[1]
    assert misses == pytest.approx(20e6 / 64 * np.array([0.95, 0.85]) + 1, rel=1e-6)
    assert table.cycles == pytest.approx(CYCLES["mixed"])
    # slower at higher clocks: no slope is of core cycles, and models take the logarithm
    back = dataclasses.replace(table, seconds=table.seconds[..., ::-1])
    assert 0 < back.cycles < 0.01 * CYCLES["mixed"]


def test_kinds_stand_in_the_order_of_their_names_whatever_was_given(profiles):
    turned = dict(reversed(profiles.items()))
    assert [kind.name for kind in read_kinds(turned)] == sorted(CYCLES)


def test_profiles_without_misses_have_none(profiles):
    (table,) = read_kinds({"mixed": profiles["mixed"].drop_vars("cache_misses")})
    assert np.all(table.misses == 0)
    assert np.all(table.seconds > 0)


def test_a_missing_run_does_not_count(profiles):
    some = profiles["mixed"].copy(deep=True)
    for name in ("duration", "instructions", "cache_misses"):
        some[name][3, 1] = np.nan
    (table,), (whole,) = read_kinds({"mixed": some}), TABLES["mixed"]
    assert np.allclose(table.seconds, whole.seconds)
    assert np.allclose(table.misses, whole.misses)


def dropped(profiles, name):
    one = profiles["busy"]
    return one.isel(context=one[name].values == one[name].values[0]).drop_vars(name)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda p: dropped(p, "frequency"), "resource 'frequency' is missing"),
        (lambda p: p["busy"].isel(context=slice(1, None)), "cache_ways=1, bandwidth=100, freq"),
        (lambda p: renamed(p["busy"]), "units 'MHz'; 'GHz' is wanted"),
        (lambda p: xr.Dataset(), "schema"),
    ],
)
def test_profiles_that_are_no_grid_of_the_three_are_refused(profiles, change, sentence):
    with pytest.raises(ProfileError, match=sentence):
        read_kinds({"busy": change(profiles)})


def renamed(one):
    attrs = {**one["frequency"].attrs, "units": "MHz"}
    return one.assign_coords(frequency=one["frequency"].assign_attrs(attrs))


def test_a_resource_that_no_device_has_and_no_profiles_at_all_are_refused(profiles):
    one = profiles["busy"]
    label = {"units": "W", "role": "resource", "long_name": "cap", "levels": [5.0, 6.0]}
    more = one.assign_coords(power=("context", np.full(one.sizes["context"], 5.0), label))
    with pytest.raises(ProfileError, match="no device sheet has 'power'"):
        read_kinds({"busy": more})
    with pytest.raises(ProfileError, match="one kind at least"):
        read_kinds({})


def test_more_bandwidth_never_slows_a_chain_but_may_reorder_a_graph(profiles, kinds):
    """Graham's anomaly: one task ends earlier, so that the long one gets a core later."""
    device = device_of(bandwidth=(400.0, 800.0), cache_ways=(8.0,))
    board, simulator = Board(device, kinds), Simulator(device, profiles)
    contexts = np.array([[2, 2.0, 0, 0.5, 8, b] for b in device.bandwidth])
    work = [5.0, 2.4, 5.0, 5.0, 10.0]
    for edges, change in (
        ([(i, i + 1) for i in range(4)], (0.9, 0.99)),
        ([(0, 2), (0, 3), (1, 4)], (1.1, 1.3)),
    ):
        graph = make_graph(["stream"] + ["busy"] * 4, work, edges)
        predicted = np.array([time_of(board, graph, context) for context in contexts])
        truth = simulator.run(graph, contexts, noise=False).makespan[:, 0]
        assert predicted == pytest.approx(truth, rel=0.02)
        assert change[0] < predicted[1] / predicted[0] < change[1]
