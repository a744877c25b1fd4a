"""The kernels of the virtual platform beside slow references."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

import oracles
from msbgen.sources.platform import _kernels


@given(
    steps=st.lists(st.integers(1, 5), min_size=1, max_size=8),
    rho=st.floats(0.0, 0.99),
    seed=st.integers(0, 1000),
)
def test_noise_is_the_mean_of_a_stationary_autoregression(steps, rho, seed):
    draws = np.random.default_rng(seed).standard_normal(sum(steps))
    noise = np.empty(len(steps))
    _kernels.correlated_noise(draws, np.array(steps), 0.3, rho, noise)
    # the state as a sum over all innovations before it, none of them lost
    lag = np.arange(len(draws))[:, None] - np.arange(len(draws))
    response = np.where(lag >= 0, rho ** np.maximum(lag, 0) * np.sqrt(1 - rho**2), 0.0)
    response[:, 0] = rho ** np.arange(len(draws))
    first = np.cumsum([0, *steps[:-1]])
    wanted = 0.3 * np.add.reduceat(response @ draws, first) / steps
    np.testing.assert_allclose(noise, wanted, atol=1e-12)
    # stationary: every state has variance 1
    np.testing.assert_allclose((response**2).sum(axis=1), 1.0, atol=1e-9)


# lengths and misses of intervals, in units of time
programs = st.lists(st.tuples(st.integers(1, 30), st.booleans()), min_size=1, max_size=8)
arrivals = st.lists(st.tuples(st.integers(0, 150), st.integers(1, 9)), max_size=5)


@given(
    program=programs,
    grant=st.integers(1, 12),
    period=st.integers(1, 25),
    ticks=st.tuples(st.integers(11, 60), st.integers(1, 60), st.integers(0, 5)),
    preemptions=arrivals,
    start=st.integers(0, 9),
    interval=st.integers(1, 40),
)
@example([(5, True), (5, True)], 5, 5, (60, 60, 0), [], 0, 5)  # everything at one instant
@example([(1, True)], 1, 1, (11, 1, 5), [(0, 9), (0, 3)], 9, 1)
def test_a_run_is_what_playing_it_unit_by_unit_gives(
    program, grant, period, ticks, preemptions, start, interval
):
    lengths, missing = (np.array(column, dtype=int) for column in zip(*program))
    tick_period, first_tick, cost = ticks
    horizon = 40 * (lengths.sum() + 10)
    every = range(first_tick, horizon, tick_period)
    interrupts = [(t, cost) for t in every] + preemptions
    ends = np.arange(1, 50_000) * interval
    end, seen = oracles.replay_by_ticks(
        *(lengths, missing, grant, period, interrupts, start, set(ends[ends < horizon].tolist()))
    )
    arrival = np.array([*sorted(preemptions), (np.inf, 0.0)], dtype=float)
    readings = np.zeros((end // interval + 2, 4))
    readings[:, 0] = ends[: len(readings)]
    events = np.stack([7 * lengths, 2 * lengths, missing * lengths], axis=1).astype(float)
    got, n = _kernels.replay_run(
        lengths.astype(float),
        events,
        np.array([period, period, grant], dtype=float),
        np.array([tick_period, first_tick, cost], dtype=float),
        arrival,
        float(start),
        float(interval),
        readings,
    )
    assert got == end
    assert n == -(-end // interval)
    at = np.array([seen[t] for t in ends[: n - 1]] + [lengths]).reshape(n, -1)
    # shares of an interval are rounded down, by floating point once too far
    cumulated = readings[:n, 1:].cumsum(axis=0)
    np.testing.assert_allclose(cumulated[:, 0], at @ np.full(len(lengths), 7), atol=1)
    np.testing.assert_allclose(cumulated[:, 2], at @ missing, atol=1)
    np.testing.assert_allclose(cumulated[:, 1], at @ (2 + missing), atol=2)
    np.testing.assert_array_equal(
        cumulated[-1], [7 * lengths.sum(), lengths @ (2 + missing), lengths @ missing]
    )


def test_too_little_room_is_said_and_nothing_is_written_outside():
    run = (np.ones(5), np.ones((5, 3)), np.array([1.0, 1.0, 9.0]), np.array([np.inf, np.inf, 0.0]))
    never, guard = np.array([[np.inf, 0.0]]), -7.0
    for room, wanted in ((1, -1), (3, -1), (6, 5)):
        memory = np.full((10, 4), guard)
        memory[:room, 0] = np.arange(1, room + 1)
        assert _kernels.replay_run(*run, never, 0.0, 1.0, memory[:room])[1] == wanted
        assert np.all(memory[room:] == guard)
    soon = np.array([[0.5, 0.1], [0.7, 0.1]])
    readings = np.zeros((9, 4))
    readings[:, 0] = np.arange(1, 10)
    assert _kernels.replay_run(*run, soon, 0.0, 1.0, readings)[1] == -1


# requests of one program: (gap of an interval, its lines and kinds)
sharers = st.lists(
    st.tuples(
        st.integers(1, 60),
        st.lists(st.tuples(st.sampled_from([0, 64, 128, 192, 5]), st.integers(0, 1)), min_size=1),
    ),
    min_size=1,
    max_size=6,
)


@given(
    programs=st.lists(st.tuples(st.integers(0, 300), sharers), min_size=1, max_size=3),
    ways=st.integers(1, 4),
    grant=st.sampled_from([0, 1, 3]),
    queue=st.booleans(),
)
def test_programs_that_share_a_cache_are_played_in_the_order_of_time(programs, ways, grant, queue):
    costs, service, lookahead = [3, 1, 20, 7], 31 * queue, 40
    wanted = oracles.shared_cache_run(
        [(start, intervals, costs) for start, intervals in programs],
        *(ways, grant, service, lookahead),
    )
    n = len(programs)
    intervals = [one for _, own in programs for one in own]
    requests = [request for _, own in intervals for request in own]
    each = [[sum(len(r) for _, r in own), len(own), 4] for _, own in programs]
    first = np.concatenate([[[0, 0, 0]], np.cumsum(each, axis=0)])
    line, kind = (np.array(column) for column in zip(*requests))
    events = np.array([(len(own), len(own)) for _, own in intervals], dtype=float)
    steps = np.array([gap * len(own) for gap, own in intervals], dtype=float)
    never = np.full((n, 3), np.finfo(float).max)
    readings = np.full((n, 2, 7), np.inf)
    ends = np.empty(n)
    many = _kernels.replay_shared(
        (line.astype(np.uint32), kind.astype(np.uint8), np.zeros((1, first[-1, 2]), np.uint16)),
        (
            *(first, steps, events, np.tile(np.array(costs, dtype=float), (n, 1))),
            *(np.array([float(start) for start, _ in programs]), np.zeros((n, 3), np.int64)),
        ),
        np.array([[grant or np.inf, 100.0, 0.0, float(service), float(lookahead)]]),
        (np.full((1, 64, ways), -1, np.int64), np.array([ways])),
        (never, np.full((n, 1, 2), np.inf)),
        readings,
        ends,
    )
    assert many.tolist() == [1] * n
    for i, (end, hits, misses) in enumerate(wanted):
        counts = readings[i, 0, 1:6]
        assert (counts[1:3].sum(), counts[3:5].sum()) == (hits, misses)
        assert abs(ends[i] - end) < 1e-6
        assert round(counts[0]) == hits + misses
