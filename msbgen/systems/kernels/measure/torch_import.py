"""torch, imported when it is first needed."""

from importlib import import_module, metadata
from typing import Any

from msbgen.core.errors import ArgumentError

REMEDY = "'pip install msbgen[kernels]' is wanted to trace and time networks"


def load_torch() -> Any:
    """torch, imported; :class:`ArgumentError` where it is not installed."""
    try:
        return import_module("torch")
    except ModuleNotFoundError:
        raise ArgumentError(f"torch is not installed; {REMEDY}.") from None


def torch_version() -> str | None:
    """Version of the torch that is installed, without importing it; None where there is none."""
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return None
