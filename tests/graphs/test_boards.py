import numpy as np
import pytest

from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.graphs.boards import Board, placements, prepare_graph, schedule
from msbgen.graphs.dataset import edges_of
from msbgen.graphs.dataset import make as make_graph
from msbgen.graphs.devices import device_contexts
from toy_board import CYCLES, MOVED, device_of, layered, seconds_of

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


def test_time_never_beats_the_critical_path_nor_work_over_capacity(board):
    contexts = device_contexts(board.device)
    rows = board.rows(contexts)
    for seed in range(5):
        graph = layered("abc", seed)
        prepared = prepare_graph(graph, board.kinds)
        times = schedule(prepared, board.arrays, rows, np.full(len(rows), 25.0))[:, 0]
        least = [kind.at(8, 800, 2.0)[0] for kind in board.kinds]
        alone = prepared.work * np.array(least)[prepared.kind]
        longest = -prepared.amounts[..., 1].min()  # upward rank of the first task
        assert np.all(times >= longest * (1 - 1e-9))
        cores = rows[:, 1] + rows[:, 3]
        assert np.all(times * cores >= alone.sum() * (1 - 1e-9))


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


def test_the_order_in_a_file_and_names_change_nothing(board):
    for family in ("abcd", "abc"):
        graph = layered(family, 3)
        n = graph.sizes["task"]
        order = np.random.default_rng(0).permutation(n)
        edges = np.argsort(order)[edges_of(graph)][::-1]
        same = make_graph(
            graph["kind"].values[order],
            graph["work"].values[order],
            [tuple(edge) for edge in edges.tolist()],
            names=[f"other{i}" for i in range(n)],
        )
        one, other = (prepare_graph(g, board.kinds) for g in (graph, same))
        for name in ("nodes", "successors", "amounts"):
            assert np.array_equal(getattr(one, name), getattr(other, name))
        assert np.array_equal(graph["work"].values[one.order], one.work)
        assert np.array_equal(same["work"].values[other.order], one.work)


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
