"""The distribution at equal progress, on arrays: a trend, and a bridge of its residuals."""

import threading
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import oracles
from msbgen.core.errors import ArgumentError, MeasurementError, ProfileError
from msbgen.core.parts import arrays_and_table
from msbgen.data.check import inspect_profiles
from msbgen.data.schema import counter_names
from msbgen.engine.bridge.paths import Chain
from msbgen.engine.bridge.solve import NotConvergedError
from msbgen.engine.generate.fit import fit_profiles
from msbgen.engine.generate.model import ProfileModel
from msbgen.engine.generate.progress_distribution import ProgressSettings
from tasks import (
    GRID,
    INSTRUCTIONS,
    INTERVAL,
    SMALL,
    TIME,
    answer,
    fit_distribution,
    kernel_weights,
    labelled,
    padded,
    task,
    without,
)

KINDS = ("max_likelihood", "mean", "sample")


def test_known_contexts_get_nearly_their_mean_profile_and_duration(distribution, runs):
    counts, measured = runs
    generated, duration = answer(distribution, GRID, "mean")
    np.testing.assert_allclose(duration, measured.mean(axis=1), rtol=0.025)
    length = max(counts.shape[2], generated.shape[1])
    mean = padded(counts, length).mean(axis=1)
    away = np.abs(padded(generated, length) - mean).sum(axis=1) / mean.sum(axis=1)
    assert away.max() < 0.07
    assert np.median(away) < 0.01


@pytest.mark.parametrize("quantity", ["duration", "misses"])
def test_samples_at_known_contexts_spread_as_the_runs_do(distribution, runs, quantity):
    counts, measured = runs
    generated, drawn = answer(distribution, GRID, "sample", n_samples=400)
    if quantity == "misses":
        measured = np.nansum(counts, axis=2)[..., 1]
        drawn = np.nansum(generated, axis=2)[..., 1]
    spread = drawn.std(axis=1) / drawn.mean(axis=1)
    pooled = (measured / measured.mean(axis=1, keepdims=True)).std()
    # what the trend misses at one context widens the samples of its neighbours
    ratio = spread / pooled
    assert 0.85 < np.median(ratio) < 1.25, ratio
    assert np.all((ratio > 0.6) & (ratio < 1.8)), ratio
    np.testing.assert_allclose(drawn.mean(axis=1), measured.mean(axis=1), rtol=2 * pooled)


def test_a_narrow_kernel_gives_a_context_the_runs_measured_there(runs):
    counts, measured = runs
    settings = replace(SMALL, bandwidth=0.05, neighbours=12)
    distribution = fit_distribution(counts, measured, settings=settings)
    generated, duration = answer(distribution, GRID, "mean")
    # up to the noise of twelve runs
    np.testing.assert_allclose(duration, measured.mean(axis=1), rtol=0.006)
    total = np.nansum(counts, axis=2).mean(axis=1)
    np.testing.assert_allclose(np.nansum(generated, axis=1), total, rtol=1e-5)
    _, drawn = answer(distribution, GRID[4:5], "sample", n_samples=50)
    # a path is as long as the run that it ends in, with the variance that a new run has
    ratio = (measured[4] / measured[4].mean()) ** np.sqrt(12 / 11)
    ends = duration[4] * ratio / ratio.mean()
    assert np.abs(drawn[0][:, None] - ends).min(axis=1).max() < 1e-9


def test_neighbours_limit_the_runs_of_a_context(runs):
    counts, measured = runs
    settings = replace(SMALL, neighbours=12)
    distribution = fit_distribution(counts, measured, settings=settings)
    _, drawn = answer(distribution, GRID[8:], "sample", n_samples=200)
    assert len(np.unique(np.round(drawn, 12))) <= 12


TINY = ProgressSettings(bins=8, segments=4, epsilon=10.0, tol=1e-11)
PAIR = GRID[[0, 4]]


@pytest.fixture(scope="module")
def tiny():
    """Two contexts, three runs each, four segments: 1296 paths."""
    return fit_distribution(*task(PAIR, 3, seed=5), PAIR, settings=TINY)


@pytest.fixture(scope="module")
def plans(tiny):
    """Couplings of neighbouring segments from a dense solver, without the potentials."""
    uniform = np.full(6, 1 / 6)
    return [
        oracles.bridge_tensor([oracles.squared_distances(x, y)], [uniform] * 2, 10.0, 1000)
        for x, y in pairwise(tiny.chain.points)
    ]


