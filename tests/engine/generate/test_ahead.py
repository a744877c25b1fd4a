"""What another process compiles during a fit is what paths need after it."""

import subprocess
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
from msbgen.data.profiles import Profiles
from msbgen.engine.generate import ahead
from msbgen.engine.generate.compile_paths import compile_paths
from msbgen.engine.generate.fit import PRESETS, fit_profiles

GRID = np.array([(w, f) for w in (2.0, 4.0, 8.0) for f in (1.0, 2.0)])
MODULES = (msbgen.bridge._kernels, msbgen.engine.generate._kernels)


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
    """The processes that compile, or would; the cache has nothing, and there are two cores."""
    found, begin = [], subprocess.Popen
    monkeypatch.setattr(ahead, "_are_compiled", lambda kind: False)
    monkeypatch.setattr(ahead, "available_cores", lambda: 2)
    monkeypatch.setattr(ahead, "_COMMAND", "import time; print({!r}, {}); time.sleep(0.5)")
    monkeypatch.setattr(
        subprocess, "Popen", lambda *args, **how: found.append(begin(*args, **how)) or found[-1]
    )
    return found


def test_it_ends_with_the_block(begun):
    task = synthetic_task(GRID)
    with ahead.paths_compiled(Profiles.of(task), PRESETS["default"], "sample"):
        assert begun[0].poll() is None
    assert begun[0].returncode == 0


def test_it_is_ended_where_the_fit_fails(begun, monkeypatch):
    monkeypatch.setattr(ahead, "_COMMAND", "import time; {!r}; time.sleep(60 + {})")
    started = time.monotonic()
    with (
        pytest.raises(ValueError, match="no fit"),
        ahead.paths_compiled(
            Profiles.of(synthetic_task(GRID)), PRESETS["default"], "max_likelihood"
        ),
    ):
        raise ValueError("no fit")
    assert begun[0].returncode != 0
    assert time.monotonic() - started < 10


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
    with ahead.paths_compiled(Profiles.of(synthetic_task(GRID)), PRESETS[preset], kind):
        pass
    assert not begun
