"""The judgement of a report: on contexts that the judged model has not seen."""

import numpy as np
import pytest

from batches import BETWEEN
from msbgen.answers.evaluate.scores import score_methods, summarise
from msbgen.core.conformal import groups_needed
from msbgen.core.contexts import Hull
from msbgen.core.errors import ProfileError
from msbgen.data.profiles import Profiles
from msbgen.data.schema import context_table
from msbgen.engine.bounds.model import calibrate_model
from msbgen.engine.generate.fit import fit_profiles
from msbgen.output.batch import held_out
from msbgen.output.batch.held_out import bounds_of, score_held_out, score_left_out, supported_rate
from msbgen.output.report.data import Unavailable
from msbgen.output.report.numbers import best_simple


def test_best_median_and_worst_are_those_of_the_scores(model, report_inputs):
    held = report_inputs.held_out
    own = held.scores["score"].sel({"method": "default/mean", "metric": "ndtw_scaled"}).values
    order = np.argsort(own)
    assert [(s.place, s.row) for s in held.shown] == [
        ("best", order[0]), ("median", order[5]), ("worst", order[-1])
    ]  # fmt: skip
    for one in held.shown:
        mean = Profiles.of(model.generate(BETWEEN[[one.row]], kind="mean"))
        np.testing.assert_array_equal(one.mean, mean.counts[0, 0])
        assert len(one.samples) == 200


def test_scores_that_are_known_are_not_worked_out_again(task, unseen, model):
    known = score_methods(task, unseen, {"default/mean": lambda _, c: model.generate(c)})
    held = score_held_out(
        task, unseen, model, bounds_of(model, Profiles.of(task), 0.05), {}, known, 0
    )
    assert held.scores is known


def test_files_are_what_the_report_is_about(task, unseen, model, report_inputs):
    noisy = model.generate(BETWEEN, kind="sample", n_samples=20, rng=1)
    known = report_inputs.held_out.scores
    held = score_held_out(
        task,
        unseen,
        model,
        bounds_of(model, Profiles.of(task), 0.05),
        {"noisy.nc": noisy},
        known,
        0,
    )
    assert held.method == "noisy.nc"
    assert len(held.shown[0].samples) == 20
    assert list(held.summary["methods"])[:2] == ["noisy.nc", "default/mean"]
    part = {"part": noisy.isel(context=[0])}
    with pytest.raises(ProfileError, match="part: lacks 11 contexts of the truth"):
        score_held_out(
            task, unseen, model, bounds_of(model, Profiles.of(task), 0.05), part, known, 0
        )


def test_left_out_contexts_are_met_by_models_without_them(task):
    task = task.isel(context=slice(0, None, 2), run=slice(2))
    held = score_left_out(task, 7, 4, (0.05, 0.2), seed=5)
    order = np.random.default_rng(5).permutation(13)
    group = np.sort(order[:7])
    kept = task.isel(context=np.setdiff1d(np.arange(13), group))
    model = fit_profiles(kept)
    kinds = {
        f"default/{kind}": lambda _, c, kind=kind: model.generate(c, kind=kind, rng=0)
        for kind in ("mean", "max_likelihood", "sample")
    }
    scores = score_methods(kept, task.isel(context=group), kinds)
    own = held.scores["score"].sel({"method": list(kinds)}).isel(context=group)
    np.testing.assert_allclose(own, scores["score"], rtol=1e-12)
    assert held.summary == summarise(held.scores)
    assert "energy_distance" in held.summary["methods"]["default/sample"]
    bound = calibrate_model(model, kept).duration_bound(context_table(task)[group], 0.2)
    np.testing.assert_allclose(held.bounds.duration[group], bound, rtol=1e-12)
    assert held.bounds.miscoverage == 0.2  # six contexts support no less
    outside = np.zeros(13, dtype=bool)
    for own in (group, np.sort(order[7:])):
        known = Hull.of(context_table(task)[np.setdiff1d(np.arange(13), own)])
        outside[own] = known.outside(context_table(task)[own])
    assert (outside != outside[np.concatenate([group, np.sort(order[7:])])]).any()
    np.testing.assert_array_equal(held.extrapolated, outside)
    assert held.how == "the 13 measured contexts, 7 left out at a time"
    best = best_simple(held.summary["methods"])["method"]
    assert best != "bracketing"
    np.testing.assert_array_equal(held.counters["method"], ["default/mean", "bracketing", best])
    assert held.left_out == 7
    assert np.isfinite(held.counters["score"].sel({"method": "default/mean"})).all()


def test_a_rate_is_supported_from_the_contexts_on_that_it_needs():
    enough = groups_needed(0.05)
    assert supported_rate((0.05, 0.2), enough) == 0.05
    assert supported_rate((0.05, 0.2), enough - 1) == 0.2
    assert supported_rate((0.05, 0.2), 1) == 0.2


def test_without_paths_in_a_part_command_to_measure_alone_are_judged(task, monkeypatch):
    few = task.isel(context=slice(0, None, 3), run=slice(2))
    monkeypatch.setattr(held_out, "_has_paths", lambda one: len(one.distribution.contexts) != 4)
    held = score_left_out(few, 5, 4, (0.2,), seed=5)
    methods = list(held.scores["method"].values)
    assert methods == ["default/mean", *held_out.BASELINES]
    assert held.scores["score"].sel({"method": "default/mean", "metric": "ndtw"}).notnull().all()


def test_bounds_that_cannot_be_are_missing_with_the_reason(task, model):
    few = task.isel(context=slice(0, 5))
    bound = bounds_of(fit_profiles(few), Profiles.of(few), 0.05)(BETWEEN)
    assert isinstance(bound, Unavailable)
    assert "at least 19 runs of as many different contexts" in bound.why
    held = score_left_out(few, 3, 4, (0.05,), seed=0)
    assert isinstance(held.bounds, Unavailable)