def test_sampled_durations_follow_the_enumerated_law(tiny, plans):
    """The whole way from a query to durations: the last run of the path decides."""
    query = np.array([2.6, 1.2])
    n = 4000
    _, drawn = answer(tiny, [query], "sample", n_samples=n)
    kernel = kernel_weights(PAIR, query)
    weights = kernel[tiny.residuals.run_context]
    wanted = np.zeros(6)
    for path, probability in oracles.path_distribution(plans, range(6), weights).items():
        wanted[path[-1]] += probability
    centre = tiny.centre.trend.predict(query[None])[0, :, 0] * np.exp(
        np.einsum("c,cb->b", kernel / kernel.sum(), tiny.centre.context_residual[..., 0])
    )
    centre *= tiny.durations(query[None]) / centre.sum()
    ends = centre.sum() * np.exp(tiny.residuals.lag[:, -1, 0])
    which = np.abs(drawn[0][:, None] - ends).argmin(axis=1)
    np.testing.assert_allclose(drawn[0], ends[which], rtol=1e-9)
    share = np.bincount(which, minlength=6) / n
    assert np.all(np.abs(share - wanted) < 5 * np.sqrt(wanted * (1 - wanted) / n))


@pytest.mark.parametrize("clock", [TIME, INSTRUCTIONS, 2])
@pytest.mark.parametrize(
    "case", ["plain", "missing run", "one run", "one context", "one run in all", "rare", "short"]
)
def test_every_clock_generates_from_all_measurements(clock, case):
    contexts, n_runs = GRID[:4], 3
    if case in ("one context", "one run in all"):
        contexts = GRID[3:4]
    if case == "one run" and clock == 2:  # single runs of unequal work look like lost counts
        contexts = GRID[:3]
    if case in ("one run", "one run in all"):
        n_runs = 1
    interval = 1.0 if case == "short" else INTERVAL  # no run lasts for one interval
    counts, measured = task(contexts, n_runs, interval=interval, rare=case == "rare")
    if case == "missing run":
        counts, measured = without(counts, measured, 1, 2)
    dataset = labelled(counts, measured, contexts, interval)
    assert inspect_profiles(dataset).errors == []
    name = ("time", "instructions", "misses")[clock]
    model = fit_profiles(dataset, replace(SMALL, clock=name))
    assert model.distribution.centre.clock == clock
    query = [*contexts, [3.0, 1.2]]
    known = np.nansum(counts, axis=2)[np.isfinite(measured)]
    for kind in KINDS:
        generated = model.generate(query, kind=kind, n_samples=4, rng=np.random.default_rng(0))
        assert inspect_profiles(generated).errors == []
        assert ("solver_status" in generated.attrs) == (kind != "mean")
        for k, counter in enumerate(counter_names(generated)):
            total = generated[counter].sum("time").values
            assert 0.8 * known[:, k].min() < total.min()
            assert total.max() < 1.2 * known[:, k].max()
            if len(contexts) == 1 and kind == "mean":
                np.testing.assert_allclose(total[0], known[:, k].mean(), rtol=1e-4)
        assert 0.8 * np.nanmin(measured) < generated["duration"].min()
        assert generated["duration"].max() < 1.2 * np.nanmax(measured)


def test_missing_runs_change_nothing(runs):
    counts, measured = (part[:3, :4] for part in runs)
    gap = np.full_like(counts[:, :1], np.nan), np.full_like(measured[:, :1], np.nan)
    wider = [
        np.concatenate([a[:, :2], b, a[:, 2:]], axis=1) for a, b in zip((counts, measured), gap)
    ]
    one = fit_distribution(counts, measured, GRID[:3])
    two = fit_distribution(*wider, GRID[:3])
    for a, b in zip(answer(one, GRID, "sample", 3), answer(two, GRID, "sample", 3)):
        np.testing.assert_array_equal(a, b)


def test_equal_seeds_give_equal_profiles_with_any_number_of_threads(distribution, monkeypatch):
    query = np.repeat(GRID, 10, axis=0) * np.linspace(1, 1.01, 90)[:, None]  # more than one block
    answers = []
    for cores in (2, 1, 7):
        calls = []
        monkeypatch.setattr(
            "msbgen.engine.generate.progress_distribution.available_cores",
            lambda cores=cores, calls=calls: calls.append(1) or cores,
        )
        answers.append(answer(distribution, query, "sample", n_samples=2, seed=4))
        assert calls
    for counts, duration in answers[1:]:
        np.testing.assert_array_equal(duration, answers[0][1])
        np.testing.assert_array_equal(counts, answers[0][0])
    duration = answers[0][1]
    _, other = answer(distribution, query, "sample", n_samples=2, seed=5)
    assert np.mean(other == duration) < 0.5
    # blocks draw from generators of their own
    first, second = (duration[i : i + 9] / duration[i : i + 9].mean() for i in (0, 64))
    assert not np.allclose(first, second, rtol=1e-6)


