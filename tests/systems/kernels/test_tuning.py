"""Results of auto-tuners: Kernel Tuner's cache, and T4."""

import gzip
import json

import numpy as np
import pytest

from msbgen.core.errors import ProfileError
from msbgen.data.schema import context_table, resource_names
from msbgen.systems.kernels.choice.costs import costs_of
from msbgen.systems.kernels.tuning import read_tuning

CLOCKS, BLOCKS = (600, 900, 1200), (32, 64)


def milliseconds(clock, block):
    return 4e3 / clock + 64 / block


def watts(clock):
    return 50 + 1e-4 * clock**2


def entry(clock, block, **more):
    time = milliseconds(clock, block)
    return {
        "block_size_x": block, "nvml_gr_clock": clock, "use_shmem": 0, "time": time,
        "times": [0.9 * time, 1.1 * time], "nvml_power": watts(clock), "GFLOP/s": 1.0,
        "compile_time": 3.0, "timestamp": "2026-01-05 10:00:00+00:00", **more,
    }  # fmt: skip


def cache(**entries):
    keys = ["block_size_x", "nvml_gr_clock", "use_shmem"]
    made = {f"{b},{c},0": entry(c, b) for c in CLOCKS for b in BLOCKS}
    return {
        "device_name": "Some GPU", "kernel_name": "vector_add", "problem_size": [1024],
        "tune_params_keys": keys, "tune_params": {k: [] for k in keys}, "objective": "time",
        "cache": {**made, **entries},
    }  # fmt: skip


def written(tmp_path, content, name="k.json"):
    text = content if isinstance(content, str) else json.dumps(content)
    (tmp_path / name).write_text(text)
    return tmp_path / name


def test_every_run_of_a_configuration_is_a_measurement(tmp_path):
    failed = {
        "16,600,0": entry(600, 16, time="InvalidConfig"),
        "8,600,0": entry(600, 8, time=1e20),
    }
    found = read_tuning(written(tmp_path, cache(**failed)))
    assert found.sizes["measurement"] == 12
    assert resource_names(found) == ["block_size_x", "nvml_gr_clock"]
    assert found["nvml_gr_clock"].attrs["units"] == "MHz"
    assert set(found["kind"].values) == {"vector_add"}
    assert found.attrs["platform"] == "Some GPU"
    costs = costs_of(found)
    for column, (block, clock) in enumerate(costs.contexts):
        assert costs.time[0, column] == pytest.approx(1e-3 * milliseconds(clock, block))
        assert costs.power[0, column] == pytest.approx(watts(clock))


def test_a_cache_that_is_still_written_to_is_read_to_its_last_entry(tmp_path):
    whole = json.dumps(cache())
    at = whole.index('"64,1200,0"')
    found = read_tuning(written(tmp_path, whole[:at].rstrip()))
    assert found.sizes["measurement"] == 10


def test_t4_results_give_the_same(tmp_path):
    results = [
        {
            "configuration": {k: e[k] for k in cache()["tune_params_keys"]},
            "times": {"runtimes": e["times"], "compilation": 3.0},
            "invalidity": "correct",
            "measurements": [
                {"name": "time", "value": e["time"], "unit": "ms"},
                {"name": "nvml_energy", "value": watts(e["nvml_gr_clock"]) * e["time"] / 1e3},
            ],
        }
        for e in cache()["cache"].values()
    ]
    failed = {"configuration": results[0]["configuration"], "invalidity": "compile"}
    content = {"results": [*results, failed], "schema_version": "1.0.0"}
    found = read_tuning(written(tmp_path, content, "vector_add.json"))
    other = read_tuning(written(tmp_path, cache()))
    for name in ("runtime", "power", "run"):
        np.testing.assert_allclose(found[name], other[name])
    assert found["kind"].values.tolist() == other["kind"].values.tolist()
    np.testing.assert_array_equal(context_table(found), context_table(other))


def test_words_and_zeros_make_programs_of_their_own(tmp_path):
    more = {f"{b},{c},1": entry(c, b, use_shmem=1) for c in CLOCKS for b in BLOCKS}
    found = read_tuning(written(tmp_path, cache(**more)))
    wanted = {"vector_add/use_shmem=0", "vector_add/use_shmem=1"}
    assert set(found["kind"].values) == wanted
    assert resource_names(found) == ["block_size_x", "nvml_gr_clock"]


ONE = {"32,600,0": entry(600, 32)}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("[]", "is no JSON object; a cache of Kernel Tuner, or T4 results, is wanted"),
        ("{", "cannot be read as JSON"),
        ({}, "has no 'cache' and no 'results'"),
        ({"cache": {}}, "has no list 'tune_params_keys'"),
        ({**cache(), "cache": {}}, "has no configuration that ran"),
        ({**cache(), "cache": {"x": {}}}, "entry 'x' lacks one of block_size_x, nvml_gr_clock"),
        ({**cache(), "cache": ONE}, "no parameter has several positive numbers (block_size_x,"),
        (cache(x=entry(600, 32, times=[1, -1])), "entry 'x' has times that are no positive"),
        ({"results": [3]}, "result 0 has no 'configuration'"),
    ],
)
def test_what_is_no_result_of_a_tuner_is_refused(tmp_path, content, sentence):
    with pytest.raises(ProfileError) as caught:
        read_tuning(written(tmp_path, content))
    assert sentence in str(caught.value)
    assert str(caught.value).startswith("k.json: ")


def test_compressed_results_are_read_and_cut_ones_refused(tmp_path):
    packed = gzip.compress(json.dumps(cache()).encode())
    (tmp_path / "k.json.gz").write_bytes(packed)
    assert read_tuning(tmp_path / "k.json.gz").sizes["measurement"] == 12
    (tmp_path / "cut.json.gz").write_bytes(packed[:-20])
    with pytest.raises(ProfileError, match=r"^cut\.json\.gz: cannot be decompressed"):
        read_tuning(tmp_path / "cut.json.gz")
