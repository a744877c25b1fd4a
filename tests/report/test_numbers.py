"""Every number of a report is the library's."""

import json
from dataclasses import replace

import numpy as np
import pytest

from msbgen.data.files import write_json
from msbgen.data.schema import duration_array
from msbgen.report.material import Material, Missing
from msbgen.report.numbers import interval_of, numbers_of, worst_region


@pytest.fixture(scope="module")
def numbers(material):
    return numbers_of(material)


def test_they_are_those_of_the_library(material, numbers):
    held, told = material.held_out, numbers["held_out"]
    own = held.scores["score"].sel({"method": "default/mean"})
    np.testing.assert_array_equal(told["context_error"], own.sel(metric="ndtw_scaled"))
    assert told["error"] == held.summary["methods"]["default/mean"]["ndtw_scaled"]
    assert told["baseline"]["time"] == held.summary["methods"]["bracketing"]["duration_error"]
    assert told["halves"]["error"] == held.halves["ndtw_scaled"]
    durations, bound = duration_array(held.truth), held.bounds.duration
    assert told["bounds"]["coverage"] == (durations <= bound[:, None]).mean()
    everywhere = material.everywhere
    assert numbers["everywhere"]["duration"] == everywhere.profiles["duration"].values.tolist()
    assert numbers["everywhere"]["bound"] == everywhere.bounds.duration.tolist()
    assert numbers["next"]["error"] == material.next.error.tolist()
    assert numbers["convergence"]["largest"] == material.convergence.errors.max()


def test_methods_are_beside_the_best_simple_one_and_the_halves(material, numbers):
    held, told = material.held_out, numbers["held_out"]
    methods = held.summary["methods"]
    simple = {
        n: methods[n] for n in ("bracketing", "nearest_context", "multilinear", "kernel_mean")
    }
    for name, metric in (("error", "ndtw_scaled"), ("time", "duration_error")):
        best = told["best"][name]
        assert best["value"] == simple[best["method"]][metric]
        assert best["value"] == min(row[metric] for row in simple.values())
    spread = methods["default/sample"]["energy_distance"] / held.halves["energy_distance"]
    assert told["over_halves"]["spread"] == spread
    assert told["over_halves"]["profile"] == told["error"] / told["halves"]["error"]
    assert told["over_halves"]["duration"] == told["time"] / told["halves"]["time"]


def test_the_interval_of_a_share_takes_the_runs_of_a_context_together():
    together, alone = np.repeat([10, 0], [15, 5]), np.full(20, 10)
    low, high = interval_of(together, alone)
    assert (low + high) / 2 == pytest.approx(0.75)
    assert high - 0.75 == pytest.approx(1.96 * np.sqrt(0.75 * 0.25 / 19))
    assert interval_of(np.full(20, 9), alone) == pytest.approx((0.9, 0.9))
    assert interval_of(np.array([9]), np.array([10])) == (0.0, 1.0)


def test_a_plan_is_enough_where_its_error_comes_near_the_last(material):
    error = np.array([0.1, 0.08, 0.079, 0.0509, 0.05, 0.05])
    plan = replace(material.next, error=error, contexts=np.ones((5, 2)), seconds=np.arange(5.0))
    told = numbers_of(replace(material, next=plan))["next"]
    assert (told["enough"], told["enough_seconds"], told["enough_error"]) == (3, 3.0, 0.0509)


def test_they_are_json(numbers, tmp_path):
    write_json(numbers, tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_text())["schema_version"] == 1


def test_regions_are_means_over_their_contexts(material, numbers):
    regions = numbers["held_out"]["regions"]
    ways = material.held_out.truth["cache_ways"].values
    error = np.array(numbers["held_out"]["context_error"])
    for region in regions[:3]:
        inside = (ways >= region["low"]) & (ways <= region["high"])
        assert region["contexts"] == inside.sum()
        assert region["error"] == pytest.approx(error[inside].mean(), rel=1e-12)
    assert worst_region(numbers["held_out"]) == np.argmax([r["error"] for r in regions])


def test_what_is_missing_says_why(task, material):
    none = Missing("not done.")
    told = numbers_of(Material("a.nc", task, (), none, material.everywhere, none, none))
    assert told["held_out"] == told["next"] == told["convergence"] == {"missing": "not done."}
