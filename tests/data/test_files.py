import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from msbgen.data.files import check_output, replace_file
from msbgen.data.store import write_profiles


def test_a_result_has_the_permissions_of_any_new_file(tmp_path):
    (tmp_path / "plain").touch()
    with replace_file(tmp_path / "result") as partial:
        partial.write_text("x")
    modes = [(tmp_path / name).stat().st_mode for name in ("plain", "result")]
    assert modes[0] == modes[1]


def test_a_folder_that_takes_no_files_is_found_before_the_work():
    with pytest.raises(OSError, match="nothing can be written into '/proc'"):
        check_output(Path("/proc/x.nc"))


@pytest.mark.parametrize(
    ("number", "said"), [(signal.SIGINT, "KeyboardInterrupt"), (signal.SIGTERM, "SystemExit: 143")]
)
def test_a_signal_in_the_middle_of_writing_waits_for_the_library_and_discards(
    measured, tmp_path, number, said
):
    script = textwrap.dedent(
        """
        import os, signal, sys, threading, time
        import xarray as xr
        from msbgen.data.store import read_profiles, write_profiles
        def terminate(number, frame):
            raise SystemExit(f"SystemExit: {128 + number}")
        signal.signal(signal.SIGTERM, terminate)
        dataset = read_profiles(sys.argv[1])
        write = xr.Dataset.to_netcdf
        def slow(self, *args, **kwargs):
            print("writing", flush=True)
            time.sleep(1)
            return write(self, *args, **kwargs)
        xr.Dataset.to_netcdf = slow
        write_profiles(dataset, sys.argv[2])
        """
    )
    write_profiles(measured, tmp_path / "in.nc")
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "in.nc"), str(tmp_path / "out.nc")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    process.send_signal(number)
    _, messages = process.communicate(timeout=30)
    assert said in messages
    assert [path.name for path in tmp_path.iterdir()] == ["in.nc"]


def test_a_file_that_appears_while_writing_is_kept(tmp_path):
    path = tmp_path / "out.nc"

    def overtaken(content, *, overwrite):
        with replace_file(path, overwrite=overwrite) as partial:
            partial.write_text("ours")
            path.write_text(content)

    with pytest.raises(FileExistsError, match="exists already"):
        overtaken("theirs", overwrite=False)
    assert path.read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [path]
    overtaken("theirs again", overwrite=True)
    assert path.read_text() == "ours"


def test_a_failure_while_writing_leaves_nothing(tmp_path):
    path = tmp_path / "out.nc"

    def fail_halfway():
        with replace_file(path) as partial:
            partial.write_text("half")
            raise KeyError

    with pytest.raises(KeyError):
        fail_halfway()
    assert list(tmp_path.iterdir()) == []


def test_kill_in_the_middle_of_writing_leaves_no_broken_output(tmp_path):
    script = textwrap.dedent(
        """
        import sys, time
        from msbgen.data.files import replace_file
        with replace_file(sys.argv[1], overwrite=True) as partial:
            partial.write_bytes(b"half")
            print("writing", flush=True)
            time.sleep(60)
        """
    )
    path = tmp_path / "out.nc"
    path.write_bytes(b"old and whole")
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(0.05)
    assert path.read_bytes() == b"old and whole"
