"""Every breach of the contract gets its sentence, with its place and nothing else."""

import tracemalloc
import warnings
from time import process_time

import numpy as np
import pytest
import xarray as xr

from broken import BROKEN, ODD, UNSTORABLE, attr, in_time
from conftest import synthetic_task
from msbgen import kernels
from msbgen.core.errors import ProfileError
from msbgen.data import check, schema
from msbgen.data.build import make_profiles
from msbgen.data.check import inspect_profiles, validate_profiles
from msbgen.data.schema import (
    counter_names,
    resource_names,
)


def test_many_variables_take_a_time_that_grows_with_their_number():
    many = xr.Dataset({f"v{i}": 1.0 for i in range(6000)})
    before = process_time()
    with pytest.raises(ProfileError, match="no resource found"):
        validate_profiles(many)
    assert process_time() - before < 5


@pytest.mark.parametrize("case", BROKEN | UNSTORABLE)
def test_every_broken_dataset_gets_its_sentence(measured, monkeypatch, case):
    change, sentence = (BROKEN | UNSTORABLE)[case]
    fresh = measured.copy(deep=True)
    with pytest.raises(ProfileError) as caught:
        validate_profiles(change(measured), source="task.nc")
    matching = [p for p in caught.value.problems if sentence in p]
    assert matching, caught.value.problems
    assert matching[0].startswith("task.nc: ")
    assert matching[0].endswith(".")
    assert all(p.isprintable() and len(p) < 400 for p in caught.value.problems)
    # context by context the sentences are the same, with the same places
    monkeypatch.setattr("msbgen.data.check._CHECKED_AT_ONCE", 1)
    assert set(inspect_profiles(change(fresh), source="task.nc").errors) == set(
        caught.value.problems
    )


def test_counts_that_are_refused_are_not_added_up(measured, caplog):
    huge = measured.assign(instructions=measured["instructions"].astype(float) * 1e300)
    huge["instructions"].attrs = measured["instructions"].attrs
    with warnings.catch_warnings(action="error"), pytest.raises(ProfileError, match="infinite, or"):
        validate_profiles(huge)
    assert not caplog.messages


def test_a_trace_is_to_be_replayed_and_nothing_else_is_said_of_it(measured):
    measured.attrs["schema"] = "msbgen-trace/1"
    message = inspect_profiles(measured.drop_vars("duration")).errors
    assert len(message) == 2
    assert "replay it first (msbgen platform replay)" in message[1]


def test_validation_takes_little_memory_beside_the_dataset(measured, monkeypatch):
    monkeypatch.setattr("msbgen.data.check._CHECKED_AT_ONCE", 2**14)
    attrs = {name: dict(measured[name].attrs) for name in resource_names(measured)}
    grid = np.array([(w, f) for w in range(1, 51) for f in range(1, 11)], dtype=float)
    big = make_profiles(
        np.ones((500, 10, 200, 3)),
        np.full((500, 10), 2.0),
        grid,
        interval=0.01,
        resources={n: {**a, "levels": np.unique(grid).tolist()} for n, a in attrs.items()},
        counters={name: dict(measured[name].attrs) for name in counter_names(measured)},
    )
    validate_profiles(big.isel(context=slice(2)))
    tracemalloc.start()
    validate_profiles(big)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.15 * big.nbytes


@pytest.mark.parametrize("row", [0, 5, -1])
def test_time_may_jitter_by_rounding_only(measured, row):
    def shifted(by):
        def shift(values):
            values[row] += by * values[-1]
            return values

        return inspect_profiles(in_time(shift)(measured)).errors

    assert shifted(1e-7) == []
    assert "resample the counts" in shifted(1e-4)[0]


def too_short(ds):
    short = ds.isel(time=slice(1)).assign(duration=ds["duration"] * 0 + 0.008)
    short["duration"].attrs = ds["duration"].attrs
    return short


DOUBTS = {
    "variable 'cache_misses' has no role": attr("cache_misses", "role", None),
    "coordinate 'slot' has no role": lambda ds: ds.assign_coords(slot=("context", np.arange(6.0))),
    "no run has two whole sampling intervals": too_short,
}


@pytest.mark.parametrize("sentence", DOUBTS)
def test_what_is_odd_is_a_warning(measured, caplog, sentence):
    validate_profiles(DOUBTS[sentence](measured))
    assert sentence in caplog.text


@pytest.mark.parametrize("wrong", ["no", [1, 0], np.nan, 2])
@pytest.mark.parametrize("name", ["keep_all", "task", "sweep", "variant"])
def test_attributes_have_one_type(measured, name, wrong):
    if name != "keep_all" and wrong == "no":
        wrong = 5
    errors = inspect_profiles(measured.assign_attrs({name: wrong})).errors
    assert len(errors) == 1
    assert f": attribute '{name}' is " in errors[0]
    sound = [0, 1, np.int64(1), True] if name == "keep_all" else ["", "x"]
    for value in sound:
        assert inspect_profiles(measured.assign_attrs({name: value})).errors == []


