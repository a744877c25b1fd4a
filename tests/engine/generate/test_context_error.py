"""The error of the duration of new contexts in samples."""

import numpy as np
import pytest

import msbgen
from conftest import synthetic_task

WAYS, CLOCKS = (2.0, 4.0, 8.0), (1.0, 1.4, 2.0)
GRID = np.array([(w, f) for w in WAYS for f in CLOCKS])
NEW = np.array([[3.0, 1.2], [6.0, 1.7]])
QUICK = msbgen.ProgressSettings(bins=50, segments=5, deconvolutions=1)


@pytest.fixture(scope="module")
def model():
    return msbgen.fit_profiles(synthetic_task(GRID, n_runs=3), QUICK)


def spread(model, contexts, **options):
    made = model.generate(contexts, kind="sample", n_samples=300, rng=1, **options)
    return np.log(made["duration"].values).std(axis=1), made.attrs["context_error"]


def test_samples_of_new_contexts_are_spread_by_the_error_of_their_duration(model):
    wide, said = spread(model, NEW)
    narrow, known = spread(model, NEW, as_known=True)
    assert (wide > narrow).all()
    assert (said, known) == ("one draw a sample", "none")


def test_samples_of_known_contexts_are_spread_about_as_their_runs(model):
    wide, _ = spread(model, GRID)
    narrow, _ = spread(model, GRID, as_known=True)
    assert (wide < 1.5 * narrow).all()


def test_means_and_likely_profiles_have_no_error(model):
    for kind in ("mean", "max_likelihood"):
        one, other = (model.generate(NEW, kind=kind, as_known=known) for known in (True, False))
        np.testing.assert_array_equal(one["duration"].values, other["duration"].values)
        assert "context_error" not in one.attrs


def test_a_loaded_model_draws_the_same_samples(model, tmp_path):
    model.save(tmp_path / "model.nc")
    again = msbgen.ProfileModel.load(tmp_path / "model.nc")
    drawn = [m.generate(NEW, kind="sample", n_samples=5, rng=2) for m in (model, again)]
    np.testing.assert_array_equal(*(one["duration"].values for one in drawn))


def test_a_single_context_has_samples():
    model = msbgen.fit_profiles(synthetic_task(GRID[:1], n_runs=3), QUICK)
    assert np.isfinite(spread(model, GRID[:1])[0]).all()
