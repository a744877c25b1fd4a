"""Libraries of the extras ``[ml]`` and ``[graph]``, imported when they are first needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from msbgen.errors import ArgumentError


def load_library(name: str, extra: str = "ml", purpose: str = "relative performance") -> Any:
    """Import a module of a library that only an extra brings.

    Parameters
    ----------
    name : str
    extra, purpose : str
        What the error names.

    Raises
    ------
    ArgumentError
        It is not installed.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError:
        library = name.partition(".")[0].replace("sklearn", "scikit-learn")
        raise ArgumentError(
            f"{library} is not installed; 'pip install msbgen[{extra}]' is wanted for {purpose}."
        ) from None


def check_libraries() -> None:
    """Raise what :func:`load_library` would raise for what fitting needs, before the work."""
    for name in ("xgboost", "sklearn.tree"):
        load_library(name)
