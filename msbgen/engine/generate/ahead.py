"""Kernels of profiles, compiled by another process while a model is fitted.

After an installation, compiling takes longer than all other work on the first profiles, on one
core.  Fits do not need the kernels of paths, half of that time.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
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

# The module that compiles, and the sentence that says so.
_MODULE = "msbgen.engine.generate.compile_paths"
_MESSAGE = "compiling, once after an installation; this takes some 10 s."


@contextmanager
def paths_compiled(
    profiles: Profiles,
    settings: ProgressSettings | ElapsedSettings,
    kind: Kind,
    show: Callable[[str], object],
) -> Iterator[None]:
    """Compile beside the block, in another process, what profiles of a kind need after a fit.

    That process has ended after the block.  There is none where the cache has the kernels, where
    they are not needed, or on a single core.  `show` is called with a message where kernels are
    compiled.
    """
    if not isinstance(settings, ProgressSettings) or _are_compiled(kind):
        yield
        return
    show(_MESSAGE)
    if available_cores() < 2:
        yield
        return
    runs = profiles.duration.size
    nothing = subprocess.DEVNULL
    command = [sys.executable, "-P", "-m", _MODULE, kind, str(runs)]
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
