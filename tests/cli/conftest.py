"""The command, in this process and as users start it, in a folder with files to work on."""

import contextlib
import io
import os
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pytest

from conftest import MEASURED, UNSEEN, synthetic_task
from msbgen.cli.main import main
from msbgen.data.store import write_profiles
from msbgen.systems.phases.phases import phase_table, write_phases


@pytest.fixture(autouse=True, scope="module")
def _coarse(coarse):
    """No test of the command is one of the models' accuracy."""


@pytest.fixture
def msbgen(tmp_path):
    """The command in this process: what start-up costs is paid once."""

    def run(*arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.chdir(tmp_path), redirect_stdout(out), redirect_stderr(err):
            code = main([str(a) for a in arguments])
        return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())

    return run


@pytest.fixture
def started(tmp_path):
    """The command as users start it."""

    def run(*arguments, **given):
        return subprocess.run(
            [sys.executable, "-m", "msbgen", *map(str, arguments)],
            cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False, **given,
        )  # fmt: skip

    return run


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """A measured file and one of other contexts, to copy."""
    folder = tmp_path_factory.mktemp("written")
    write_profiles(synthetic_task(MEASURED), folder / "measured.nc")
    write_profiles(synthetic_task(UNSEEN, n_runs=4), folder / "truth.nc")
    return folder


@pytest.fixture
def folder(written, tmp_path):
    """Folder in which the command works, with a measured file and one of other contexts."""
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def refused(msbgen, tmp_path):
    """The command must refuse: a code, a sentence, no traceback, and no file touched."""

    def run(code, sentence, *arguments):
        def files():
            regular = (path for path in sorted(tmp_path.rglob("*")) if path.is_file())
            return {path: path.read_bytes() for path in regular}

        before = files()
        done = msbgen(*arguments)
        assert done.returncode == code, done.stderr
        assert sentence in done.stderr
        assert "Traceback" not in done.stderr
        assert files() == before
        return done

    return run


@pytest.fixture(scope="session")
def decided(tmp_path_factory):
    """Profiles of every context of a small platform, their table, and a task set, to copy."""
    every = np.array([(w, f) for w in (2.0, 4.0, 6.0, 8.0) for f in (1.0, 1.5, 2.0)])
    folder = tmp_path_factory.mktemp("decided")
    for name in ("truth", "tables"):
        (folder / name).mkdir()
    profiles = synthetic_task(every)
    write_profiles(profiles, folder / "truth" / "synthetic.nc")
    write_phases(phase_table(profiles), folder / "tables" / "synthetic.nc")
    (folder / "set.toml").write_text(
        "cores = 2\n[capacity]\ncache_ways = 10\n"
        + "".join(
            f'[[task]]\nprofile = "synthetic"\nperiod = {period}\nwcet = 0.109\n'
            for period in (0.3, 0.35, 0.5)
        )
    )
    return folder


@pytest.fixture
def decisions(decided, tmp_path):
    """Folder with profiles of every context of a small platform, their table, and a task set."""
    shutil.copytree(decided, tmp_path, dirs_exist_ok=True)
    return tmp_path


class _Closing(io.StringIO):
    """A stdout whose reader closes it before, during or after the text."""

    def __init__(self, when):
        super().__init__()
        self.when = when
        self.null = os.open(os.devnull, os.O_WRONLY)

    def write(self, text):
        if self.when == "before" or (self.when == "during" and self.getvalue()):
            raise BrokenPipeError(32, "Broken pipe")
        return super().write(text)

    def flush(self):
        if self.when == "after":
            raise BrokenPipeError(32, "Broken pipe")

    def fileno(self):
        return self.null


@pytest.fixture
def closed_stdout():
    """A stdout that is closed before, during or after the text."""

    @contextlib.contextmanager
    def closed(when):
        stdout = _Closing(when)
        with redirect_stdout(stdout):
            yield
        os.close(stdout.null)

    return closed
