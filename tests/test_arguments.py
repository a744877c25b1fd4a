"""Arguments of public functions may be anything: ours is the sentence about them."""

import inspect
import operator
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest

import msbgen
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
    return SimpleNamespace(
        folder=tmp_path_factory.mktemp("arguments"),
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
    "write_profiles": lambda given, made: msbgen.write_profiles(given, made.folder / "y.nc"),
}


@pytest.mark.parametrize("call", OF_PROFILES)
@pytest.mark.parametrize("given", ["x.nc", None])
def test_a_path_in_place_of_profiles_is_refused_with_the_function_that_reads_it(made, call, given):
    with pytest.raises(msbgen.ArgumentError, match=r"^the profiles are .*read_profiles\(path\)"):
        OF_PROFILES[call](given, made)


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
