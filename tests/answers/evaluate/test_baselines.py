import numpy as np
import pytest
import xarray as xr

import oracles
import partials
from msbgen.answers.evaluate.baselines import BASELINES, bracketing, mean_profiles, multilinear
from msbgen.core.errors import MeasurementError
from msbgen.data.build import make_profiles
from msbgen.data.check import inspect_profiles
from msbgen.data.profiles import Profiles
from msbgen.data.schema import (
    context_table,
    duration_array,
)


def profile(dataset, row):
    counts = Profiles.of(dataset).counts[row, 0]
    return counts[np.isfinite(counts).all(axis=1)]


def test_mean_profile_counts_a_finished_run_as_zero(measured):
    mean = mean_profiles(measured)
    assert inspect_profiles(mean).errors == []
    counts = Profiles.of(measured).counts
    for c in range(measured.sizes["context"]):
        # so that events are conserved: the mean profile sums to the mean total
        total = np.nansum(counts[c], axis=1).mean(axis=0)
        np.testing.assert_allclose(profile(mean, c).sum(axis=0), total, rtol=1e-6)
        lengths = np.isfinite(counts[c, :, :, 0]).sum(axis=1)
        assert len(profile(mean, c)) == lengths.max()
    np.testing.assert_allclose(mean["duration"], measured["duration"].mean("run"))


@pytest.mark.parametrize("name", ["bracketing", "nearest_context", "multilinear"])
def test_a_known_context_gets_its_mean_profile(measured, name):
    generated = BASELINES[name](measured, context_table(measured))
    mean = mean_profiles(measured)
    for row in range(measured.sizes["context"]):
        np.testing.assert_allclose(profile(generated, row), profile(mean, row), rtol=1e-5)


@pytest.mark.parametrize("name", BASELINES)
def test_every_baseline_gives_a_valid_profile_dataset(measured, truth, name):
    generated = BASELINES[name](measured, context_table(truth))
    assert inspect_profiles(generated).errors == []
    np.testing.assert_array_equal(context_table(generated), context_table(truth))
    known = duration_array(measured).mean(axis=1)
    assert np.all((known.min() <= generated["duration"]) & (generated["duration"] <= known.max()))


def test_bracketing_takes_the_tightest_pair(measured):
    query = np.array([[5.0, 1.5]])
    generated = bracketing(measured, query)
    table = context_table(measured)
    low = np.flatnonzero((table == [4.0, 1.0]).all(axis=1))[0]
    high = np.flatnonzero((table == [8.0, 2.0]).all(axis=1))[0]
    mean = np.nan_to_num(Profiles.of(mean_profiles(measured)).counts[[low, high], 0]).mean(axis=0)
    np.testing.assert_allclose(profile(generated, 0), mean[: len(profile(generated, 0))], rtol=1e-5)
    duration = duration_array(measured).mean(axis=1)[[low, high]].mean()
    assert generated["duration"].item() == pytest.approx(duration)


def test_bracketing_is_undefined_where_nothing_brackets(measured):
    inner = measured.isel(context=slice(1, None))  # without the smallest context
    generated = bracketing(inner, np.array([[2.0, 1.0], [4.0, 1.0]]))
    assert np.isnan(generated["duration"].values).tolist() == [True, False]
    assert np.isnan(Profiles.of(generated).counts[0]).all()


def test_multilinear_is_exact_for_what_is_linear_in_the_contexts(measured):
    weights = multilinear(measured, np.array([[3.0, 1.25]]))
    table = context_table(measured)
    corners = [(2.0, 1.0), (2.0, 2.0), (4.0, 1.0), (4.0, 2.0)]
    rows = [np.flatnonzero((table == c).all(axis=1))[0] for c in corners]
    duration = duration_array(measured).mean(axis=1)[rows]
    expected = np.average(duration, weights=[0.375, 0.125, 0.375, 0.125])
    assert weights["duration"].item() == pytest.approx(expected)


