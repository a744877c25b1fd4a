"""What takes a recording: perf, or whoever obeys the same protocol."""

from contextlib import nullcontext

import pytest

from msbgen.sources.measure.actuators.kernel_settings import KernelSettings
from msbgen.sources.measure.sweep.actuators import make_actuators
from msbgen.sources.measure.sweep.executor import NOT_RECORDED, RunExecutor
from msbgen.sources.measure.sweep.journal import DONE, read_journal
from msbgen.sources.measure.sweep.order import Slot
from msbgen.sources.measure.sweep.process import ProcessResult
from msbgen.sources.measure.sweep.recorder import PerfRecorder
from msbgen.sources.measure.sweep.sweep import sweep
from sweeping import machine, spec

ENDED = ProcessResult(0, 0.02, 0.01, True)


def test_what_perf_did_not_count_to_the_end_is_refused(tmp_path):
    recorder = PerfRecorder(spec())
    path = tmp_path / "r.csv"
    path.write_text("0.010000000;5;;page-faults;1;100.00;;\n")
    late = recorder.rejection_reason(path, ENDED)
    assert late is not None
    assert "it was cut off" in late
    assert recorder.rejection_reason(path, ProcessResult(0, 0.0101, 0.01, True)) is None
    path.write_text("0.010000000;0;;page-faults;1;100.00;;\n")
    assert "has not counted one event" in str(recorder.rejection_reason(path, ENDED))
    path.write_text("nothing")
    assert recorder.rejection_reason(path, ENDED) is not None


class Own:
    """The program writes its recording itself, where a variable says."""

    name = "torch"

    def version(self):
        return "1"

    def problems(self, folder, runs):
        return iter(())

    def environment(self, path, context):
        return {"WHERE": str(path.resolve()), "WAYS": f"{context[0]:g}"}

    def recording(self, pid, path, cores, tag, events):
        return nullcontext()

    def rejection_reason(self, path, ended):
        return None if path.is_file() and path.read_text() else "nothing was written"

    def describe(self, cores, shares_cores, events):
        yield "own"


def test_a_program_that_records_itself_is_told_where_and_its_context(tmp_path):
    kernel = machine(tmp_path)
    one = spec("/bin/sh", "-c", 'echo $WAYS > "$WHERE"')
    records = sweep(one, tmp_path / "o.nc", files=kernel, recorder=Own())
    runs = [record for record in records if record["event"] == "run"]
    assert [r["outcome"] for r in runs] == [DONE] * 6
    for run in runs:
        message = (tmp_path / "o.recordings" / run["recording"]).read_text()
        assert float(message) == run["context"][0]
    assert read_journal(tmp_path / "o.journal")[0]["torch"] == "1"


def test_a_run_without_a_recording_is_not_kept(tmp_path):
    one = spec("true")
    settings = KernelSettings(machine(tmp_path), lambda record: None)
    actuators = make_actuators(one, settings, "msbgen-own")
    with RunExecutor(one, tmp_path, "own", settings, actuators, Own()) as here:
        record = here.run(Slot(0, (4.0,), 0), 0)
    assert (record["outcome"], record["why"]) == (NOT_RECORDED, "nothing was written")


def test_a_lack_of_the_recorder_is_said_before_anything_is_changed(tmp_path):
    class Lacking(Own):
        def problems(self, folder, runs):
            yield f"room for {runs} recordings is missing; make some."

    with pytest.raises(RuntimeError, match="room for 6 recordings is missing"):
        sweep(spec("true"), tmp_path / "o.nc", files=machine(tmp_path), recorder=Lacking())
    assert not (tmp_path / "o.journal").exists()
