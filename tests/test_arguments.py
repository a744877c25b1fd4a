"""Arguments of public functions may be anything: ours is the sentence about them."""

import inspect
import operator
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import msbgen
from msbgen.answers.compare.results import CompareSettings
from public_names import ways_and_clock

SILLY = [
    *("x", "", b"x", None, True, -1, 1.5, 10**400, float("nan"), float("inf"), 3 + 4j, (), [1, 2]),
    *({}, 10**5000, object(), np.array([1.0, 2.0]), lambda: 0),
]
OURS = (msbgen.ArgumentError, msbgen.MeasurementError, msbgen.ProfileError, OSError)


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
# A function of what was made, and arguments that are right: each is replaced in turn.
CALLS = {
    "generate": ("model.generate", {"contexts": QUERY, "kind": "sample", "n_samples": 2, "rng": 0}),
    "times": ("model.generate", {"contexts": QUERY, "times": 0.02}),
    "extrapolated": ("model.extrapolated", {"query": QUERY}),
    "bounds": ("calibrated.bounds", {"contexts": QUERY, "miscoverage": 0.2}),
    "duration_bound": ("calibrated.duration_bound", {"contexts": QUERY, "miscoverage": 0.2}),
    "answer": ("calibrated.answer", {"context": QUERY[0], "miscoverage": 0.2}),
    "bands": (
        "calibrated.calibration.bands",
        {"contexts": QUERY, "miscoverage": 0.2, "holds": "segment"},
    ),
    "save": ("model.save", {"path": "m.nc"}),
    "plan_contexts": (msbgen.plan_contexts, {"source": {"a": [1, 2, 3]}, "budget": 2}),
    "shipped_file": (msbgen.shipped_file, {"name": "gzip.nc"}),
    "solve_bridge": (
        msbgen.bridge.solve_bridge,
        {"points": [np.eye(3), 2 * np.eye(3)], "epsilon": 0.1, "rng": 0},
    ),
    **{
        f"{function.__module__}.{function.__qualname__}": (function, {"path": "none.nc"})
        for function in (
            *(msbgen.read_profiles, msbgen.ProfileModel.load, msbgen.CalibratedModel.load),
            *(msbgen.graphs.read, msbgen.graphs.load, msbgen.graphs.read_device),
            *(msbgen.runtimes.read, msbgen.runtimes.load, msbgen.machines.read),
            *(msbgen.machines.load, msbgen.kernels.read, msbgen.kernels.load),
            *(msbgen.machines.read_table, msbgen.kernels.read_workload),
        )
    },
}

