"""``msbgen export``."""

import pytest


def test_measured_and_generated_profiles_become_one_trace(folder, msbgen):
    done = msbgen(
        "generate", "measured.nc", "-o", "g.nc", "--contexts", "truth.nc", "--kind", "mean"
    )
    assert done.returncode == 0, done.stderr
    arguments = ("export", "truth.nc", "g.nc", "--runs", 2, "--format")
    done = msbgen(*arguments, "perfetto", "-o", "x.pftrace")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("x.pftrace: 6 runs")
    trace = (folder / "x.pftrace").read_bytes()
    assert trace.index(b"frequency=1.5 GHz | truth 1") < trace.index(b"frequency=1.5 GHz | g")
    (folder / "one.csv").write_text("cache_ways,frequency\n4,1.5\n")
    done = msbgen(*arguments, "openmetrics", "-o", "x.txt", "--contexts", "one.csv", "--start", 5)
    assert done.stdout.startswith("x.txt: 3 runs"), done.stderr
    text = (folder / "x.txt").read_text()
    assert 'source="g",cache_ways="4"' in text
    assert 'cache_ways="6"' not in text
    assert " 0 5.000000\n" in text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("measured.nc", "--format", "perfetto", "--start", 3), "--start is for --format openm"),
        (("measured.nc", "measured.nc", "--format", "perfetto"), "a file is named twice"),
        (("measured.nc", "--format", "perfetto", "--contexts", "truth.nc"), "no file holds cont"),
    ],
)
def test_what_cannot_be_exported_is_refused(folder, refused, arguments, sentence):
    refused(2, sentence, "export", *arguments, "-o", "x")
