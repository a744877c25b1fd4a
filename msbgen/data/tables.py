"""Every CSV table: contexts wanted, plans, bounds."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.data.files import replace_file
from msbgen.errors import ProfileError

# Columns that a plan has beside the resources.
PLAN_COLUMNS = ("runs", "seconds", "cumulative_seconds", "expected_error")


def read_contexts(path: str | os.PathLike[str], resources: Sequence[str]) -> NDArray[np.float64]:
    """Read contexts from a CSV file whose header names the resources, in any order.

    The columns of a plan may stand beside them.

    Returns
    -------
    ndarray, (n_contexts, n_resources)
        Columns in the order of `resources`.

    Raises
    ------
    ProfileError
        As :func:`read_planned_contexts`.
    """
    return read_planned_contexts(path, resources)[0]


def read_planned_contexts(
    path: str | os.PathLike[str], resources: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Read contexts and their numbers of runs from a CSV file, such as a plan.

    Returns
    -------
    contexts : ndarray, (n_contexts, n_resources)
        Columns in the order of `resources`.
    runs : ndarray of int, (n_contexts,)
        0 throughout where the file has no column ``runs``.

    Raises
    ------
    ProfileError
        No such file, another header, a row that is not numbers, no rows.
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
        numbered = enumerate(csv.reader(lines), start=1)
        rows = [(number, row) for number, row in numbered if any(map(str.strip, row))]
    except FileNotFoundError:
        raise ProfileError(f"{path}: no such file; 'all' stands for every context.") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ProfileError(f"{path}: cannot be read as a table ({error}).") from None
    number, header = rows[0] if rows else (1, [])
    header = [cell.strip() for cell in header]
    beside = [name for name in PLAN_COLUMNS if name in header and name not in resources]
    if sorted(header) != sorted([*resources, *beside]):
        raise ProfileError(
            f"{path.name}: row {number} is '{','.join(header)}'; a header with the resources "
            f"'{','.join(resources)}' is wanted."
        )
    table: dict[tuple[float, ...], int] = {}
    runs: list[float] = []
    for number, row in rows[1:]:
        try:
            values = dict(zip(header, [float(cell) for cell in row], strict=True))
        except ValueError:
            values = {}
        if not values or not np.all(np.isfinite(list(values.values()))):
            raise ProfileError(
                f"{path.name}: row {number} is '{','.join(row)}'; {len(header)} finite numbers "
                f"are wanted."
            )
        context = tuple(values[name] for name in resources)
        if context in table:
            raise ProfileError(
                f"{path.name}: row {number} repeats the context of row {table[context]}; drop one."
            )
        table[context] = number
        runs.append(values["runs"] if "runs" in beside else 0.0)
        if "runs" in beside and (runs[-1] < 1 or runs[-1] != int(runs[-1])):
            raise ProfileError(
                f"{path.name}: row {number} asks for {runs[-1]:g} runs; a whole number ≥ 1 is "
                f"wanted."
            )
    if not table:
        raise ProfileError(f"{path.name}: no contexts below the header.")
    return np.array(list(table)), np.array(runs, dtype=np.int64)


def write_table(
    rows: Iterable[Sequence[Any]], path: str | os.PathLike[str], *, overwrite: bool = False
) -> None:
    """Write rows, the header first, as a CSV file that appears whole or not at all.

    Raises
    ------
    FileExistsError
        `path` exists and `overwrite` is False.
    """
    with (
        replace_file(path, overwrite=overwrite) as partial,
        partial.open("w", newline="", encoding="utf-8") as stream,
    ):
        csv.writer(stream, lineterminator="\n").writerows(rows)


def plan_rows(
    resources: Sequence[str],
    contexts: NDArray[np.float64],
    runs: NDArray[np.int64],
    seconds: NDArray[np.float64],
    error: NDArray[np.float64],
) -> Iterator[list[Any]]:
    """Rows of a plan: each context, its runs, their cost, the cost so far, the error after it."""
    yield [*resources, *PLAN_COLUMNS]
    for context, *rest in zip(contexts, runs, seconds, np.cumsum(seconds), error):
        count, cost, total, left = rest
        levels = [f"{level:.12g}" for level in context]
        yield [*levels, count, f"{cost:.6g}", f"{total:.6g}", f"{left:.4g}"]


def bound_rows(bounds: xr.Dataset) -> Iterator[list[Any]]:
    """Rows of bounds: each context, its bound [s], the margin's shape, extrapolated, beyond."""
    resources = [str(name) for name in bounds.coords]
    yield [*resources, "duration_bound", "margin_shape", "extrapolated", "beyond"]
    contexts = zip(*(bounds[name].values.tolist() for name in resources))
    values = (bounds[n].values.tolist() for n in ("duration_bound", "extrapolated", "beyond"))
    for levels, bound, outside, beyond in zip(contexts, *values):
        shown = [f"{level:.15g}" for level in levels]
        yield [*shown, f"{bound:.6g}", bounds.attrs["margin_shape"], outside, beyond]