def test_multilinear_on_scattered_contexts_is_barycentric(measured):
    scattered = measured.isel(context=[0, 1, 4, 3])
    table = context_table(scattered)
    duration = duration_array(scattered).mean(axis=1)
    centre = table[[0, 1, 3]].mean(axis=0, keepdims=True)
    inside = multilinear(scattered, centre)["duration"].item()
    assert duration.min() < inside < duration.max()
    at_vertex = multilinear(scattered, table[[2]])["duration"].item()
    assert at_vertex == pytest.approx(duration[2])


def by_kernel(known, profiles, query, factor):
    weights = oracles.scott_weights(known, query, factor)
    return np.tensordot(weights / weights.sum(), profiles, axes=1)


def left_out_error(known, profiles, factor):
    """Squared error of scaled mean profiles, every context predicted from the others.

    The bandwidth is that of all contexts.
    """
    scaled, error = profiles / profiles.max(axis=(0, 1)), 0.0
    for c, context in enumerate(known):
        weights = oracles.scott_weights(known, context, factor)
        weights[c] = 0.0
        guess = np.tensordot(weights / weights.sum(), scaled, axes=1)
        error += ((guess - scaled[c]) ** 2).sum()
    return error


@pytest.mark.parametrize("rough", [False, True])
def test_kernel_mean_equals_a_plain_kernel_regression(measured, rough):
    known = context_table(measured)
    if rough:  # context and profile have nothing to do with each other: the widest kernel is best
        order = [3, 0, 4, 1, 5, 2]
        shuffled = measured.isel(context=order)
        measured = shuffled.assign_coords(
            {
                n: ("context", measured[n].values, measured[n].attrs)
                for n in ("cache_ways", "frequency")
            }
        )
    profiles = np.nan_to_num(Profiles.of(mean_profiles(measured)).counts[:, 0])
    errors = {f: left_out_error(known, profiles, f) for f in (0.25, 0.5, 1.0, 2.0)}
    best = min(errors, key=errors.__getitem__)
    assert (best == 2.0) == rough, errors
    queries = np.array([[2.0, 1.0], [3.0, 1.7], [7.0, 1.1], [5.0, 1.5]])
    generated = BASELINES["kernel_mean"](measured, queries)
    duration = duration_array(measured).mean(axis=1)
    for row, query in enumerate(queries):
        got = profile(generated, row)
        wanted = by_kernel(known, profiles, query, best)
        np.testing.assert_allclose(got, wanted[: len(got)], rtol=1e-5)
        assert wanted[len(got) :].sum() < 0.02 * wanted.sum()
        assert generated["duration"].values[row] == pytest.approx(
            by_kernel(known, duration, query, best), rel=1e-9
        )


@pytest.mark.parametrize("name", BASELINES)
def test_a_single_known_context_answers_every_query(measured, name):
    one = measured.isel(context=[2])
    generated = BASELINES[name](one, context_table(one))
    mean = mean_profiles(one)
    if name not in ("log_log", "reciprocal"):  # which end at the mean duration
        np.testing.assert_allclose(profile(generated, 0), profile(mean, 0), rtol=1e-5)
    totals = (profile(dataset, 0).sum(axis=0) for dataset in (generated, mean))
    np.testing.assert_allclose(*totals, rtol=1e-5)
    np.testing.assert_allclose(generated["duration"], mean["duration"])


def test_a_counter_that_is_zero_everywhere_does_not_choose_the_bandwidth(measured):
    """Leaving a counter of zeros in or out changes no other counter."""
    silent = measured.copy()
    silent["cache_misses"] = 0.0 * measured["cache_misses"]
    silent["cache_misses"].attrs = measured["cache_misses"].attrs
    without = measured.drop_vars("cache_misses")
    wanted = BASELINES["kernel_mean"](without, [[3.0, 1.5]])
    got = BASELINES["kernel_mean"](silent, [[3.0, 1.5]])
    np.testing.assert_allclose(got["instructions"], wanted["instructions"])