def test_the_bridge_is_solved_once_at_the_first_use_of_paths(runs, monkeypatch):
    solved, fit = [], Chain.fit

    def count(*args, **settings):
        solved.append(settings["epsilon"])
        return fit(*args, **settings)

    monkeypatch.setattr(Chain, "fit", count)
    distribution = fit_distribution(*runs)
    answer(distribution, GRID, "mean")
    distribution.durations(GRID)
    distribution.known_states()
    distribution.prepare("mean")
    assert distribution.provenance("mean") == {}
    assert solved == []
    together = [
        threading.Thread(target=answer, args=(distribution, GRID, "sample")) for _ in range(4)
    ]
    for thread in together:
        thread.start()
    for thread in together:
        thread.join()
    assert solved == [0.1]
    assert distribution.provenance("sample")["solver_status"].startswith("converged")
    arrays_and_table(distribution)
    assert solved == [0.1]
    hopeless = replace(distribution, settings=replace(SMALL, tol=1e-17))
    answer(hopeless, GRID, "mean")
    with pytest.raises(NotConvergedError):
        hopeless.prepare("max_likelihood")


@pytest.mark.parametrize(
    "settings", [SMALL, replace(SMALL, segments=1), replace(SMALL, clock="time")]
)
def test_a_saved_law_answers_the_same(runs, tmp_path, settings):
    counts, measured = (part[:4, :3].copy() for part in runs)
    counts, measured = without(counts, measured, 1, 0)
    model = fit_profiles(labelled(counts, measured, GRID[:4]), settings)
    model.save(tmp_path / "model.nc")
    loaded = ProfileModel.load(tmp_path / "model.nc")
    tables = [arrays_and_table(one.distribution)[1] for one in (loaded, model)]
    assert tables[0] == tables[1]
    for kind in KINDS:
        for a, b in zip(
            *(answer(m.distribution, GRID, kind, n_samples=3) for m in (model, loaded))
        ):
            np.testing.assert_array_equal(a, b)


def test_progress_counts_stages_of_the_fit_pairs_of_the_bridge_and_blocks(runs):
    seen = []
    distribution = fit_distribution(*runs, progress=lambda *step: seen.append(step))
    assert seen == [(k, 6) for k in range(1, 7)]
    seen.clear()
    distribution.prepare("sample", lambda *step: seen.append(step))
    assert seen == [(k, 9) for k in range(1, 10)]
    seen.clear()
    distribution.prepare("sample", lambda *step: seen.append(step))
    assert seen == []
    distribution.profiles(
        np.repeat(GRID, 8, axis=0), "mean", progress=lambda *step: seen.append(step)
    )
    assert seen == [(1, 2), (2, 2)]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"bins": 0}, "bins is 0; a whole number ≥ 1"),
        ({"bins": 40.5, "segments": 1}, "bins is 40.5"),
        ({"deconvolutions": -1}, "deconvolutions is -1; a whole number ≥ 0"),
        ({"tol": 2.0}, "tol is 2.0"),
        ({"epsilon": np.nan}, "epsilon is nan"),
        ({"neighbours": -3}, "neighbours is -3; a whole"),
        ({"bins": 30, "segments": 7}, "a multiple of segments, 7, is wanted"),
    ],
)
def test_bad_settings_are_refused(change, sentence):
    with pytest.raises(ArgumentError, match=sentence):
        ProgressSettings(**change)


def test_an_unknown_clock_is_refused(runs):
    dataset = labelled(*(part[:2, :2] for part in runs), GRID[:2])
    with pytest.raises(
        ArgumentError, match="counter is 'ticks'; one of time, instructions, misses is"
    ):
        fit_profiles(dataset, replace(SMALL, clock="ticks"))
    with pytest.raises(ProfileError, match="'progress' is 'ticks'"):
        fit_profiles(dataset.assign_attrs(progress="ticks"), SMALL)
    assert (
        fit_profiles(dataset.assign_attrs(progress="time"), SMALL).distribution.centre.clock == TIME
    )


def test_a_duration_without_end_is_refused_before_memory_is_taken(distribution):
    slow = np.array([[1e15, 1.0]])
    with pytest.raises(MeasurementError, match=r"predicted as 1e\+15 s, .*fit the model again"):
        distribution._last_interval(slow)
