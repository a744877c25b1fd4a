"""Kernels of paths, compiled by another process while a model is fitted.

After an installation, compiling takes longer than all other work on the first profiles, on one
core.  Fits do not need the kernels of paths, half of that time.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import xarray as xr

from msbgen.bridge.paths import Chain, paths_are_compiled
from msbgen.core.compiled import is_compiled
from msbgen.core.lazy import lazy_module
from msbgen.core.machine import available_cores
from msbgen.core.processes import die_with_parent
from msbgen.data.schema import duration_array
from msbgen.generate.distribution import Kind
from msbgen.generate.elapsed_distribution import ElapsedSettings
from msbgen.generate.progress_distribution import ProgressSettings

_kernels = lazy_module("msbgen.generate._kernels")

_COMMAND = "from msbgen.generate.ahead import compile_paths; compile_paths({})"
# Larger bridges are solved by the same kernels.
_MOST_RUNS = 300


@contextmanager
def paths_compiled(
    measured: xr.Dataset, settings: ProgressSettings | ElapsedSettings, kind: Kind
) -> Iterator[None]:
    """Compile beside the block, in another process, what profiles of a kind need after a fit.

    That process has ended after the block.  There is none where the cache has the kernels, where
    they are not needed, or on a single core.
    """
    needed = kind != "mean" and isinstance(settings, ProgressSettings)
    if not needed or available_cores() < 2 or _are_compiled():
        yield
        return
    runs = duration_array(measured).size
    nothing = subprocess.DEVNULL
    command = [sys.executable, "-P", "-c", _COMMAND.format(runs)]
    compiler = subprocess.Popen(
        command, stdin=nothing, stdout=nothing, stderr=nothing, preexec_fn=die_with_parent()
    )
    try:
        yield
        compiler.wait()  # it began first, so that compiling here would take longer
    finally:
        compiler.terminate()
        compiler.wait()


def _are_compiled() -> bool:
    return is_compiled(_kernels.play_paths) and paths_are_compiled()


def compile_paths(runs: int) -> None:
    """Compile the kernels of paths of some runs into the cache, by a small bridge."""
    rng = np.random.default_rng(0)
    runs, segments, one = min(max(runs, 2), _MOST_RUNS), 3, np.ones((1, 2))
    chain = Chain.fit(rng.normal(size=(segments, runs, 3)), epsilon=0.1, tol=1e-6)
    active = np.array([[0, 1]])
    chain.most_likely(active, one, bandwidth=1.0, dims=1)
    drawn = chain.draw(active, one, np.full((1, 1, segments), 0.5))
    centre, factor = np.ones((1, segments, 2)), np.ones((runs, segments, 2))
    amounts = np.empty((1, 1, 2))
    _kernels.path_amounts(centre, factor, drawn, amounts)
    last, counts = np.zeros((1, 2), dtype=np.int64), np.empty((1, 1, 1, 2), dtype=np.float32)
    stretch = np.ones((1, 2, 2))
    _kernels.play_paths(centre, factor, active[:, :, None], stretch, one, one, last, 1, 1.0, counts)