@pytest.mark.parametrize("late", [np.inf, 1e300])
def test_starts_beyond_all_time_are_a_warning(measured, caplog, late):
    validate_profiles(measured.assign(started=measured["duration"] * 0 + late))
    assert f"variable 'started' is {late:g} in a run; seconds" in caplog.text


@pytest.mark.parametrize("dims", [("context",), ("context", "run")])
def test_starts_that_are_none_are_a_warning(measured, caplog, dims):
    starts = np.zeros([measured.sizes[dim] for dim in dims])
    when = starts if len(dims) < 2 else starts.astype("datetime64[ns]")
    validate_profiles(measured.assign(started=(dims, when)))
    assert f"variable 'started' holds {when.dtype} along {list(dims)}; seconds" in caplog.text
    caplog.clear()
    validate_profiles(measured.assign(started=measured["duration"] * 0 + 1))
    assert caplog.text == ""


@pytest.mark.parametrize("odd", [*ODD.values(), "Resource", ""], ids=[*ODD, "word", "nothing"])
def test_a_role_that_is_none_is_said(measured, caplog, odd):
    measured["cache_misses"].attrs["role"] = odd
    slot = "context", np.arange(6.0), {"role": odd}
    validate_profiles(measured.assign_coords(slot=slot))
    for name in ("cache_misses", "slot"):
        assert f"'{name}' has role " in caplog.text
    assert "it is not used; 'resource' or 'counter' would be" in caplog.text


def test_a_resource_that_was_never_varied_is_a_warning(measured, caplog):
    validate_profiles(measured)
    assert caplog.text == ""
    measured["cache_ways"].attrs["levels"] = [2.0]
    first = measured.isel(context=slice(0, 2))
    validate_profiles(first.isel(context=[0]))
    assert "'frequency' was measured at 1 GHz only, one of 3 levels: every other" in caplog.text
    assert "'cache_ways'" not in caplog.text.replace("none of the platform's", "")


def test_a_context_in_two_spellings_is_listed_twice(measured):
    ways = measured["cache_ways"].values.copy()
    clock = measured["frequency"].values.copy()
    ways[1], clock[1] = ways[0], clock[0] * (1 + 3e-16)
    twice = measured.assign_coords(
        cache_ways=measured["cache_ways"].copy(data=ways),
        frequency=measured["frequency"].copy(data=clock),
    )
    (error,) = inspect_profiles(twice, source="a.nc").errors
    assert "is listed again after context 0: put its runs along 'run'" in error


def test_levels_that_differ_by_rounding_are_one(measured, caplog):
    close = measured["frequency"].values * (1 + 1e-7)
    attrs = measured["frequency"].attrs
    validate_profiles(measured.assign_coords(frequency=("context", close, attrs)))
    assert caplog.text == ""
    off = close * (1 + 1e-5)
    validate_profiles(measured.assign_coords(frequency=("context", off, attrs)))
    assert "'frequency' is none of the platform's 'levels'" in caplog.text


def test_another_file_of_ours_has_one_thing_wrong():
    runs = kernels.make(["gemm"], [1.0], resources={"clock": [400]})
    with pytest.raises(ProfileError) as refused:
        validate_profiles(runs, source="k.nc")
    message = (
        "k.nc: attribute 'schema' is 'msbgen-kernels/1'; a profile file says 'msbgen-profile/1'."
    )
    assert list(refused.value.problems) == [message]
    with pytest.raises(ProfileError) as refused:
        validate_profiles(runs.assign_attrs(schema="msbgen-model/5"))
    assert "it is a saved model: give the profiles" in refused.value.problems[1]


def test_levels_of_many_contexts_are_compared_with_the_nearest(monkeypatch):
    n = 3000
    dataset = synthetic_task(np.column_stack([np.linspace(2, 8, n), np.linspace(1, 2, n)]), 1)
    compared = []

    def counted(values, others):
        compared.append(np.broadcast(values, others).size)
        return schema.same_level(values, others)

    monkeypatch.setattr(check, "same_level", counted)
    assert not inspect_profiles(dataset).errors
    assert 0 < sum(compared) <= 10 * n
    levels = np.unique(dataset["frequency"])
    dataset["frequency"].attrs["levels"] = np.delete(levels, n // 2).tolist()
    (warning,) = (w for w in inspect_profiles(dataset).warnings if "'frequency' is none" in w)
    assert f"context {n // 2}" in warning
