"""Generators, numbers and arrays from arguments of public functions, which may be anything."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ArgumentError, is_number, quoted

_LARGEST_SEED = 2**128


def generator(rng: np.random.Generator | int) -> np.random.Generator:
    """The generator itself, or a new one from a seed; errors as :func:`seed_of`."""
    return rng if isinstance(rng, np.random.Generator) else np.random.default_rng(seed_of(rng))


def seed_of(rng: np.random.Generator | int) -> int:
    """The seed as a whole number; ArgumentError for anything else, or out of range."""
    try:
        seed = operator.index(rng)  # type: ignore[arg-type]
    except TypeError:
        seed = -1
    if 0 <= seed < _LARGEST_SEED:
        return seed
    shown = "too large" if seed > 0 else quoted(rng)
    raise ArgumentError(
        f"rng is {shown}; a generator or a whole number from 0 to below 2¹²⁸ is wanted."
    )


def numbers_of(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Values of the argument `name` as an array of numbers; ArgumentError where they are none."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError(f"{name} is {quoted(values)}; numbers are wanted.") from None


def count_of(value: Any, name: str) -> int:
    """A whole number from 1 to below 2⁶³; ArgumentError for anything else."""
    if is_number(value) and 1 <= value < 2**63 and value == value // 1:
        return int(value)
    raise ArgumentError(f"{name} is {quoted(value)}; a whole number ≥ 1 is wanted.")
