"""The cache of compiled kernels on the disk; a kernel runs without it where it cannot be used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from logging import getLogger
from typing import Any

# Whether this process has reported that it compiles without the cache.
_reported: list[bool] = []


def cached(
    njit: Callable[..., Any], function: Callable[..., Any], options: Mapping[str, Any]
) -> Any:
    """A function compiled by numba at its first call, cached on the disk where that is possible.

    The compiler is an argument, as only files of kernels import it.  A warning reports once where
    there is no folder for the cache, its disk is full, or a file in it is damaged.

    Only other kernels may call a function whose name begins with an underscore: it is compiled
    without an entry from Python, which takes up to half of the time of compilation.
    """
    if function.__name__.startswith("_"):
        options = {**options, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    else:  # the entry from C is for functions that are passed as arguments
        options = {**options, "no_cfunc_wrapper": True}
    try:
        kernel = njit(cache=True, **options)(function)
    except RuntimeError as error:  # numba finds no folder that it can write
        _report(error)
        return njit(**options)(function)
    cache = getattr(kernel, "_cache", None)  # none where compilation is disabled
    if cache is not None:
        # numba calls it around each use of the cache, and compiles where nothing was loaded
        cache._guard_against_spurious_io_errors = _unless_it_fails
        cache.load_overload = partial(_load, cache)
    return kernel


def is_compiled(kernel: Any) -> bool:
    """Whether the cache on the disk has the kernel as it is now, or can have none."""
    file = getattr(getattr(kernel, "_cache", None), "_cache_file", None)
    if file is None:  # compilation is disabled, or there is no folder for a cache
        return True
    with _unless_it_fails():
        return bool(file._load_index())
    return True


def _load(cache: Any, signature: Any, context: Any) -> Any:
    """Return a compiled function from the cache, or None.

    numba's own method prepares the compiler first, for a quarter of a second.  A compiled function
    needs the memory manager of that only; compilation prepares itself.
    """
    with _unless_it_fails():
        from numba.core.runtime.nrt import rtsys

        rtsys.initialize(context)
        return cache._load_overload(signature, context)


@contextmanager
def _unless_it_fails() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # damaged files raise errors of many types
        _report(error)


def _report(error: Exception) -> None:
    if not _reported:
        _reported.append(True)
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        getLogger("msbgen").warning(
            "kernels are compiled without a cache (%s); name a writable folder in NUMBA_CACHE_DIR.",
            reason.rstrip("."),
        )
