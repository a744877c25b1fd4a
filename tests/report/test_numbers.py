"""Every number of a report is the library's."""

import json

import numpy as np
import pytest

from msbgen.data.files import write_json
from msbgen.data.schema import duration_array
from msbgen.report.material import Material, Missing
from msbgen.report.numbers import numbers_of, worst_region


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
