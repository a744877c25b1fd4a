"""The cache of compiled kernels on the disk; a kernel runs without it where there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from logging import getLogger
from pathlib import Path
from traceback import walk_tb
from typing import Any

# Whether this process has reported that it compiles without the cache.
_reported: list[bool] = []


def cached(
    njit: Callable[..., Any], function: Callable[..., Any], options: Mapping[str, Any]
) -> Any:
    """A function compiled by numba at its first call, cached on the disk where that is possible.

    The compiler is an argument, as only files of kernels import it.  A warning reports once where
    there is no folder for the cache.

    Only other kernels may call a function whose name begins with an underscore: it is compiled
    without an entry from Python, which takes up to half of the time of compilation.
    """
    if function.__name__.startswith("_"):
        options = {**options, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    else:  # the entry from C is for functions that are passed as arguments
        options = {**options, "no_cfunc_wrapper": True}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError as error:  # numba finds no folder that it can write
        if not _reported:
            _reported.append(True)
            getLogger("msbgen").warning(
                "kernels are compiled without a cache (%s); name a writable folder in "
                "NUMBA_CACHE_DIR.",
                str(error).rstrip("."),
            )
        return njit(**options)(function)


def is_compiled(kernel: Any) -> bool:
    """Whether the cache on the disk has the kernel as it is in its file now, or can have none."""
    if not hasattr(kernel, "stats") or kernel.stats.cache_path is None:
        return True  # compilation is disabled, or there is no folder for a cache
    source = Path(kernel.py_func.__code__.co_filename)
    indices = Path(kernel.stats.cache_path).glob(f"{source.stem}.{kernel.__name__}-*.nbi")
    return any(index.stat().st_mtime >= source.stat().st_mtime for index in indices)


def cache_failed(error: BaseException) -> bool:
    """Whether numba raised the error as it read or wrote its cache: damaged files, a full disk."""
    frames = walk_tb(error.__traceback__)
    return any(frame.f_globals.get("__name__") == "numba.core.caching" for frame, _ in frames)
