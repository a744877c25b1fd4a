"""Recording of real programs, where the packages that it needs are installed."""

import logging
import os
import shutil
import stat
import subprocess
from pathlib import Path
from pydoc_data import topics

import numpy as np
import pytest
import xarray as xr

from msbgen.core.errors import ArgumentError
from msbgen.data.sharing import shared_by_all
from msbgen.sources.platform import record
from msbgen.sources.platform.beside import replay_beside
from msbgen.sources.platform.config import platform_contexts
from msbgen.sources.platform.record import RecordError, check_recording_needs, record_trace
from msbgen.sources.platform.replay import replay_trace
from msbgen.sources.platform.stream import read_stream
from msbgen.sources.platform.trace import read_trace


def recorder_missing() -> str:
    try:
        check_recording_needs()
    except RecordError as error:
        return str(error)
    return ""


needs_recorder = pytest.mark.skipif(bool(recorder_missing()), reason=recorder_missing())


def compiled(source: str, folder: Path) -> list[str]:
    program = folder / "program"
    options = ["-O1", "-pthread", "-x", "c", "-", "-o", str(program)]
    subprocess.run(["gcc", *options], input=source.encode(), check=True)
    return [str(program)]


@needs_recorder
def test_record_a_real_compressor(tmp_path):
    seen = []
    text = tmp_path / "text"
    text.write_bytes(Path(topics.__file__).read_bytes()[:200_000])
    command = ["gzip", "-9", "-c", str(text)]
    trace = record_trace(command, tmp_path / "gzip.nc", on_instructions=seen.append)
    xr.testing.assert_identical(read_trace(tmp_path / "gzip.nc"), trace)
    instructions = float(trace.instructions.sum())
    assert instructions > 50 * text.stat().st_size
    assert 0 < seen[-1] <= instructions
    assert trace.instructions.values[:-1].min() >= 400_000
    assert trace.instructions.values.max() < 401_000
    assert 0.4 < float(trace.core_cycles.sum()) / instructions < 2
    misses = trace.distance_histogram.isel(colouring=0).sum(["interval", "stream"]).values
    assert misses[20] > text.stat().st_size / 64  # the text is read once
    profiles = replay_trace(trace, platform_contexts("grid:2x2x2"), 2)
    slow = profiles.duration.values[profiles.frequency.values == 1.2]
    fast = profiles.duration.values[profiles.frequency.values == 2.3]
    assert fast.max() < slow.min()


@needs_recorder
def test_recorded_instructions_and_misses_are_those_of_a_known_program(tmp_path):
    """Loops of two instructions, ten million for each argument, then eight sweeps over 4 MiB."""
    source = """
        #include <stdio.h>
        static char data[4 << 20];
        int main(int count, char **arguments)
        {
            long n = 10000000L * count, sum = 0;
            __asm__ volatile("1: decq %0; jnz 1b" : "+r"(n));
            for (int k = 0; k < 8; k++)
                for (unsigned i = 0; i < sizeof data; i += 64)
                    sum += ++data[i];
            printf("%ld\\n", sum);
            return 0;
        }
    """
    program = compiled(source, tmp_path)
    trace = record_trace(program, tmp_path / "one.nc", stream=tmp_path / "every.nc")
    more = record_trace([*program, "x"], tmp_path / "two.nc")
    executed = [float(t.instructions.sum()) for t in (trace, more)]
    assert executed[1] - executed[0] == pytest.approx(2e7, abs=1000)
    sweeps = 8 * 65536
    histogram = trace.distance_histogram.sum("interval").transpose("colouring", "stream", ...)
    demand, prefetched = histogram.values[:, 0], histogram.values[:, 1]
    requests = (demand + prefetched).sum(axis=1)
    assert np.all((sweeps <= requests) & (requests < 1.02 * sweeps))
    assert np.all(prefetched.sum(axis=1) > 0.97 * requests)
    misses = {w: (demand + prefetched)[:, w:].sum(axis=1) for w in (2, 20)}
    assert np.all(misses[20] < 1.05 * sweeps / 8)  # 4 MiB stay in 20 MiB
    assert np.all(misses[2] > 0.8 * sweeps)  # but not in 2
    assert len(set(misses[2])) == 3  # colourings differ
    # the stream has every request, and the misses of a replay are those of the histogram
    stream = read_stream(tmp_path / "every.nc")
    assert stream.sizes["request"] == requests[0]
    assert float(stream["instructions"].sum()) == executed[0]
    assert stream.sizes["interval"] > 15 * trace.sizes["interval"]
    for w in (2, 20):
        alone = replay_beside([stream], shared_by_all(1, ways=w), 1, rng=w)[0]
        assert abs(float(alone["cache_misses"].sum()) / misses[w].mean() - 1) < 0.05


@needs_recorder
def test_mispredicted_branches_cost_cycles(tmp_path):
    source = """
        #include <stdio.h>
        int main(void)
        {
            unsigned x = 1, taken = 0;
            for (int i = 0; i < 1000000; i++) {
                x = x * 1664525 + 1013904223;
                if ((x >> BIT) & 1)
                    __asm__ volatile("incl %0" : "+r"(taken));
            }
            printf("%u\\n", taken);
            return 0;
        }
    """
    cycles = []
    for bit in ("0", "31"):  # the lowest bit alternates, the highest one looks random
        folder = tmp_path / bit
        folder.mkdir()
        trace = record_trace(compiled(source.replace("BIT", bit), folder), folder / "t.nc")
        cycles.append(float(trace.core_cycles.sum()))
    assert 0.4e6 * 15 < cycles[1] - cycles[0] < 0.6e6 * 15


