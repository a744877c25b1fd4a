"""What hypothesis draws: clouds, weights, snapshots, texts."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays


def texts(**sizes):
    """Texts of all characters but surrogates.

    So are those of ``st.text``, which first tabulates what UTF-8 can encode, for two seconds.
    """
    return st.text(st.characters(exclude_categories=["Cs"]), **sizes)


def clouds(min_rows=1, max_rows=8, columns=None, largest=1e3):
    """Finite points, rows × columns."""
    width = st.integers(1, 3) if columns is None else st.just(columns)
    values = st.floats(-largest, largest, allow_nan=False, width=32)
    return st.tuples(st.integers(min_rows, max_rows), width).flatmap(
        lambda shape: arrays(np.float64, shape, elements=values)
    )


@st.composite
def snapshots(draw, *, min_count=2, max_count=4, max_points=6, max_dimension=3, decades=3):
    """Ragged snapshots in a small box, some points doubled: (points, positive weights)."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = draw(st.integers(min_count, max_count))
    dimension = draw(st.integers(1, max_dimension))
    points, weights = [], []
    for _ in range(count):
        size = draw(st.integers(1, max_points))
        cloud = rng.random((size, dimension))
        if size > 1 and draw(st.booleans()):
            cloud[-1] = cloud[0]
        points.append(cloud)
        weights.append(10.0 ** (-decades * rng.random(size)))
    return points, weights


# wide enough to reach from a near-product plan to a near-permutation one
epsilons = st.floats(-2.0, 1.0).map(lambda exponent: 10.0**exponent)


@st.composite
def measured_runs(draw, least_clock=0.0, max_intervals=8, counters=2):
    """One run: counts (n, counters), duration and interval; the clock moves at least once.

    With `least_clock` 0 the first counter may stand still over intervals.
    """
    n = draw(st.integers(1, max_intervals))
    events = st.floats(0.0, 1e4, allow_subnormal=False, width=32)
    counts = draw(arrays(np.float64, (n, counters), elements=events))
    still = draw(arrays(np.bool_, n)) if least_clock == 0 else np.zeros(n, dtype=bool)
    still[draw(st.integers(0, n - 1))] = False
    counts[:, 0] = np.where(still, 0.0, np.maximum(counts[:, 0], max(least_clock, 1.0)))
    interval = draw(st.sampled_from([0.01, 0.5, 1.0]))
    partial = draw(st.floats(0.05, 1.0))
    return counts, interval * (n - 1 + partial), interval


@st.composite
def recorded_runs(draw, max_intervals=12, colourings=2, ways=4):
    """Arrays of a trace: instructions, core cycles, fixed time [ns], distance histogram."""
    n = draw(st.integers(1, max_intervals))
    instructions = draw(arrays(np.int64, n, elements=st.integers(1_000, 9_000_000)))
    cycles = np.round(instructions * draw(arrays(float, n, elements=st.floats(0.3, 3)))) + 1
    fixed = draw(arrays(np.int64, n, elements=st.sampled_from([0, 0, 100, 50_000])))
    shape = (ways + 1, n, 2)
    first = draw(arrays(np.int64, shape, elements=st.sampled_from([0, 1, 30, 900, 20_000])))
    # other colourings move the same requests to other depths
    histogram = np.stack([np.roll(first, c, axis=0) for c in range(colourings)], axis=2)
    return instructions, cycles, fixed, histogram
