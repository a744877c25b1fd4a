"""Events and time by progress, from samples that are longer than phases."""

import numpy as np
import pytest

from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.data.build import join_profiles, make_profiles
from msbgen.data.profiles import Profiles
from msbgen.data.schema import (
    context_table,
    resource_names,
)
from msbgen.systems.beside.columns import Columns
from msbgen.systems.beside.sampled import (
    EDGES,
    STEPS,
    Samples,
    cost_of_events,
    even_edges,
    expected_time,
)
from msbgen.systems.beside.table import is_grid, program_table

# A program computes, misses in the third tenth of its work, and computes again.
BUSY = np.clip((EDGES - 0.2) / 0.1, 0, 1)
MISSES = {2.0: 8e4, 8.0: 2e4}


def profiles(ways, bandwidth, interval, runs=1):
    """Samples of the exact course, whose starts differ between runs."""
    step = np.diff(BUSY) * MISSES[ways]
    time = np.cumsum(np.diff(EDGES) * 0.1 + np.maximum(50e-9, 64e-6 / bandwidth) * step)
    time = np.append(0.0, time)
    counts, durations = [], []
    for run in range(runs):
        start = interval * run / runs
        duration = start + time[-1]
        at = np.minimum(np.arange(int(np.ceil(duration / interval)) + 1) * interval, duration)
        work = np.interp(at - start, time, EDGES)
        busy = np.interp(work, EDGES, BUSY)
        counts.append(np.diff([1e8 * work, 1e5 * busy, MISSES[ways] * busy], axis=1).T)
        durations.append(duration)
    longest = max(map(len, counts))
    table = np.full((1, runs, longest, 3), np.nan)
    for run, rows in enumerate(counts):
        table[0, run, : len(rows)] = rows
    return make_profiles(
        table, [durations], [[ways, bandwidth]], interval=interval,
        resources={"cache_ways": {"units": "1"}, "bandwidth": {"units": "MB s-1"}},
        counters={"instructions": {}, "cache_requests": {}, "cache_misses": {}},
        attrs={"task": "phases"},
    )  # fmt: skip


def test_events_with_some_ways_are_those_of_the_slowest_contexts():
    both = join_profiles([profiles(8.0, b, 0.005) for b in (2.0, 1e6)])
    found = Samples(Profiles.of(both), Columns()).events(np.array([0, 1]))[:, 2]
    np.testing.assert_allclose(found[-1], MISSES[8.0], rtol=1e-6)
    fast = Samples(Profiles.of(both), Columns()).events(np.array([1]))[:, 2]
    true = MISSES[8.0] * BUSY
    assert np.abs(found - true).max() < 0.5 * np.abs(fast - true).max()


def test_time_between_samples_passes_where_the_misses_are():
    samples = Samples(Profiles.of(profiles(2.0, 200.0, 0.02)), Columns())
    events = np.zeros((STEPS + 1, 4))
    events[:, 0], events[:, 1], events[:, 2] = 1e8 * EDGES, 1e5 * BUSY, MISSES[2.0] * BUSY
    true = 0.1 * EDGES + 64e-6 / 200 * MISSES[2.0] * BUSY
    costs = cost_of_events(events[None], true[None])
    np.testing.assert_allclose(costs @ [1e8, 2e4, MISSES[2.0]], true[-1], rtol=1e-6)
    evenly = samples.time(0, EDGES)
    found = samples.time(0, expected_time(events, costs, 64e-6 / 200))
    found, evenly = (t - t[0] for t in (found, evenly))
    assert np.abs(found - true).max() < 0.25 * np.abs(evenly - true).max()


@pytest.mark.parametrize("segments", [20, 100])
def test_segments_are_short_where_a_quiet_phase_ends(segments):
    edges = even_edges(1e5 * BUSY, 0.1 * EDGES + 0.02 * BUSY, segments)
    assert edges[0] == 0.0
    assert edges[-1] == 1.0
    assert np.all(np.diff(edges) > 0)
    for change in (0.2, 0.3):
        nearest = np.abs(edges - change).min()
        assert nearest < 0.25 / segments