r, t, k, g, b = (
    *(msbgen.realtime, msbgen.runtimes, msbgen.kernels),
    *(msbgen.graphs, msbgen.beside),
)
SOME = {"capacity": {"ways": 16.0}, "cores": 2}
# The same, with arguments of which some are what was made: names after an @.
SYSTEMS = {
    "Allocator": (r.Allocator, {"tables": "@phases", **SOME, "minima": None, "slack": 0.1}),
    "Task": (r.Task, {"name": "a", "profile": "a", "period": 0.1, "wcet": 0.02}),
    "TaskSet": (r.TaskSet, {**SOME, "tasks": (), "minima": {}}),
    "draw_task_set": (r.draw_task_set, {"wcet": {"a": 0.1}, "utilisation": 1.0, **SOME, "rng": 0}),
    "reference_slack": (r.reference_slack, {"task_set": "@tasks"}),
    "reference_wcet": (r.reference_wcet, {"profiles": "@measured"}),
    "Truth": (r.Truth.of, {"profiles": {}}),
    "simulate_task_set": (
        r.simulate_task_set,
        {"task_set": "@tasks", "tables": "@phases", "truth": "@truth", "horizon": 0.1},
    ),
    "runtimes.make": (
        t.make,
        {"runtime": [1.0], "workload": [0], "platform": [0], "beside": np.empty((1, 0)), "run": [0],
         "workloads": ["a"], "platforms": ["p"]},
    ),
    "runtimes.write": (t.write, {"dataset": "@times", "path": "t.nc"}),
    "runtimes.run_table": (t.run_table, {"dataset": "@times"}),
    "runtimes.fit": (t.fit, {"dataset": "@times", "preset": "x"}),
    "runtimes.evaluate": (t.evaluate, {"dataset": "@times", "train": 2.0, "replicates": 0}),
    "RuntimePredictor": (t.RuntimePredictor, {"preset": "default", "members": 1, "towers": None}),
    "TowerSettings": (t.TowerSettings, {"rank": 2, "steps": 3, "rate": 0.1}),
    "kernels.make": (k.make, {"kind": ["a"], "runtime": [1.0], "resources": {"clock": [1.0]}}),
    "kernels.join": (k.join, {"datasets": []}),
    "kernels.write": (k.write, {"dataset": "@kernels", "path": "k.nc"}),
    "costs_of": (k.costs_of, {"dataset": "@kernels"}),
    "kernels.evaluate": (k.evaluate, {"runs": "@kernels", "folds": 2}),
    "from_profiles": (k.from_profiles, {"profiles": []}),
    "make_workload": (k.make_workload, {"kind": ["a"], "count": [1], "parameters": {"m": [1.0]}}),
    "compare_groups": (k.compare_groups, {"groups": [[1.0, 2, 3, 4], [2.0, 3, 4, 5]]}),
    "variability_rows": (
        k.variability_rows,
        {"dataset": "@kernels", "by": "node", "quantity": "runtime"},
    ),
    "ColumnMap": (k.ColumnMap, {"resources": (), "counters": (), "columns": {}, "kind": ""}),
    "graphs.make": (g.make, {"kind": ["a"] * 2, "work": [1.0, 2.0], "edges": [(0, 1)]}),
    "with_profiles": (g.with_profiles, {"graph": "@graph", "profiles": {}, "kinds": None}),
    "with_times": (g.with_times, {"graph": "@graph", "profiles": {}}),
    "shipped_device": (g.shipped_device, {"sheet": "tx2"}),
    "device_contexts": (g.device_contexts, {"device": "@device", "clocks": 2}),
    "family_graph": (g.family_graph, {"family": "lu", "size": 2, "scale": 1.0, "rng": 0}),
    "graphs.write": (g.write, {"graph": "@graph", "path": "g.json"}),
    "join_runs": (g.join_runs, {"parts": []}),
    "GraphPredictor": (g.GraphPredictor, {"order": "arrival", "factor_runs": 9, "folds": 2}),
    "play": (b.play, {"tables": [], "sharing": None, "interval": 0.01}),
    "best_partition": (b.best_partition, {"tables": [], "sharing": None, "objective": "slowdown"}),
    "choose_placement": (b.choose_placement, {"tables": [], "sockets": 1, "sharing": None}),
    "duration_bounds": (b.duration_bounds, {"tables": [], "sharing": None, "level": 0.9}),
    "find_harm": (b.find_harm, {"tables": [], "sharing": None}),
    "program_table": (b.program_table, {"profiles": "@measured", "frequency": 1.0, "segments": 9}),
    "LawSettings": (b.LawSettings, {"step": 0.001, "regulator_period": 0.001, "doubt": 0.01}),
    "Columns": (b.Columns, {"ways": "ways", "way_size": 1.0}),
    "course_profiles": (b.course_profiles, {"course": None}),
    "choose_context": (
        msbgen.choose_context,
        {"bounds": "@bounds", "deadline": 9.0, "costs": "ways=1", "untested": True},
    ),
    "share_resources": (
        msbgen.share_resources,
        {"bounds": [], "deadlines": [1.0], "costs": "ways=1", "total": {"ways": 9.0}},
    ),
    "compare_profiles": (
        msbgen.compare_profiles,
        {"old": None, "new": "@measured", "weights": None, "contexts": QUERY},
    ),
    "CompareSettings": (
        CompareSettings,
        {"tolerance": 0.01, "confidence": 0.95, "bins": 100, "permutations": 99},
    ),
    "summarise": (msbgen.summarise, {"scores": None, "baseline": "bracketing"}),
}  # fmt: skip


@pytest.mark.parametrize("call", SYSTEMS)
def test_what_is_silly_is_refused_by_every_system(made, call, monkeypatch):
    monkeypatch.chdir(made.folder)
    function, arguments = SYSTEMS[call]
    whole = {
        name: getattr(made, value[1:]) if str(value).startswith("@") else value
        for name, value in arguments.items()
    }
    for name in whole:
        for value in SILLY:
            with suppress(*OURS):
                function(**{**whole, name: value})


@pytest.mark.parametrize("call", CALLS)
def test_what_is_silly_is_refused_in_a_sentence_of_ours(made, call, monkeypatch):
    monkeypatch.chdir(made.folder)
    function, arguments = CALLS[call]
    if isinstance(function, str):
        function = operator.attrgetter(function)(made)
    for name in arguments:
        assert name in inspect.signature(function).parameters
        for value in SILLY:
            with suppress(*OURS):
                function(**{**arguments, name: value})


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
        (lambda made: made.model.generate(QUERY, n_samples=True), "n_samples is True; a whole"),
        (
            lambda made: msbgen.choose_context(made.bounds, True, "cache_ways=1"),
            "limit of time is True; a",
        ),
        (lambda made: made.model.generate(QUERY, progress=3), "progress is 3; a function or None"),
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
        with pytest.raises(msbgen.ArgumentError, match=r"^miscoverage is .*; a rate from 1e-15"):
            ask(QUERY, rate)
