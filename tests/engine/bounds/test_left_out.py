"""Left-out predictions: what they may know, how far they reached, what a file may hold."""

from dataclasses import replace

import numpy as np
import pytest

import oracles
import partials
from forged import restored
from held import WithStates, grid_groups, left_out
from msbgen.core.errors import ArgumentError, MeasurementError, ProfileError
from msbgen.data.profiles import Profiles
from msbgen.engine.bounds.left_out import leave_out
from msbgen.engine.bounds.model import calibrate_model
from msbgen.engine.generate.elapsed_distribution import ElapsedSettings
from msbgen.engine.generate.fit import fit_profiles


def test_each_context_alone_and_each_inner_level_is_left_out(calibration, grid):
    held = calibration.left_out
    alone, levels = held.lacks[:25], held.lacks[25:]
    np.testing.assert_array_equal(alone, np.eye(25, dtype=bool))
    assert len(levels) == 6 * 5  # three inner levels of either resource
    for context, group in zip(held.context[25:], levels):
        column = np.flatnonzero(np.ptp(grid[group], axis=0) == 0).item()
        np.testing.assert_array_equal(group, grid[:, column] == grid[context, column])
        assert grid[:, column].min() < grid[context, column] < grid[:, column].max()
    assert held.weight.sum() == pytest.approx(1)
    np.testing.assert_allclose(held.weight[:25], 1 / 31)  # each group has one vote
    np.testing.assert_allclose(held.weight[25:], 1 / 31 / 5)
    assert np.all(held.lacks[np.arange(55), held.context])


@pytest.mark.parametrize("folds", [None, 4])
def test_predictions_do_not_depend_on_the_left_out_runs(task, model, folds):
    distribution, counts = model.distribution, Profiles.of(task).counts
    states = distribution.known_states()
    other = states.copy()
    other[12] *= 1.5
    one, two = (
        leave_out(WithStates(distribution, s), counts, folds=folds, rng=3) for s in (states, other)
    )
    # those left out alone are predicted by the trend, which is not fitted again
    together = one.lacks.sum(axis=1) > 1
    untouched = one.lacks[:, 12]
    assert (together & untouched).any()
    for row in np.flatnonzero(together):
        assert np.array_equal(one.predicted[row], two.predicted[row]) == untouched[row]


def with_trend(distribution, trend):
    return replace(distribution, centre=replace(distribution.centre, trend=trend))


def test_a_time_model_is_fitted_without_the_left_out_contexts(task, model, grid):
    trend = model.distribution.centre.trend
    assert trend.time_model
    held = leave_out(model.distribution, Profiles.of(task).counts)
    alone = held.lacks.sum(axis=1) == 1
    wanted = model.distribution.centre.left_out_alone.reshape(25, 5, 8, -1).sum(axis=2)
    np.testing.assert_allclose(held.predicted[alone], wanted)
    level = grid[:, 0] == 4.0
    (rows,) = np.nonzero((held.lacks == level).all(axis=1))
    states = model.distribution.known_states()
    without = replace(
        trend,
        contexts=grid[~level],
        sums=tuple(replace(whole, contexts=grid[~level]) for whole in trend.sums),
    ).refit(states[~level])
    assert not np.array_equal(without.time_model[0].parts, trend.time_model[0].parts)
    others = model.distribution.centre.of_others(np.flatnonzero(~level), states[~level], without)
    wanted = others.amounts(grid[level], others.log_weights(grid[level]))
    wanted = wanted.reshape(5, 5, 8, -1).sum(axis=2)
    np.testing.assert_allclose(held.predicted[rows, :, 0], wanted[..., 0])
    totals = (amounts.sum(axis=1) for amounts in (held.predicted[rows], wanted))
    np.testing.assert_allclose(*totals)  # within a run, counts are deconvolved anew
    measured = states[level].reshape(5, 5, 8, -1).sum(axis=2)
    assert np.abs(np.log(held.predicted[rows] / measured))[..., 0].mean() < 0.05


