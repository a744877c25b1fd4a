"""Kernels of profiles, compiled by another process while a model is fitted.

After an installation, compiling takes longer than all other work on the first profiles, on one
core.  Fits do not need the kernels of paths, half of that time.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from msbgen.core.compiled import is_compiled
from msbgen.core.lazy import lazy_module
from msbgen.core.machine import available_cores
from msbgen.core.processes import die_with_parent
from msbgen.data.profiles import Profiles
from msbgen.engine.bridge.paths import paths_are_compiled
from msbgen.engine.generate.distribution import Kind
from msbgen.engine.generate.elapsed_distribution import ElapsedSettings
from msbgen.engine.generate.progress_distribution import ProgressSettings

_kernels = lazy_module("msbgen.engine.generate._kernels")

# Without collecting garbage, the compiler is an eighth faster.  It leaves some 50 MB until the end.
_COMMAND = (
    "import gc, os; gc.disable(); from msbgen.engine.generate.compile_paths import compile_paths; "
    "compile_paths({!r}, {}); os._exit(0)"
)


@contextmanager
def paths_compiled(
    profiles: Profiles, settings: ProgressSettings | ElapsedSettings, kind: Kind
) -> Iterator[None]:
    """Compile beside the block, in another process, what profiles of a kind need after a fit.

    That process has ended after the block.  There is none where the cache has the kernels, where
    they are not needed, or on a single core.
    """
    needed = isinstance(settings, ProgressSettings)
    if not needed or available_cores() < 2 or _are_compiled(kind):
        yield
        return
    runs = profiles.duration.size
    nothing = subprocess.DEVNULL
    command = [sys.executable, "-P", "-c", _COMMAND.format(kind, runs)]
    compiler = subprocess.Popen(
        command, stdin=nothing, stdout=nothing, stderr=nothing, preexec_fn=die_with_parent()
    )
    try:
        yield
        compiler.wait()  # it began first, so that compiling here would take longer
    finally:
        compiler.terminate()
        compiler.wait()


def _are_compiled(kind: Kind) -> bool:
    played = is_compiled(_kernels.play_paths)
    return played and (kind == "mean" or paths_are_compiled(drawn=kind == "sample"))
