"""Libraries of the extras ``[ml]`` and ``[graph]``, imported when they are first needed."""

from msbgen.core.machine import load_library

__all__ = ["check_libraries", "load_library"]


def check_libraries() -> None:
    """Raise :class:`ArgumentError` if a library for fitting is missing, before the work."""
    for name in ("xgboost", "sklearn.tree"):
        load_library(name)
