"""Arguments of public functions may be anything: ours is the sentence about them."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import msbgen
from msbgen.answers.compare.results import CompareSettings
from public_names import ways_and_clock


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """What the calls below need."""
    measured = ways_and_clock()
    model = msbgen.fit_profiles(measured, msbgen.ProgressSettings(bins=10, segments=5))
    times = msbgen.runtimes.make(
        [1.0, 2.0], [0, 1], [0, 0], np.empty((2, 0)), [0, 1], workloads=["a", "b"], platforms=["p"]
    )
    kernels = msbgen.kernels.make(["a"] * 2, [1.0, 2.0], resources={"clock": [1.0, 2.0]})
    wanted = {"cores": 2, "capacity": {"ways": 16.0}}
    phases = msbgen.phases.phase_table(measured)
    return SimpleNamespace(
        folder=tmp_path_factory.mktemp("arguments"),
        times=times,
        kernels=kernels,
        graph=msbgen.graphs.make(["a", "a"], [1.0, 2.0], [(0, 1)]),
        tasks=msbgen.realtime.TaskSet(**wanted, tasks=(msbgen.realtime.Task("a", "a", 0.5, 0.1),)),
        phases={"a": phases},
        truth=msbgen.realtime.Truth.of({"a": measured}),
        bounds=msbgen.calibrate_model(model, measured).bounds(QUERY, 0.2),
        measured=measured,
        model=model,
        calibrated=msbgen.calibrate_model(model, measured),
        device=msbgen.graphs.shipped_device("tx2"),
    )


QUERY = [[3.0, 1.2]]
# Calls with an argument that is not as it is declared, and the sentence about it.
REFUSED = {
    "n_samples is 0; a whole number ≥ 1": lambda m: m.model.generate(QUERY, n_samples=0),
    "n_samples is True; a whole number": lambda m: m.model.generate(QUERY, n_samples=True),
    "kind is 'x'; one of": lambda m: m.model.generate(QUERY, kind="x"),
    "holds is 'x'; one of": lambda m: m.calibrated.calibration.bands(QUERY, 0.2, holds="x"),
    "overhead is -1; a number": lambda m: msbgen.plan_contexts(LEVELS, 2, overhead=-1),
    "run_seconds is nan; a": lambda m: msbgen.plan_contexts(LEVELS, 2, run_seconds=float("nan")),
    "least_runs is 1.5; a whole": lambda m: msbgen.plan_contexts(LEVELS, 2, least_runs=1.5),
    "epsilon is inf; a positive": lambda m: msbgen.bridge.solve_bridge(
        CLOUDS, epsilon=float("inf")
    ),
    "method is 'x'; one of": lambda m: msbgen.bridge.solve_bridge(CLOUDS, epsilon=0.1, method="x"),
    "threads is 0; a whole": lambda m: msbgen.bridge.SolverConfig(threads=0),
    "bins is 'x'; a whole number": lambda m: msbgen.ProgressSettings(bins="x"),
    "tolerance is 1; a number above 0": lambda m: CompareSettings(tolerance=1),
    "cores is 0; a whole": lambda m: msbgen.realtime.Allocator(m.phases, {"ways": 16.0}, 0),
    "slack is 1; a number": lambda m: msbgen.realtime.Allocator(m.phases, {}, 2, slack=1),
    "period is 0; a positive": lambda m: msbgen.realtime.Task("a", "a", 0),
    "capacity of 'ways' is -1.0; a": lambda m: msbgen.realtime.TaskSet(1, {"ways": -1.0}, ()),
    "preset is 'x'; one of": lambda m: msbgen.runtimes.RuntimePredictor(preset="x"),
    "rank is 0; a whole number ≥ 1": lambda m: msbgen.runtimes.TowerSettings(rank=0),
    "scale is 0; a positive": lambda m: msbgen.graphs.family_graph("lu", scale=0),
    "folds is 1; a whole number ≥ 2": lambda m: msbgen.graphs.GraphPredictor(folds=1),
    "by is 'x'; one of": lambda m: msbgen.kernels.variability_rows(m.kernels, by="x"),
    "level is 1; a number": lambda m: msbgen.beside.duration_bounds([], None, 1),
    "segments is 1; a whole number": lambda m: msbgen.beside.program_table(m.measured, segments=1),
    "step is 0; a positive number": lambda m: msbgen.beside.LawSettings(step=0),
    "size is 0; a whole number": lambda m: msbgen.leave_contexts_out(m.measured, 0),
}
QUERY = [[3.0, 1.2]]
LEVELS = {"a": [1, 2, 3]}
CLOUDS = [np.eye(3), 2 * np.eye(3)]


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_is_not_as_declared_is_refused_by_its_name(made, sentence):
    with pytest.raises(msbgen.ArgumentError) as caught:
        REFUSED[sentence](made)
    assert str(caught.value).startswith(sentence)


OF_PROFILES = {
    "fit_profiles": lambda given, made: msbgen.fit_profiles(given),
    "calibrate_model": lambda given, made: msbgen.calibrate_model(made.model, given),
    "leave_contexts_out": lambda given, made: msbgen.leave_contexts_out(given, 1),
    "score_methods": lambda given, made: msbgen.score_methods(made.measured, given),
    "compare_profiles": lambda given, made: msbgen.compare_profiles(made.measured, given),
    "all_contexts": lambda given, made: msbgen.all_contexts(given),
    "validate_profiles": lambda given, made: msbgen.validate_profiles(given),
    "context_table": lambda given, made: msbgen.context_table(given),
    "total_energy": lambda given, made: msbgen.total_energy(given),
    "power_over_time": lambda given, made: msbgen.power_over_time(given),
    "write_profiles": lambda given, made: msbgen.write_profiles(given, made.folder / "y.nc"),
}


@pytest.mark.parametrize("call", OF_PROFILES)
@pytest.mark.parametrize("given", ["x.nc", None])
def test_a_path_in_place_of_profiles_is_refused_with_the_function_that_reads_it(made, call, given):
    with pytest.raises(msbgen.ArgumentError, match=r"^the profiles are .*read_profiles\(path\)"):
        OF_PROFILES[call](given, made)


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda made: made.model.generate([[True, 1.2]]), "contexts are ..True, 1.2..; numbers"),
        (lambda made: made.model.generate([["3", "1.2"]]), "contexts are ..'3', '1.2'..; numbers"),
        (
            lambda made: made.calibrated.answer([True, 1.2], 0.2),
            "context is .True, 1.2.; numbers are wanted",
        ),
        (
            lambda made: msbgen.choose_context(made.bounds, True, "cache_ways=1"),
            "limit of time is True; a",
        ),
    ],
)
def test_texts_and_booleans_are_no_numbers(made, ask, sentence):
    with pytest.raises(msbgen.ArgumentError, match=f"^{sentence}"):
        ask(made)


def test_columns_with_names_are_in_the_order_of_the_resources(made):
    table = pd.DataFrame(QUERY, columns=list(made.model.resources))
    found = made.calibrated.duration_bound(table, 0.2)
    assert found == made.calibrated.duration_bound(QUERY, 0.2)
    assert found == made.calibrated.duration_bound(table.set_axis(["a", "b"], axis=1), 0.2)
    exchanged = table[table.columns[::-1]]
    with pytest.raises(msbgen.ArgumentError, match=r"^columns of contexts are .*, in this order"):
        made.calibrated.duration_bound(exchanged, 0.2)


def test_names_of_a_series_and_of_an_array_are_in_the_order_of_the_resources(made):
    names = list(made.model.resources)
    row = pd.Series(QUERY[0], index=names)
    array = xr.DataArray(QUERY, dims=("context", "resource"), coords={"resource": names})
    found = made.calibrated.answer(row, 0.2)
    assert found.bound == made.calibrated.answer(QUERY[0], 0.2).bound
    assert found.bound == made.calibrated.answer(array[0], 0.2).bound
    assert found.bound == made.calibrated.answer(row.set_axis(["a", "b"]), 0.2).bound
    assert found.bound == made.calibrated.duration_bound(array, 0.2).item()
    assert found.bound == made.calibrated.duration_bound(array.variable, 0.2).item()
    labelled = pd.DataFrame(QUERY, columns=names, index=names[:1])
    assert found.bound == made.calibrated.duration_bound(labelled, 0.2).item()
    with pytest.raises(msbgen.ArgumentError, match=r"^contexts are "):
        made.calibrated.duration_bound(array.to_dataset(name="x"), 0.2)
    for one in (row[::-1], array[0, ::-1]):
        with pytest.raises(
            msbgen.ArgumentError, match=r"^columns of context are .*, in this order"
        ):
            made.calibrated.answer(one, 0.2)
    with pytest.raises(msbgen.ArgumentError, match=r"^columns of contexts are .*, in this order"):
        made.calibrated.duration_bound(array[:, ::-1], 0.2)


@pytest.mark.parametrize(
    "transpose",
    [
        lambda table: table.T,
        lambda table: xr.DataArray(table.T, dims=("resource", "candidate")),
        lambda table: xr.DataArray(table.T.to_numpy(), dims=("resource", "context")),
    ],
)
def test_resources_in_the_place_of_contexts_are_refused(made, transpose):
    """Two contexts of two resources have a shape that tells nothing."""
    table = pd.DataFrame([*QUERY, *QUERY], columns=list(made.model.resources))
    assert table.shape == (2, 2)
    with pytest.raises(
        msbgen.ArgumentError, match=r"^contexts are transposed; rows of .*, in this"
    ):
        made.calibrated.duration_bound(transpose(table), 0.2)


def test_a_model_is_shown_in_one_line(made):
    shown = repr(made.calibrated)
    assert shown.startswith("<CalibratedModel of ")
    assert len(shown) < 200
    assert "\n" not in shown


@pytest.mark.parametrize("rng", ["a", -1, 1.5, None, 10**400])
def test_every_generator_is_a_seed_or_one_of_numpy(made, rng):
    with pytest.raises(msbgen.ArgumentError, match=r"^rng is .*; a generator or a whole number"):
        made.model.generate(QUERY, kind="sample", rng=rng)
    with pytest.raises(msbgen.ArgumentError, match=r"^rng is "):
        msbgen.leave_contexts_out(made.measured, 3, ["bracketing"], rng=rng)


@pytest.mark.parametrize("rate", ["x", None, 0, 1, float("nan"), [0.1]])
def test_every_rate_is_a_number_between_0_and_1(made, rate):
    for ask in (made.calibrated.bounds, made.calibrated.duration_bound):
        with pytest.raises(msbgen.ArgumentError, match=r"^miscoverage is .*; a number from 1e-15"):
            ask(QUERY, rate)
