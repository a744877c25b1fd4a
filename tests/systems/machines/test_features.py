"""Features of runs."""

import numpy as np
import pytest

from machines import made_runs
from msbgen.core.errors import MeasurementError
from msbgen.systems.machines.dataset import make as make_relative
from msbgen.systems.machines.features import learn_features


def runs(**given):
    counters = {"instructions": [100.0, 1000.0], "l8": [10.0, 0.0], "l16": [5.0, 300.0]}
    return make_relative(
        [[1.0, 2.0], [3.0, 4.0]], ["a", "b"], program=["p", "q"], counters=counters,
        groups={"l8": "load", "l16": "load"}, work="instructions",
        configuration=["jit", "aot"], **given,
    )  # fmt: skip


def test_shares_of_the_instructions_by_kind_and_counters_per_instruction():
    features = learn_features(runs())
    table = features.program(runs(), "a")
    assert features.names == [
        "share of load", "instructions", "l8", "l16", "configuration aot", "configuration jit",
    ]  # fmt: skip
    np.testing.assert_allclose(table[:, 0], [0.15, 0.3])
    np.testing.assert_allclose(table[:, 1], np.log([100, 1000]))
    np.testing.assert_allclose(table[:, 2], np.log1p([1e5, 0]))
    np.testing.assert_array_equal(table[:, 4:], [[0, 1], [1, 0]])


def test_with_the_time_on_the_source():
    features = learn_features(runs())
    table = features.timed(runs(), "b", np.log([2.0, 4.0]))
    assert features.timed_names[-2:] == ["time", "time per instructions"]
    np.testing.assert_allclose(table[:, -2], np.log([2, 4]))
    np.testing.assert_allclose(table[:, -1], np.log([2 / 100, 4 / 1000]))
    assert table.shape[1] == len(features.timed_names)


def test_what_was_not_counted_is_the_median_and_what_never_varies_is_dropped():
    full = made_runs(5)
    gaps = full.copy(deep=True)
    gaps["counters"][2, 1] = np.nan
    features = learn_features(full)
    assert features.names == ["instructions", "loads"]
    table = features.program(gaps, "old")
    assert table[2, 1] == np.median(features.program(full, "old")[:, 1])
    lacking = full.isel(counter=[0])
    assert (features.program(lacking, "old")[:, 1] == table[2, 1]).all()


def test_configurations_never_seen_are_none():
    features = learn_features(runs())
    new = runs().assign(configuration=("run", np.array(["jit", "other"])))
    np.testing.assert_array_equal(features.program(new, "a")[:, -2:], [[0, 1], [0, 0]])


def test_counters_of_each_machine_are_those_of_the_source():
    many = made_runs(6, per_machine=True)
    features = learn_features(many)
    assert features.per_machine
    old, odd = (features.program(many, name) for name in ("old", "odd"))
    np.testing.assert_allclose(odd[:, 0] - old[:, 0], np.log(4))


def test_runs_without_work_are_refused_by_their_number():
    none = runs()
    none["counters"][1, 0] = 0.0
    with pytest.raises(MeasurementError, match="run 1, of program 'q', has 0 instructions on"):
        learn_features(none)


def test_without_counters_there_is_the_configuration():
    bare = runs().drop_vars(["counters", "units", "group", "counter"])
    del bare.attrs["work"]
    features = learn_features(bare)
    assert features.names == ["configuration aot", "configuration jit"]
    assert (features.log_work(bare, "a") == 0).all()
    alike = bare.assign(configuration=("run", np.array(["jit", "jit"])))
    assert learn_features(alike).program(alike, "a").tolist() == [[0.0], [0.0]]
