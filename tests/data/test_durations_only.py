"""Profiles without a time axis, in the border between files and the engine."""

import numpy as np
import pytest

import msbgen
from msbgen.answers.compare.comparison import compare_profiles
from msbgen.answers.evaluate.scores import leave_contexts_out, summarise
from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.data.build import make_profiles
from msbgen.data.check import inspect_profiles
from msbgen.data.durations_only import WHOLE_RUN, has_time_axis, with_interval, without_interval
from msbgen.data.profiles import Profiles
from msbgen.engine.bounds.model import calibrate_model
from msbgen.engine.generate.fit import fit_profiles

CORES, INPUTS = np.array([1.0, 2, 4, 8]), np.array([10.0, 30, 90])
CONTEXTS = np.stack(np.meshgrid(CORES, INPUTS, indexing="ij"), axis=-1).reshape(-1, 2)
RESOURCES = {
    "cores": {"units": "1", "levels": CORES.tolist()},
    "input": {"units": "MB", "levels": INPUTS.tolist()},
}


def seconds(contexts):
    cores, size = np.asarray(contexts, dtype=float).T
    return 0.02 + 0.01 * size * (0.1 + 0.9 / cores)


def made(n_runs=3, noise=0.01, factor=1.0, **more):
    rng = np.random.default_rng(3)
    durations = (
        factor
        * seconds(CONTEXTS)[:, None]
        * np.exp(noise * rng.standard_normal((len(CONTEXTS), n_runs)))
    )
    return make_profiles(
        durations=durations, contexts=CONTEXTS, resources=RESOURCES, attrs={"task": "scale"}, **more
    )


def with_energy():
    plain = made()
    return made(
        counts=30 * plain["duration"].values[..., None], counters={"energy": {"units": "J"}}
    )


def test_durations_alone_are_a_profile_file(tmp_path):
    dataset = made()
    assert set(dataset.dims) == {"context", "run"}
    assert not inspect_profiles(dataset).errors + inspect_profiles(dataset).warnings
    msbgen.write_profiles(dataset, tmp_path / "d.nc")
    again = msbgen.read_profiles(tmp_path / "d.nc")
    assert again.identical(dataset)
    assert "sampled" not in Profiles.of(again).describe()


@pytest.mark.parametrize("make", [made, with_energy])
def test_the_engines_interval_comes_and_goes(make):
    dataset = make()
    expanded = with_interval(dataset)
    assert WHOLE_RUN in expanded.data_vars
    assert not has_time_axis(expanded)
    assert with_interval(expanded) is expanded
    np.testing.assert_allclose(Profiles.of(expanded).counts[..., 0, 0], 1)
    fine = with_interval(dataset, 0.01)
    np.testing.assert_allclose(np.nansum(Profiles.of(fine).counts[..., 0], axis=2), 1, rtol=1e-6)
    for one in (expanded, fine):
        plain = without_interval(one)
        assert dict(plain.sizes) == dict(dataset.sizes)
        assert set(plain) == set(dataset)
        for name in dataset.data_vars:
            np.testing.assert_allclose(plain[name], dataset[name], rtol=1e-6)
        assert plain.attrs == dataset.attrs


def test_runs_that_were_cut_tell_no_duration():
    complete = np.ones((len(CONTEXTS), 3))
    complete[0, 1] = complete[5] = 0
    expanded = with_interval(made(complete=complete))
    assert expanded.sizes["context"] == len(CONTEXTS) - 1
    assert np.isnan(expanded["duration"].values[0]).tolist() == [False, True, False]


@pytest.mark.parametrize("kind", ["mean", "max_likelihood", "sample"])
def test_generated_profiles_hold_durations_and_totals(kind):
    wanted = [[3.0, 60.0], [6.0, 20.0]]
    generated = fit_profiles(with_energy()).generate(wanted, kind=kind, n_samples=40)
    assert "time" not in generated.dims
    assert WHOLE_RUN not in generated
    mean = generated["duration"].values.reshape(2, -1).mean(axis=1)
    np.testing.assert_allclose(mean, seconds(wanted), rtol=0.05)
    joules = generated["energy"].values.reshape(2, -1).mean(axis=1)
    np.testing.assert_allclose(joules, 30 * seconds(wanted), rtol=0.05)


def test_bounds_hold_and_energy_has_one_too():
    measured = with_energy()
    calibrated = calibrate_model(fit_profiles(measured), measured)
    bounds = calibrated.bounds(CONTEXTS, 0.2)
    assert (bounds["duration_bound"].values >= 0.97 * seconds(CONTEXTS)).all()
    assert (bounds["duration_bound"].values <= 1.2 * seconds(CONTEXTS)).all()
    np.testing.assert_allclose(bounds["energy_bound"] / bounds["duration_bound"], 30, rtol=0.1)


def test_left_out_durations_are_scored_and_profiles_are_not():
    scores = leave_contexts_out(made(), 1, ["default/mean", "log_log"])
    figures = summarise(scores, "log_log")["methods"]
    assert figures["default/mean"]["duration_error"] < 0.05
    assert set(figures["default/mean"]) <= {"duration_error", "improvement"}


@pytest.mark.parametrize("factor", [1.0, 1.05])
def test_durations_are_compared(factor):
    found = compare_profiles(made(), made(factor=factor, noise=0.011))
    assert found.time.low < factor < found.time.high
    assert found.changes == ()
    assert found.course is None
    assert WHOLE_RUN not in found.totals


def test_a_file_with_counts_is_compared_by_its_durations(measured):
    other = measured.drop_vars(
        [n for n in measured.data_vars if measured[n].attrs.get("role") == "counter"] + ["time"]
    )
    other.attrs.pop("interval")
    found = compare_profiles(measured, other)
    assert found.time.value == pytest.approx(1)


def test_what_needs_a_course_in_time_says_so():
    with pytest.raises(MeasurementError, match="scale: holds durations without a course in time"):
        msbgen.phases.phase_table(made())


def test_arrays_of_other_shapes_are_refused():
    with pytest.raises(ArgumentError, match="durations is None; an array is wanted"):
        make_profiles(contexts=CONTEXTS, resources=RESOURCES)
    with pytest.raises(ArgumentError, match="counts have 0 counters for 1 names"):
        made(counters={"energy": {"units": "J"}})
