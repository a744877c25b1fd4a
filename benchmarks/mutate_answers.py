"""Checks of :mod:`mutate` on answers: no figure may be infinite, missing or wrongly negative."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import xarray as xr

# Columns without figures, the load (infinite if jobs come all at once), and figures that may be
# negative: the saving, temperatures, and errors with a sign.
_WORDS = ("program", "task", "input", "scale", "configuration", "machine", "load", "kind", "saving")
# Levels may have any sign, as temperatures and priorities do.
_LEVELS = ("cache_ways", "bandwidth", "frequency", "clock")
# Kinds, programs and tasks may be named so: '1 of nan', 'task      nan', 'nan: the same', and
# '2 kinds: 1 nan, 3 inf', and so may units, 'frequency [nan]: 1 to 2', and the argument of the
# command 'true'.
_NAMED = r"(?<!of )(?<!task      )(?<!kinds: \d )(?<!, \d )(?<!true )"
_FIGURE = r"[-+]?(nan|inf|infinity)(?![\w.'\"/]|\]?: )"
_NO_NUMBER = re.compile(rf"(?<![-+\w.'\"/]){_NAMED}{_FIGURE}", re.I)


class DoubtError(Exception):
    """An answer that makes no sense."""


def doubt(ds: xr.Dataset) -> None:
    """Raise if a figure is negative, infinite, or not a number before the end of its run.

    Levels have any sign, whole numbers may be -1 for none, and a method has no score of what it
    does not generate.
    """
    for name, variable in ds.data_vars.items():
        if variable.dtype.kind not in "iuf":
            continue
        values = variable.values.astype(float)
        least = 0 if variable.dtype.kind == "f" else -1
        if str(name).endswith(("_achieved", "_features")):  # of any sign
            least = -np.inf
        bad = ~(np.isfinite(values) & (values >= least))
        # a table of kernels has no power where none was measured, and no parameters of other kinds
        if {"time", "run", "method", "measurement"} & set(variable.dims):
            bad &= ~np.isnan(values)
        if bad.any():
            raise DoubtError(f"'{name}' is {values[bad].flat[0]} in an answer")


def doubt_path(path: Path) -> None:
    """Check a file that a command wrote, or each file of a folder."""
    if path.is_dir():
        for file in path.rglob("*.*"):
            doubt_path(file)
    elif path.suffix == ".nc":
        ds = xr.load_dataset(path)
        if "digest" not in ds.attrs:  # parameters of a model may be negative
            doubt(ds)
    elif path.suffix == ".csv":
        doubt_table(path)
    elif path.suffix == ".json":
        json.loads(path.read_text(), parse_constant=_refuse)
    elif path.suffix == ".html":
        for cell in re.findall(r">([^<>]{1,40})<", path.read_text()):
            doubt_text(cell)


def doubt_table(path: Path) -> None:
    """Raise if a figure of a table is negative or not a number; words are skipped."""
    with path.open(newline="") as stream:
        for row in csv.DictReader(stream):
            for name, cell in row.items():
                if name in _WORDS:
                    continue
                try:
                    figure = float(cell)
                except ValueError:
                    continue
                if not (np.isfinite(figure) and (figure >= 0 or name in _LEVELS)):
                    raise DoubtError(f"{path.name} says {name} is {cell}")


def doubt_text(text: str) -> None:
    """Raise if printed results hold what is not a number."""
    if found := _NO_NUMBER.search(text):
        raise DoubtError(f"the results say {found[0]!r}")


def one_sentence(message: str) -> bool:
    """Whether every line is printable, and ends like a sentence."""
    lines = message.splitlines()
    return bool(lines) and all(
        line.isprintable() and line.endswith((".", ")", "?")) and len(line) < 1100 for line in lines
    )


def _refuse(name: str) -> float:
    raise DoubtError(f"a JSON file says {name}")
