"""Levels that are words: three or more of a resource, from the fit to bounds and plans."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import synthetic_task
from msbgen.answers.evaluate.baselines import BASELINES, multilinear
from msbgen.answers.evaluate.scores import leave_contexts_out, left_out_groups, scored_contexts
from msbgen.answers.plan.plan import plan_contexts
from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.data.profiles import Profiles
from msbgen.data.store import load_netcdf
from msbgen.engine.bounds.model import CalibratedModel, calibrate_model
from msbgen.engine.generate.detection import known_faults
from msbgen.engine.generate.fit import PAPER, ProgressSettings, fit_profiles
from msbgen.engine.generate.word_columns import WordColumns, outside_hull

WAYS, CLOCKS = (2.0, 3.0, 4.0, 6.0, 8.0), (1.0, 1.25, 1.6, 2.0)
CODES = (3.0, 1.0, 4.0, 2.0)  # words of the clocks, in no order
LABELS = ["b", "d", "a", "c"]
EVERY = np.array([(w, f) for w in WAYS for f in CLOCKS])
LEFT_OUT = [5, 6, 8, 11, 15]
COARSE = ProgressSettings(bins=50, segments=10, deconvolutions=1)


def coded(contexts):
    """Contexts with the words of the clocks."""
    return np.column_stack([contexts[:, 0], [CODES[CLOCKS.index(f)] for f in contexts[:, 1]]])


def in_words(dataset):
    """A dataset with words for its clocks."""
    table = np.column_stack([dataset["cache_ways"].values, dataset["frequency"].values])
    made = dataset.assign_coords(frequency=("context", coded(table)[:, 1]))
    words = {"units": "1", "levels": [1.0, 2.0, 3.0, 4.0, 5.0], "labels": [*LABELS, "e"]}
    made["frequency"].attrs.update({**dataset["frequency"].attrs, **words})
    made["cache_ways"].attrs["levels"] = list(WAYS)
    return made


@pytest.fixture(scope="module")
def numbers():
    return synthetic_task(np.delete(EVERY, LEFT_OUT, axis=0))


@pytest.fixture(scope="module")
def model(numbers):
    measured = in_words(numbers)
    return calibrate_model(fit_profiles(measured, COARSE), measured)


def test_words_are_predicted_as_well_as_the_numbers_that_they_stand_for(model, numbers):
    """In contexts that were left out, but whose word was measured elsewhere."""
    query = EVERY[LEFT_OUT]
    truth = Profiles.of(synthetic_task(query, n_runs=20, seed=1)).mean_duration
    by_numbers = Profiles.of(
        fit_profiles(numbers, COARSE).generate(query, kind="mean")
    ).mean_duration
    by_words = Profiles.of(model.generate(coded(query), kind="mean")).mean_duration
    errors = [np.abs(found / truth - 1) for found in (by_numbers, by_words)]
    assert errors[1].max() < 0.03
    assert errors[1].mean() < errors[0].mean() + 0.01  # one run varies by one per cent
    assert not model.extrapolated(coded(query)).any()
    bound = model.duration_bound(coded(query), 0.2)
    assert np.all(truth < bound)
    assert np.all(bound < 1.3 * truth)
    assert not model.beyond(coded(query)).any()
    assert not known_faults(Profiles.of(in_words(numbers)))


def test_a_saved_model_knows_its_words(model, tmp_path):
    model.save(tmp_path / "m.nc")
    again = CalibratedModel.any_of_file(load_netcdf(tmp_path / "m.nc"))
    assert again.words == model.words == WordColumns(((), (1.0, 2.0, 3.0, 4.0)))
    np.testing.assert_array_equal(again.contexts, model.contexts)
    np.testing.assert_array_equal(again.known["frequency"], model.known["frequency"])
    query = coded(EVERY[:3])
    assert again.duration_bound(query, 0.2) == pytest.approx(model.duration_bound(query, 0.2))
    with pytest.raises(ArgumentError, match="frequency=e, a word without runs"):
        again.generate([[3.0, 5.0]])


def test_plans_take_words_with_runs(model):
    plan = plan_contexts(model, 4, whole_budget=True)
    assert len(plan.contexts) == 4
    assert set(plan.contexts[:, 1]) <= {1.0, 2.0, 3.0, 4.0}
    left_out = {tuple(row) for row in coded(EVERY[LEFT_OUT])}
    assert {tuple(row) for row in plan.contexts} <= left_out  # all others are measured
    assert plan.error[-1] < plan.error[0]


def test_the_papers_preset_wants_numbers(numbers):
    with pytest.raises(MeasurementError, match=r"more than two words, .* default preset"):
        fit_profiles(in_words(numbers), PAPER)


def test_baselines_interpolate_within_a_word(numbers):
    words, query = in_words(numbers), EVERY[LEFT_OUT]
    order = [3, 0, 4, 2, 1]
    found = multilinear(words, coded(query)[order])
    for place, row in enumerate(order):
        alike = numbers.isel(context=numbers["frequency"].values == query[row, 1])
        own = multilinear(alike, query[[row]])
        assert found["duration"].values[place] == pytest.approx(float(own["duration"][0]))
    np.testing.assert_array_equal(found["frequency"], coded(query)[order, 1])
    none = words.isel(context=words["frequency"].values != 3.0)
    for name, baseline in BASELINES.items():
        missing = np.isnan(baseline(none, coded(EVERY[:4]))["duration"].values)
        assert missing[0], name  # the first clock is word 3
        assert np.isfinite(baseline(none, coded(EVERY[4:8]))["duration"].values[1]), name


def test_no_word_is_left_out_altogether(numbers):
    words = in_words(numbers)
    scores = leave_contexts_out(words, 4, ["nearest_context"], rng=3)
    assert np.isfinite(scores["score"].sel(metric="duration_error")).all()
    for group in left_out_groups(Profiles.of(words), 4, np.random.default_rng(0)):
        rest = np.delete(words["frequency"].values, group)
        assert set(rest) == {1.0, 2.0, 3.0, 4.0}
    lone = words.isel(context=(words["frequency"].values != 3.0) | (np.arange(15) == 0))
    rows, _ = scored_contexts(Profiles.of(lone))
    assert 0 not in rows
    assert len(rows) == lone.sizes["context"] - 1
    with pytest.raises(ArgumentError, match="without all of some word"):
        left_out_groups(Profiles.of(words), 14, np.random.default_rng(0))


@given(st.integers(0, 10**6), st.integers(3, 5))
def test_columns_are_contexts_again(seed, n_words):
    rng = np.random.default_rng(seed)
    table = np.column_stack([rng.normal(size=20), rng.integers(1, n_words + 1, 20), np.arange(20)])
    resources = {"a": {}, "b": {"labels": [f"w{i}" for i in range(n_words)]}, "c": {}}
    words = WordColumns.of(resources, table)
    columns = words.encode(table)
    np.testing.assert_array_equal(words.decode(columns), table)
    used = len(np.unique(table[:, 1]))
    assert columns.shape == (20, 2 + (used if used > 2 else 1))
    if used > 2:  # any two words are equally far apart
        apart = ((columns[:, None, 1:-1] - columns[:, 1:-1]) ** 2).sum(axis=2)
        np.testing.assert_array_equal(apart, 2.0 * (table[:, None, 1] != table[:, 1]))
    plain = WordColumns.of({"a": {}, "b": {}, "c": {}}, table)
    assert plain.encode(table) is table is plain.decode(table)


def test_a_context_between_two_words_is_outside():
    known = np.array([[1.0, 1.0], [9.0, 1.0], [1.0, 2.0], [5.0, 2.0], [4.0, 3.0]])
    words = WordColumns.of({"a": {}, "b": {"labels": list("xyz")}}, known)
    query = np.array([[9.0, 1.0], [9.0, 2.0], [3.0, 2.0], [4.0, 3.0], [5.0, 3.0], [4.0, 4.0]])
    outside = outside_hull(known, query, words)
    assert outside.tolist() == [False, True, False, False, True, True]
    alone = WordColumns.of({"b": {"labels": list("xyz")}}, known[:, 1:])
    assert outside_hull(known[:, 1:], query[:, 1:], alone).tolist() == [False] * 5 + [True]
