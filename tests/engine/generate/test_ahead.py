"""What another process compiles during a fit is what paths need after it."""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

import msbgen.engine.bridge._kernels
import msbgen.engine.generate._kernels
from conftest import synthetic_task
from forks import anew
from msbgen.core.compiled import is_compiled
from msbgen.data.profiles import Profiles
from msbgen.engine.generate import ahead
from msbgen.engine.generate.compile_paths import compile_paths
from msbgen.engine.generate.fit import PRESETS, fit_profiles

GRID = np.array([(w, f) for w in (2.0, 4.0, 8.0) for f in (1.0, 2.0)])
MODULES = (msbgen.engine.bridge._kernels, msbgen.engine.generate._kernels)


def compiled():
    """Names and signatures of the kernels that this process holds."""
    kernels = [k for module in MODULES for k in vars(module).values() if isinstance(k, Dispatcher)]
    return {(k.py_func.__name__, str(s)) for k in kernels for s in k.signatures}


CHECKED = """
import sys
sys.path[:] = [*(path for path in sys.path if path != {folder!r}), {folder!r}]
import test_ahead
test_ahead.check_paths_need_no_other_kernels()
"""


def check_paths_need_no_other_kernels():
    settings = replace(PRESETS["default"], bins=50)
    for n_runs in (6, 15):  # of a context: few runs are solved by other kernels than many
        task = synthetic_task(GRID, n_runs=n_runs)
        for kind in ("mean", "max_likelihood", "sample"):
            compile_paths(kind, task["duration"].size)
        model = fit_profiles(task, settings)
        before = compiled()
        for kind in ("mean", "max_likelihood", "sample"):
            model.generate(GRID, kind=kind, n_samples=2, rng=0)
        assert compiled() == before
    assert {"sinkhorn", "sparse_direction", "newton_factor", "play_paths"} <= {n for n, _ in before}


def test_paths_need_no_other_kernels():
    assert anew(CHECKED.format(folder=str(Path(__file__).parent))) == []


@pytest.fixture
def begun(monkeypatch):
    """The processes that would compile, and only sleep; the cache has nothing, two cores are there.

    The first entry is the time [s] that they sleep.
    """
    found, begin = [0.5], subprocess.Popen

    def sleeping(command, **how):
        assert command[1:4] == ["-P", "-m", compile_paths.__module__]
        asleep = [sys.executable, "-c", f"import time; time.sleep({found[0]})"]
        found.append(begin(asleep, **how))
        return found[-1]

    monkeypatch.setattr(ahead, "_are_compiled", lambda kind: False)
    monkeypatch.setattr(ahead, "available_cores", lambda: 2)
    monkeypatch.setattr(subprocess, "Popen", sleeping)
    return found


def test_it_ends_with_the_block(begun):
    profiles, shown = Profiles.of(synthetic_task(GRID)), []
    with ahead.paths_compiled(profiles, PRESETS["default"], "sample", shown.append):
        assert begun[1].poll() is None
        assert shown == ["compiling, once after an installation; this takes some 10 s."]
    assert begun[1].returncode == 0


def test_it_is_ended_where_the_fit_fails(begun):
    begun[0] = 60
    profiles, started = Profiles.of(synthetic_task(GRID)), time.monotonic()
    with (
        pytest.raises(ValueError, match="no fit"),
        ahead.paths_compiled(profiles, PRESETS["default"], "max_likelihood", print),
    ):
        raise ValueError("no fit")
    assert begun[1].returncode != 0
    assert time.monotonic() - started < 10


def test_a_process_of_its_own_compiles():
    """As the command that is run beside a fit."""
    command = [sys.executable, "-P", "-m", compile_paths.__module__, "mean", "6"]
    subprocess.run(command, check=True, timeout=120)
    assert is_compiled(msbgen.engine.generate._kernels.play_paths)


@pytest.mark.parametrize(
    ("preset", "kind", "cores", "is_cold"),
    [
        ("paper", "sample", 2, True),
        ("default", "sample", 1, True),
        ("default", "sample", 2, False),
    ],
)
def test_it_does_nothing_where_it_would_not_help(begun, monkeypatch, preset, kind, cores, is_cold):
    monkeypatch.setattr(ahead, "available_cores", lambda: cores)
    monkeypatch.setattr(ahead, "_are_compiled", lambda kind: not is_cold)
    with ahead.paths_compiled(Profiles.of(synthetic_task(GRID)), PRESETS[preset], kind, print):
        pass
    assert len(begun) == 1