def test_a_table_of_a_short_phase_has_its_misses_in_few_segments():
    every = [profiles(w, b, 0.005, runs=3) for w in (2.0, 8.0) for b in (20.0, 1e6)]
    table = program_table(join_profiles(every))
    middle = 0.5 * (table.progress[1:] + table.progress[:-1])
    inside = (middle > 0.19) & (middle < 0.31)
    assert table.misses[inside, 2].sum() > 0.9 * MISSES[2.0]
    assert inside.sum() > 0.4 * len(middle)
    np.testing.assert_allclose(table.misses[:, 2].sum(), MISSES[2.0], rtol=0.01)
    slow, fast = table.duration(2, 20.0), table.duration(2, 1e6)
    np.testing.assert_allclose([slow, fast], [0.1 + 64e-6 / 20 * 8e4, 0.1 + 50e-9 * 8e4], rtol=0.03)


def test_a_table_needs_no_grid_but_the_fewest_and_most_ways_without_a_limit():
    grid = [profiles(w, b, 0.005) for w in (2.0, 8.0) for b in (20.0, 1e6)]
    whole, part = program_table(join_profiles(grid)), program_table(join_profiles(grid[1:]))
    for bandwidth in (20.0, 50.0, 1e6):
        np.testing.assert_allclose(
            part.duration(2, bandwidth), whole.duration(2, bandwidth), rtol=0.01
        )
    with pytest.raises(MeasurementError, match=r"lacks 2 ways with 1e\+06 MB/s; the fewest and"):
        program_table(join_profiles([grid[0], *grid[2:]]))


def test_runs_without_a_counter_are_refused_and_no_grid():
    every = [profiles(w, b, 0.005, runs=2) for w in (2.0, 8.0) for b in (20.0, 1e6)]
    grid = join_profiles(every)
    assert is_grid(Profiles.of(grid))
    lacking = grid["cache_misses"].copy()
    lacking[{"context": 1, "run": 0}] = np.nan
    groups = grid.assign(cache_misses=lacking)
    assert not is_grid(Profiles.of(groups))
    with pytest.raises(
        MeasurementError, match=r"run 0 of context 1 \(cache_ways=2.*'cache_misses'"
    ):
        program_table(groups)
    # runs that were cut have no part in the table, nor counters that it does not read
    others = grid.assign(complete=(("context", "run"), [[1, 1], [0, 1], [1, 1], [1, 1]]))
    assert is_grid(Profiles.of(others.assign(cache_misses=lacking)))
    assert is_grid(Profiles.of(grid.assign(faults=lacking)))


def at_clocks(*clocks):
    """Profiles of a program over ways and bandwidths, as often as there are clocks."""
    grid = join_profiles([profiles(w, b, 0.005) for w in (2.0, 8.0) for b in (20.0, 1e6)])
    every = [
        grid.assign_coords(frequency=("context", [c] * 4, {"role": "resource", "units": "GHz"}))
        for c in clocks
    ]
    return join_profiles(every)


class Model:
    """A model whose known contexts are all that it needs."""

    def __init__(self, known, levels):
        self.known, self.contexts = known, context_table(known)
        self.resources = {name: {} for name in resource_names(known)}
        self.resources["frequency"] = {"levels": levels}

    def known_profiles(self, rows=None):
        return self.known.isel(context=rows)

    def generate(self, contexts, *, kind):
        other = np.unique(np.asarray(contexts)[:, -1])
        return at_clocks(*other)


def test_a_models_clock_is_the_only_measured_one(caplog):
    model = Model(at_clocks(2.0), [1.2, 2.0, 2.3])
    assert program_table(model).frequency == 2.0
    assert not caplog.messages
    assert program_table(model, 1.2).frequency == 1.2
    (text,) = caplog.messages
    assert text.startswith("phases: was measured at the clock 2 only; its times at the clock 1.2")
    two = Model(at_clocks(1.2, 2.3), [1.2, 2.0, 2.3])
    with pytest.raises(ArgumentError, match=r"has the clocks 1.2, 2.3; name one .*--clock"):
        program_table(two)
    caplog.clear()
    assert program_table(two, 2.0).frequency == 2.0
    assert not caplog.messages


def test_levels_that_no_other_program_shares_are_refused():
    grid = at_clocks(2.0)
    coordinate = ("context", [0.0, 1.0, 0.0, 1.0], {"role": "resource", "units": "1"})
    mode = grid.assign_coords(mode=coordinate)
    for source in (mode, Model(mode, [2.0])):
        with pytest.raises(MeasurementError, match="several levels of the resource 'mode'"):
            program_table(source)
    one = mode.assign_coords(mode=mode["mode"].copy(data=np.zeros(4)))
    np.testing.assert_array_equal(program_table(one).misses, program_table(grid).misses)
