"""Libraries of the extra ``[ml]``, imported when they are first needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from msbgen.errors import ArgumentError


def load_library(name: str) -> Any:
    """Import a module of xgboost or scikit-learn.

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
            f"{library} is not installed; 'pip install msbgen[ml]' is wanted for relative "
            f"performance."
        ) from None


def check_libraries() -> None:
    """Raise what :func:`load_library` would raise for what fitting needs, before the work."""
    for name in ("xgboost", "sklearn.tree"):
        load_library(name)