def test_contexts_left_out_alone_are_predicted_as_without_them(task, model):
    """In closed form; the parameters and the mean of the trend are those of all contexts."""
    distribution = with_trend(
        model.distribution, replace(model.distribution.centre.trend, sums=(), time_model=())
    )
    held, centre = leave_out(distribution, Profiles.of(task).counts), distribution.centre
    trend, states = centre.trend, centre.trend.states
    z = trend.scaled(trend.contexts)
    for i in (0, 12, 24):
        kept = np.arange(25) != i
        assert not trend.caps
        for k in range(3):
            log = np.log(states[..., k] + trend.offset[k])
            wanted = oracles.kriging_mean(
                z[kept], z[i], trend.lengths[k], trend.nugget[k], log[kept]
            )
            amount = np.exp(wanted) - trend.offset[k]
            apart = centre.scaled_contexts[kept] - centre.scaled_contexts[i]
            weight = np.exp(-0.5 * (apart**2).sum(axis=1))
            departed = amount * np.exp(weight @ centre.context_residual[kept, :, k] / weight.sum())
            got = held.predicted[i, :, k]
            np.testing.assert_allclose(got, departed.reshape(5, 8).sum(axis=1), rtol=2e-3)


def test_random_folds_partition_the_contexts_and_equal_seeds_give_equal_folds(task, model):
    counts = Profiles.of(task).counts
    held = leave_out(model.distribution, counts, folds=3, rng=0)
    assert sorted(held.context) == list(range(25))
    assert set(held.lacks.sum(axis=1)) == {8, 9}
    again = leave_out(model.distribution, counts, folds=3, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(held.lacks, again.lacks)
    np.testing.assert_array_equal(held.predicted, again.predicted)
    other = leave_out(model.distribution, counts, folds=3, rng=1)
    assert not np.array_equal(held.lacks, other.lacks)


def test_progress_counts_the_groups(task, model):
    calls = []
    leave_out(model.distribution, Profiles.of(task).counts, progress=lambda *c: calls.append(c))
    assert calls == [(i, 31) for i in range(1, 32)]


@pytest.mark.parametrize("folds", [0, 1, 2.5, 26, -3])
def test_impossible_numbers_of_folds_are_refused(task, model, folds):
    with pytest.raises(ArgumentError, match=f"folds is {folds}; 2 to 25"):
        leave_out(model.distribution, Profiles.of(task).counts, folds=folds)


def test_laws_without_a_trend_over_contexts_are_refused(task, quick):
    few = task.isel(context=slice(0, 6))
    counts = Profiles.of(few).counts
    with pytest.raises(ArgumentError, match="default preset is wanted"):
        leave_out(fit_profiles(few, ElapsedSettings(snapshot_interval=0.1)).distribution, counts)
    wall = fit_profiles(few.assign_attrs(progress="time"), quick)
    with pytest.raises(MeasurementError, match="wall time"):
        leave_out(wall.distribution, counts)


def test_deviation_is_that_of_the_trend_without_the_left_out_contexts(calibration):
    held = calibration.left_out
    z, trend = held.trend.scaled(held.trend.contexts), held.trend
    for row in (0, 7, 30, len(held.context) - 1):
        kept, mine = ~held.lacks[row], z[held.context[row]]
        wanted = oracles.kriging_deviation(z[kept], mine, trend.lengths[0], trend.nugget[0])
        assert held.deviation[row] == pytest.approx(wanted, rel=1e-4, abs=1e-5)


def test_deviation_of_new_contexts_is_that_of_the_trend(calibration, between):
    held = calibration.left_out
    z, trend = held.trend.scaled(held.trend.contexts), held.trend
    for context in between[:4]:
        (mine,) = trend.scaled(context[None])
        wanted = oracles.kriging_deviation(z, mine, trend.lengths[0], trend.nugget[0])
        assert held.query(context[None]).deviation == pytest.approx(wanted, rel=1e-4, abs=1e-5)


def test_weights_of_neighbours_fall_with_distance_and_are_zero_when_left_out(calibration, between):
    held, trend = calibration.left_out, calibration.left_out.trend
    known = trend.scaled(trend.contexts)
    metric = np.exp(np.mean([np.log(lengths) for lengths in trend.lengths], axis=0))

    def distance(a, b):
        return float(np.sqrt(sum(((x - y) / s) ** 2 for x, y, s in zip(a, b, metric))))

    nearest = [min(distance(known[i], known[j]) for j in range(25) if j != i) for i in range(25)]
    radius = 1.5 * np.median(nearest)
    near = held.query(between).near
    for row, z in zip(near, trend.scaled(between)):
        wanted = [np.exp(-0.5 * (distance(z, other) / radius) ** 2) + 1e-6 for other in known]
        np.testing.assert_allclose(row, wanted, rtol=1e-9)
    of_rows = held.left_out_rows.near
    assert np.all(of_rows[held.lacks] == 0)
    assert np.all(of_rows[~held.lacks] > 0)


def test_the_gap_is_the_distance_to_the_levels_of_one_resource(calibration, grid):
    held, trend = calibration.left_out, calibration.left_out.trend
    query = np.array([(3.0, 1.5), (3.0, 1.35), (5.0, 1.35), (5.0, 1.0)])
    gap = held.query(query).gap
    np.testing.assert_array_equal(gap > 0, [(0, 0), (0, 1), (1, 1), (1, 0)])
    assert gap[2, 0] == gap[3, 0]
    z, known = trend.scaled(query), trend.scaled(trend.contexts)
    for r in (0, 1):
        levels = np.unique(known[:, r])[:, None]
        wanted = oracles.kriging_deviation(levels, z[2, [r]], trend.lengths[0, [r]], 1e-6)
        # rounding moves it by as much: the covariance of levels is nearly singular
        assert gap[2, r] == pytest.approx(wanted, rel=1e-3, abs=2e-4)
    level = next(rows for r, rows in held.levels if r == 1)
    assert np.all(held.left_out_rows.gap[level, 1] > 0)
    assert np.all(held.left_out_rows.gap[level, 0] == 0)


def test_levels_weigh_twice_as_much_as_contexts_alone_among_those_like_new(calibration, grid):
    held = calibration.left_out
    measured, share = held.like_new(1)
    alone = held.alone[held.row[measured]]
    assert share[~alone].sum() == pytest.approx(2 / 3)
    context = held.context[held.row[measured]][alone]
    ends = ((grid == grid.min(axis=0)) | (grid == grid.max(axis=0))).sum(axis=1)
    weight = share[alone] / share[alone].max()
    np.testing.assert_allclose(weight, 0.5 ** ends[context])


WAYS = (1.0, 2.0, 4.0, 8.0)
GRID = [(w, f) for w in WAYS for f in (1.0, 1.5, 2.3)]
FOURTHS = [[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7, 11]]
# A name, contexts, groups, queries that were tested, and some that were not.
TESTED = [
    ("one level", [(w, 2.3) for w in WAYS], None, [(3, 2.3), (8, 2.3 + 1e-12)],
     [(4, 1.2), (3, 2.31)]),
    ("between two levels", [(w, f) for w in WAYS for f in (1, 2)], None, [(3, 1), (3, 2)],
     [(4, 1.5), (3, 1.99)]),
    ("a grid", GRID, None, [(3, 1.2), (1, 2.3)], [(8.5, 2), (3, 0.99), (0.9, 2.4)]),
    ("random groups", GRID, FOURTHS, [(2, 1.5)], [(3, 1.5), (2, 1.7)]),
    # left out alone, 1 lies 1 below the rest and 16 lies 8 above, in a coordinate of octaves 1/4
    ("scattered", [(1,), (2,), (4,), (8,), (16,)], None, [(3,), (31.9,), (0.51,)],
     [(32.1,), (0.49,)]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("contexts", "groups", "tested", "untested"),
    [row[1:] for row in TESTED],
    ids=[row[0] for row in TESTED],
)
def test_what_lies_beyond_all_that_was_left_out_is_untested(contexts, groups, tested, untested):
    runs = [np.ones(2)] * len(contexts)
    held = left_out(contexts, runs, groups=groups or grid_groups(contexts))
    assert not held.untested(np.array(tested, dtype=float)).any()
    assert held.untested(np.array(untested, dtype=float)).all()


def put(name, index, value):
    def mutate(arrays, _):
        arrays[name] = arrays[name].astype(float)
        arrays[name][index] = value

    return mutate


def change(name, how):
    def mutate(arrays, _):
        arrays[name] = how(np.asarray(arrays[name]))

    return mutate


@pytest.mark.parametrize(
    ("mutate", "message"),
    [
        (lambda a, _: a.pop("deviation"), "'deviation' is missing"),
        (change("state", lambda x: x[::2]), r"'state' is of 110 pairs; 220 is wanted"),
        (change("predicted", lambda x: x[..., :2]), "shape of variable 'state' is"),
        (change("weight", lambda x: x.astype("U")), "type of variable 'weight'"),
        (change("context", lambda x: x + 0.5), "type of variable 'context'"),
        (change("context", lambda x: x[None]), r"'context' is \(1, 55\)"),
        (change("lacks", lambda x: x[:, :20]), "'context' holds 20; 0 to 19"),
        (put("context", 3, 25), "'context' holds 25.0; 0 to 24"),
        (put("context", 3, 4), "'lacks' is all of them or not a row's own"),
        (put("lacks", 3, 1), "'lacks' is all of them"),
        (put("lacks", (0, 1), 2), "'lacks' holds 2.0; 0 to 1"),
        (put("deviation", 0, np.nan), "'deviation' holds nan"),
        (put("weight", 0, 0.9), "'weight' is of sum 1.8"),
        (put("predicted", 0, 0.0), "'predicted' is 0 for the time of a row"),
        (put("state", (0, 0, 0), -1.0), "'state' holds -1"),
        (put("state", (0, 0, 0), np.nan), "'state' is NaN for a time"),
    ],
)
def test_damaged_calibrations_are_refused_in_one_sentence(model, calibration, mutate, message):
    held = calibration.left_out
    assert np.array_equal(restored(held, model).predicted, held.predicted)
    with pytest.raises(ProfileError, match=message) as error:
        restored(held, model, change=mutate)
    assert "\n" not in str(error.value)


def test_runs_that_were_cut_do_not_enter_bounds(task, quick, grid):
    places = [(2, 0), (2, 1), *((7, r) for r in range(4))]
    spoilt = partials.cut(task.copy(deep=True), places)
    model = fit_profiles(spoilt, quick)
    held = leave_out(model.distribution, Profiles.of(spoilt).counts)
    ended = spoilt["complete"].values == 1
    np.testing.assert_array_equal(held.duration, spoilt["duration"].values[ended])
    np.testing.assert_array_equal(held.n_runs, ended.sum(axis=1))
    assert 7 not in held.context  # nobody knows how long it takes
    assert 2 in held.context
    assert held.weight.sum() == pytest.approx(1.0)
    assert len(held.state) == len(held.row)
    calibrated = calibrate_model(model, spoilt)
    assert calibrated.bounds(grid[[2, 7]], 0.1)["extrapolated"].values.tolist() == [0, 1]


def test_a_counter_of_some_runs_has_bounds_and_bands_from_these(task, quick, grid):
    grouped = partials.in_groups(task.copy(deep=True))
    calibrated = calibrate_model(fit_profiles(grouped, quick), grouped)
    held = calibrated.calibration.left_out
    holds, share = held.measuring(2)
    np.testing.assert_array_equal(holds, np.isfinite(held.state[:, 0, 2]))
    assert holds.mean() == pytest.approx(0.5)
    assert share.sum() == pytest.approx(1.0)
    of_misses = held.of_total(2)
    np.testing.assert_allclose(
        of_misses.duration, np.nansum(grouped["cache_misses"][:, 1::2], axis=2).ravel(), rtol=1e-5
    )
    assert of_misses.weight.sum() == pytest.approx(1.0)
    # as many of the runs that hold it are inside as of those of the whole measurement
    lower, upper = calibrated.calibration.bands(grid, 0.1, holds="segment")
    inside = (held.state > lower[held.context[held.row]]) & (
        held.state < upper[held.context[held.row]]
    )
    assert inside[holds, :, 2].mean() > 0.9
