"""OpenMetrics text, read by a small grammar of the specification."""

import re
from importlib.util import find_spec

import numpy as np
import pytest

from conftest import synthetic_task
from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.output.export.openmetrics import write_openmetrics
from msbgen.output.export.perfetto import write_perfetto

NAME = "[a-zA-Z_:][a-zA-Z0-9_:]*"
LABELS = r'\{(?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)*\}'
SAMPLE = re.compile(rf"({NAME})({LABELS}) (\S+) (\S+)")


def read(text):
    """Families in their order: type, unit and samples; asserts what the specification wants."""
    *lines, end = text.split("\n")[:-1]
    assert end == "# EOF"
    families, name = {}, ""
    for line in lines:
        if about := re.fullmatch(rf"# (TYPE|UNIT|HELP) ({NAME}) (.*)", line):
            if about[1] == "TYPE":
                name = about[2]
                assert name not in families  # a family stands in one piece
                families[name] = {"samples": []}
            assert about[2] == name
            assert not families[name]["samples"]
            families[name][about[1]] = about[3]
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample, line
        suffix = {"counter": "_total", "gauge": ""}[families[name]["TYPE"]]
        assert sample[1] == name + suffix
        assert name.endswith(families[name].get("UNIT", ""))
        families[name]["samples"].append((sample[2], float(sample[3]), float(sample[4])))
    for family in families.values():
        stamps = {}
        for labels, value, stamp in family["samples"]:
            before = stamps.get(labels, (-1.0, -1.0))
            assert stamp > before[1]
            assert value >= before[0] or family["TYPE"] == "gauge"
            stamps[labels] = value, stamp
    return families


@pytest.fixture
def task():
    made = synthetic_task(np.array([[2.0, 1.0], [4.0, 2.0]]), n_runs=2)
    made["cache_misses"].attrs["units"] = "J"
    made.attrs["task"] = 'a "b" \\ c\nd'
    return made


def test_counters_accumulate_to_their_totals_at_the_end_of_the_run(task, tmp_path):
    path = tmp_path / "x.txt"
    mean = task.isel(run=0, drop=True)
    assert write_openmetrics({"m": task, "one": mean}, path, start=100.0) == 6
    families = read(path.read_text())
    assert list(families) == [
        "msbgen_instructions", "msbgen_cache_requests", "msbgen_cache_misses_joules",
        "msbgen_duration_seconds",
    ]  # fmt: skip
    assert families["msbgen_cache_misses_joules"]["UNIT"] == "joules"
    labels = '{task="a \\"b\\" \\\\ c\\nd",source="m",cache_ways="4",frequency="2",run="1"}'
    own = [s for s in families["msbgen_instructions"]["samples"] if s[0] == labels]
    assert own[0][1:] == (0.0, 100.0)
    assert own[-1][1] == pytest.approx(float(task["instructions"][1, 1].sum()), rel=1e-6)
    (seconds,) = [s for s in families["msbgen_duration_seconds"]["samples"] if s[0] == labels]
    assert seconds[1] == pytest.approx(float(task["duration"][1, 1]))
    assert seconds[2] == pytest.approx(own[-1][2]) == pytest.approx(100 + seconds[1], abs=1e-6)


def test_time_stamps_are_those_of_the_run_where_it_is_known_when_it_began(task, tmp_path):
    task["started"] = ("context", "run"), [[1e9, np.nan], [1e9 + 5, 1e9 + 9]], {"units": "s"}
    write_openmetrics({"m": task}, tmp_path / "x.txt")
    samples = read((tmp_path / "x.txt").read_text())["msbgen_instructions"]["samples"]
    began = [stamp for _, value, stamp in samples if value == 0]
    assert began == [1e9, 0, 1e9 + 5, 1e9 + 9]


@pytest.mark.skipif(find_spec("prometheus_client") is None, reason="needs prometheus-client")
def test_the_parser_of_prometheus_reads_it(task, tmp_path):
    from prometheus_client.openmetrics.parser import text_string_to_metric_families

    write_openmetrics({"m": task}, tmp_path / "x.txt")
    text = (tmp_path / "x.txt").read_text()
    found = {family.name: family for family in text_string_to_metric_families(text)}
    assert set(found) == set(read(text))
    assert found["msbgen_instructions"].samples[0].labels["task"] == task.attrs["task"]


def test_names_that_become_one_are_refused(task, tmp_path):
    same = task.rename(cache_misses="cache-requests")
    same["cache-requests"].attrs["units"] = "1"
    with pytest.raises(ArgumentError, match="and another make one metric, msbgen_cache_requests"):
        write_openmetrics({"m": same}, tmp_path / "x.txt")
    with pytest.raises(ArgumentError, match="make no distinct labels"):
        write_openmetrics({"m": task.rename(frequency="task")}, tmp_path / "x.txt")


def test_a_counter_of_two_units_is_two_metrics(tmp_path):
    events = synthetic_task(np.array([[2.0, 1.0]]), n_runs=1)
    joules = events.copy(deep=True)
    joules["cache_misses"].attrs["units"] = "J"
    write_openmetrics({"b\udcff": events, "c": joules}, tmp_path / "o.txt")
    families = read((tmp_path / "o.txt").read_text())
    for name, source in (("cache_misses", "b?"), ("cache_misses_joules", "c")):
        (samples,) = ({labels for labels, *_ in families[f"msbgen_{name}"]["samples"]},)
        assert all(f'source="{source}"' in labels for labels in samples)
    clash = joules.assign(cache_misses_joules=events["cache_misses"])
    with pytest.raises(ArgumentError, match="make one metric, msbgen_cache_misses_joules"):
        write_openmetrics({"a": clash}, tmp_path / "p.txt")


@pytest.mark.parametrize("write", [write_openmetrics, write_perfetto])
def test_times_beyond_a_trace_are_refused(write, tmp_path):
    task = synthetic_task(np.array([[2.0, 1.0]]), n_runs=1)
    task.attrs["interval"], task["duration"] = 1e100, task["duration"] * 1e102
    with pytest.raises(MeasurementError, match=r"^a: a sample is at .*can be exported"):
        write({"a": task}, tmp_path / "o")
    assert not (tmp_path / "o").exists()