@needs_recorder
def test_children_and_closed_descriptors_do_not_disturb_the_recording(tmp_path):
    work = "i=0; while [ $i -lt 1000 ]; do i=$((i+1)); done; echo $i"
    alone = record_trace(["sh", "-c", "exec 2>&-; (:); echo a"], tmp_path / "a.nc")
    parent = record_trace(["sh", "-c", f"exec 2>&-; ({work}); echo a"], tmp_path / "b.nc")
    itself = record_trace(["sh", "-c", f"exec 2>&-; {work}"], tmp_path / "c.nc")
    counts = [float(t.instructions.sum()) for t in (alone, parent, itself)]
    assert counts[1] < counts[0] + 0.1 * (counts[2] - counts[0])


@needs_recorder
def test_an_access_across_two_lines_touches_both(tmp_path):
    source = """
        static char data[8 << 20];
        int main(int count, char **arguments)
        {
            for (unsigned i = count == 1 ? 32 : 60; i + 128 < sizeof data; i += 128)
                *(volatile long *)(data + i) = 1;
            return 0;
        }
    """
    program = compiled(source, tmp_path)
    requests = [
        float(record_trace(command, tmp_path / name, colourings=1).distance_histogram.sum())
        for command, name in ((program, "inside.nc"), ([*program, "x"], "across.nc"))
    ]
    assert requests[1] - requests[0] == pytest.approx(65536, rel=0.01)


@needs_recorder
def test_only_the_first_thread_is_recorded_and_that_is_said(tmp_path, caplog):
    source = """
        #include <pthread.h>
        static void *work(void *unused)
        {
            long n = 5000000;
            __asm__ volatile("1: decq %0; jnz 1b" : "+r"(n));
            return unused;
        }
        int main(void)
        {
            pthread_t thread;
            pthread_create(&thread, 0, work, 0);
            return pthread_join(thread, 0);
        }
    """
    with caplog.at_level(logging.WARNING, logger="msbgen"):
        trace = record_trace(compiled(source, tmp_path), tmp_path / "t.nc")
    assert float(trace.instructions.sum()) < 5e6
    assert "several threads" in caplog.text


@needs_recorder
@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["sh", "-c", "echo $$"], "printed something else"),
        (["sh", "-c", "exec true"], "did not end by itself"),
        (["sh", "-c", "kill -9 $$"], "did not end by itself"),
        (["no-such-program"], "no such program"),
        (["SCRIPT"], "is a script .*/bin/sh"),
        (["TEXT"], "is no x86-64 executable"),
    ],
)
def test_what_cannot_be_recorded_is_refused(tmp_path, command, message):
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\ntrue\n")
    text = tmp_path / "text"
    text.write_text("text")
    for path in (script, text):
        path.chmod(0o755)
    names = {"SCRIPT": str(script), "TEXT": str(text)}
    with pytest.raises(RecordError, match=message):
        record_trace([names.get(word, word) for word in command], tmp_path / "t.nc")
    assert not (tmp_path / "t.nc").exists()


def test_recording_names_the_packages_that_are_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("sys.platform", "linux")
    with pytest.raises(RecordError, match="apt install qemu-user gcc"):
        record_trace(["gzip"], tmp_path / "t.nc")
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(RecordError, match="needs Linux on x86-64"):
        record_trace(["gzip"], tmp_path / "t.nc")


@pytest.mark.parametrize("folder", ["missing", "file"])
def test_where_nothing_can_be_written_no_program_runs(tmp_path, folder):
    (tmp_path / "file").write_text("no folder")
    mark = tmp_path / "mark"
    with pytest.raises(OSError, match="there is no folder"):
        record_trace(["touch", str(mark)], tmp_path / folder / "t.nc")
    assert not mark.exists()


def test_arguments_out_of_range_are_refused_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))  # nor is a recorder looked for
    path, pipe = tmp_path / "t.nc", tmp_path / "pipe"
    os.mkfifo(pipe)
    for change, message in (
        ({"interval": 0}, "interval is 0; a whole number ≥ 1"),
        ({"colourings": 1.5}, "colourings is 1.5"),
        ({"interval": float("nan")}, "interval is nan"),
        ({"command": []}, "command is empty"),
        ({"stdin": tmp_path / "no"}, "stdin is '.*no'; an existing file is wanted"),
        ({"stdin": pipe}, "an existing file is wanted, no pipe"),
    ):
        with pytest.raises(ArgumentError, match=message):
            record_trace(**{"command": ["gzip"], "output": path, **change})
    assert not path.exists()


@needs_recorder
def test_arguments_that_are_no_text_are_kept_in_a_form_that_is(tmp_path):
    trace = record_trace(["echo", os.fsdecode(b"caf\xe9")], tmp_path / "t.nc")
    assert read_trace(tmp_path / "t.nc").attrs["program"] == trace.attrs["program"]
    assert "udce9" in trace.attrs["program"]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize("open_to", ["others", "nobody"])
def test_no_program_is_loaded_from_a_folder_that_others_can_write(tmp_path, monkeypatch, open_to):
    cache, scratch = tmp_path / "cache" / "msbgen", tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache.parent))
    built = record._build_plugin(scratch)
    assert built.parent == cache
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    built.write_text("of another user")
    if open_to == "others":
        cache.chmod(0o777)
    assert record._build_plugin(scratch).parent == (scratch if open_to == "others" else cache)
