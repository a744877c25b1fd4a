"""Lines of perf's JSON."""

import json

import numpy as np
import pytest

from measure_fixtures import FIXTURES
from msbgen.core.errors import ProfileError
from msbgen.sources.measure.readers.perf_json import read_json

ROW = {
    "interval": 0.0101, "counter-value": "9.990001", "unit": "msec", "event": "task-clock",
    "event-runtime": 9990001, "pcnt-running": 100.0, "metric-value": 0.999,
    "metric-unit": "CPUs utilized",
}  # fmt: skip


def text(*rows):
    return "# started on Sun Nov 22 12:00:00 2026\n\n" + "".join(json.dumps(r) + "\n" for r in rows)


def test_rows_are_read():
    later = {**ROW, "interval": 0.02, "counter-value": "<not counted>", "event-runtime": 0}
    found = read_json(text(ROW, later), "f")
    assert list(found.values) == [9.990001, 0]
    assert list(found.times) == [0.0101, 0.02]
    assert list(found.states) == [0, 1]
    assert list(found.lines) == [3, 4]


def test_the_keys_of_other_versions_are_known():
    row = {k: v for k, v in ROW.items() if k != "interval"}
    found = read_json(text({"timestamp": 0.0101, "cpu": "3", "counters": 1, **row}), "f")
    assert found.times[0] == 0.0101
    assert found.places == ["CPU3"]


def test_rows_without_a_time_are_the_summary():
    total = {k: v for k, v in ROW.items() if k != "interval"}
    found = read_json(text(ROW, {**total, "counter-value": "12.5"}), "f")
    assert len(found.values) == 1
    assert found.summary == {"task-clock": 12.5}


def test_metrics_that_are_no_numbers_do_not_matter():
    for odd in ("nan", "-nan", "inf"):
        found = read_json(text(ROW).replace("0.999", odd), "f")
        assert found.values[0] == 9.990001


def test_decimal_commas_of_a_locale_are_repaired():
    name = FIXTURES / "perf-6.1.187" / "de.jsonl"
    found = read_json(name.read_text(), name.name)
    clock = np.array(found.units) == "msec"
    nanoseconds = found.values[clock] * 1e6
    np.testing.assert_allclose(nanoseconds, found.running[clock], atol=600)  # read a little apart
    assert (found.share == 1).all()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"counter-value": 5}, "line 3: 'counter-value' is 5, which perf does not write"),
        ({"counter-value": "many"}, "'counter-value' is 'many'"),
        ({"counter-value": "1e9"}, "'counter-value' is '1e9'"),
        ({"event": ""}, "'event' is ''"),
        ({"event": "\x1b[31m"}, r"'event' is '\x1b[31m'"),
        ({"unit": None}, "'unit' is None"),
        ({"interval": True}, "'interval' is True"),
        ({"interval": -1}, "'interval' is -1"),
        ({"interval": 10**400}, "'interval' is 1000"),
        ({"pcnt-running": "100"}, "'pcnt-running' is '100'"),
        ({"event-runtime": float("nan")}, "'event-runtime' is nan"),
    ],
)
def test_odd_members_are_named(change, sentence):
    with pytest.raises(ProfileError) as caught:
        read_json(text({**ROW, **change}), "run.jsonl")
    assert f"run.jsonl: line 3: {sentence.partition(': ')[2]}".startswith("run.jsonl: line 3: ")
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    "line", ['{"interval" : 0.0', '{"interval" : 1' + "0" * 5000 + "}", '{"event" : ' + "{" * 3000]
)
def test_a_line_that_is_no_object_is_named(line):
    with pytest.raises(ProfileError, match=r"run: line 4 is .* no JSON object"):
        read_json(text(ROW) + line + "\n", "run")
    with pytest.raises(ProfileError, match="no 'event' and 'counter-value'"):
        read_json(text(ROW, {"interval": 1.0}), "run")


@pytest.mark.parametrize("line", ["loading", "[]", "3", '{"task": 1}', "}{", "{" * 3000])
def test_lines_of_the_program_are_skipped_with_a_warning(line):
    found = read_json(text(ROW) + f"{line}\nhalf a line, then " + json.dumps(ROW), "run")
    assert list(found.lines) == [3, 5]
    assert found.warnings == (
        "run: 1 line is not perf's, but the program's, and was skipped; "
        "'perf stat -o FILE' keeps them apart.",
    )


def test_lines_of_metrics_hold_no_count_whatever_their_keys():
    group = {"interval": 0.0101, "socket": "S0", "metricgroup": "TmaL2", "event-runtime": 5}
    metric = {"interval": 0.0101, "metric-value": "33.1", "metric-unit": "%", "pcnt-running": 40.0}
    found = read_json(text(group, ROW, metric), "run")
    assert list(found.events) == ["task-clock"]
    assert found.warnings == ()


def test_a_comma_before_the_closing_brace_is_repaired():
    comma = json.dumps({**ROW, "interval": 0.02})[:-1] + ", }"
    assert list(read_json(text(ROW) + comma, "run").times) == [0.0101, 0.02]