def test_means_are_over_the_runs_that_hold_a_counter_and_until_they_were_cut():
    whole, grouped = partials.whole(), partials.in_groups(partials.whole())
    mean = mean_profiles(grouped)
    for name, runs in (("cache_requests", slice(0, None, 2)), ("cache_misses", slice(1, None, 2))):
        wanted = mean_profiles(whole.isel(run=runs))[name].values
        shared = min(wanted.shape[1], mean.sizes["time"])
        np.testing.assert_allclose(mean[name].values[:, :shared], wanted[:, :shared], rtol=1e-5)
    cut = partials.cut(partials.whole(), [(0, 1)])
    rows = int(np.isfinite(cut["instructions"].values[0, 1]).sum())
    own, others = whole["instructions"].values[0], np.delete(whole["instructions"].values[0], 1, 0)
    got = mean_profiles(cut)["instructions"].values[0]
    np.testing.assert_allclose(got[:rows], own[:, :rows].mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(
        got[rows : rows + 3], others[:, rows : rows + 3].mean(axis=0), rtol=1e-5
    )


@pytest.mark.parametrize("name", BASELINES)
def test_contexts_without_a_complete_run_are_not_used(name):
    spoilt = partials.cut(partials.whole(), [(4, r) for r in range(4)])
    kept = partials.whole().isel(context=[0, 1, 2, 3, 5, 6, 7, 8])
    requested = [[4.0, 1.5]]
    xr.testing.assert_identical(
        BASELINES[name](spoilt, requested), BASELINES[name](kept, requested)
    )
    every = [(c, r) for c in range(9) for r in (0, 2)]
    with pytest.raises(MeasurementError, match="in no context do runs that went on"):
        BASELINES[name](partials.cut(partials.in_groups(partials.whole()), every), requested)


@pytest.mark.parametrize(
    ("name", "law"),
    [
        ("log_log", lambda ways, clock: 0.3 * ways**-0.7 / clock),
        ("reciprocal", lambda ways, clock: 0.05 + 0.2 / ways + 0.1 / clock),
    ],
)
def test_what_follows_the_law_of_a_baseline_is_predicted_exactly(name, law):
    known = np.array([(w, f) for w in (2.0, 4.0, 8.0) for f in (1.0, 2.0)])
    query, interval = np.array([(3.0, 1.5), (6.0, 1.2)]), 0.001

    def made(contexts):
        seconds = law(*contexts.T)
        rows = np.ceil(seconds / interval - 1e-9).astype(int)
        counts = np.full((len(contexts), rows.max(), 1), np.nan)
        for row, n, total in zip(counts, rows, 1e6 * seconds):  # evenly over the run
            row[:n, 0] = total / n
        resources = {"ways": {"units": "1"}, "clock": {"units": "GHz"}}
        return make_profiles(
            counts, seconds, contexts, interval=interval, resources=resources,
            counters={"events": {}},
        )  # fmt: skip

    generated, wanted = BASELINES[name](made(known), query), made(query)
    np.testing.assert_allclose(generated["duration"], wanted["duration"], rtol=1e-6)
    totals = generated["events"].sum("time")
    np.testing.assert_allclose(totals, wanted["events"].sum("time"), rtol=1e-5)
    np.testing.assert_allclose(totals, 1e6 * law(*query.T), rtol=1e-5)


@pytest.mark.parametrize("name", ["log_log", "reciprocal"])
def test_a_level_that_is_not_positive_leaves_a_law_of_positive_ones_undefined(name):
    known = np.array([(w, f) for w in (2.0, 4.0, 8.0) for f in (1.0, 2.0)])
    resources = {"ways": {"units": "1"}, "clock": {"units": "GHz"}}

    def made(contexts):
        counts, seconds = np.ones((len(contexts), 3, 1)), np.full(len(contexts), 0.03)
        return make_profiles(
            counts, seconds, contexts, interval=0.01, resources=resources, counters={"events": {}}
        )

    generated = BASELINES[name](made(known), [(0.0, 1.5), (3.0, 1.5)])
    assert np.isfinite(generated["duration"].values).tolist() == [False, True]
    np.testing.assert_allclose(generated["events"].sum("time"), [0.0, 3.0])
    generated = BASELINES[name](made(known - [10, 0]), [(-5.0, 1.5), (3.0, 1.5)])
    assert np.isnan(generated["duration"]).all()
