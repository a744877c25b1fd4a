"""Logs of power: ``nvidia-smi --query-gpu=... --format=csv -lms N``, turbostat and tegrastats.

A power becomes the energy [J] since the row before, a utilization the busy seconds.  Levels that
are no counts, such as temperatures, fans and clocks, are left out, with a warning that names them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import ProfileError
from msbgen.data.columns import MISSING
from msbgen.data.files import check_input
from msbgen.data.schema import ENERGY_UNITS
from msbgen.sources.measure.readers.recording import Rows
from msbgen.sources.measure.readers.rows import rows_of
from msbgen.sources.measure.readers.timestamps import seconds_of_stamps

Floats = NDArray[np.float64]

_NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?")
# Marks of each tool, and its columns of power and of utilization.
_NVIDIA = re.compile(r"^.*\btimestamp\b.*\b(power\.draw|utilization\.gpu)", re.M)
_TURBOSTAT = re.compile(r"^.*\b(Avg_MHz|Bzy_MHz|PkgWatt)\b", re.M)
_TEGRA = re.compile(r"\bRAM \d+/\d+MB.*\bCPU \[", re.M)
_RAIL = re.compile(r"\b([A-Z][A-Z0-9_]+) (\d+)(?:mW)?/(\d+)(?:mW)?(?!\d*MB)")
_TEGRA_STAMP = re.compile(r"(\d\d)-(\d\d)-(\d{4}) (\d\d:\d\d:\d\d)")
_CLOCKS = ("Time_Of_Day_Seconds",)
WARNINGS = ("it measures the machine, not a task: other programs are counted, too.",)


def is_power_log(text: str) -> bool:
    """Whether a text is a log of one of these tools."""
    return any(mark.search(text) for mark in (_NVIDIA, _TURBOSTAT, _TEGRA))


def read_power_log(path: str | os.PathLike[str], step: float | None = None) -> Rows:
    """Rows of a log of power, with a place for each GPU of several.

    The first row starts the run.  `step` [s] is the time between rows where these have no stamps.
    ProfileError: the file is no such log, or has no stamps and no step is given, or no power.
    """
    path = check_input(path)
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = [(n, line.strip()) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
    if _TEGRA.search(text):
        parts = _tegrastats(path, lines, step)
    elif _NVIDIA.search(text):
        parts = _table(path, [(n, [c.strip() for c in s.split(",")]) for n, s in lines], step)
    elif _TURBOSTAT.search(text):
        parts = _table(path, [(n, s.split()) for n, s in lines], step)
    else:
        raise ProfileError(f"{path.name}: is no log of nvidia-smi (CSV), turbostat or tegrastats.")
    return parts


def _table(path: Path, rows: Sequence[tuple[int, list[str]]], step: float | None) -> Rows:
    """Rows of a table whose header is repeated or stands once."""
    first = next(i for i, (_, cells) in enumerate(rows) if _is_header(cells))
    header = rows[first][1]
    body = [(n, c) for n, c in rows[first + 1 :] if len(c) == len(header) and not _is_header(c)]
    names = [title.partition(" ")[0] for title in header]
    whole = [name for name in ("CPU", "Core") if name in names]
    if whole:  # of turbostat, '-' stands for the whole system
        at = names.index(whole[0])
        body = [row for row in body if row[1][at] == "-"] or body
    if not body:
        raise ProfileError(f"{path.name}: has a header and no rows below it; record again.")
    columns = {name: [cells[i] for _, cells in body] for i, name in enumerate(names)}
    numbers = [n for n, _ in body]
    clock = next((n for n in ("timestamp", *_CLOCKS) if n in columns), "")
    places = (
        [f"GPU {cell}" for cell in columns["index"]] if "index" in columns else [""] * len(body)
    )
    power = [n for n in names if n.startswith("power.draw") or n.endswith("Watt")]
    busy = [n for n in names if n.startswith("utilization.gpu") or n == "Busy%"]
    others = [n for n in names if n not in (*power, *busy, clock, "index", "CPU", "Core")]
    values = {n: _watts(columns[n], header[names.index(n)]) for n in power}
    shares = {f"{n.strip('%').lower()}": _cells(columns[n]) / 100 for n in busy}
    return _rows(path, numbers, columns.get(clock), step, places, values, shares, others)


def _tegrastats(path: Path, lines: Sequence[tuple[int, str]], step: float | None) -> Rows:
    kept = [(n, line) for n, line in lines if _TEGRA.search(line)]
    stamps = [_TEGRA_STAMP.match(line) for _, line in kept]
    texts = [f"{s[3]}-{s[1]}-{s[2]} {s[4]}" for s in stamps if s]
    rails: dict[str, list[float]] = {}
    for i, (_, line) in enumerate(kept):
        for name, now, _ in _RAIL.findall(line):
            if name not in ("RAM", "SWAP", "IRAM"):
                rails.setdefault(name, [np.nan] * len(kept))[i] = float(now) * 1e-3
    busy = [re.search(r"GR3D_FREQ (\d+)%", line) for _, line in kept]
    shares = {"gpu": np.array([float(b[1]) / 100 if b else np.nan for b in busy])}
    return _rows(
        path, [n for n, _ in kept], texts if len(texts) == len(kept) else None, step,
        [""] * len(kept), {n: np.array(v) for n, v in rails.items()},
        shares if any(busy) else {}, ["RAM", "temperatures"],
    )  # fmt: skip


def _rows(
    path: Path,
    lines: Sequence[int],
    stamps: Sequence[str] | None,
    step: float | None,
    places: Sequence[str],
    watts: Mapping[str, Floats],
    shares: Mapping[str, Floats],
    others: Sequence[str],
) -> Rows:
    """Energies and busy seconds since the row before of the same place."""
    name = path.name
    if not watts and not shares:
        raise ProfileError(f"{name}: has no power and no utilization; record one of them.")
    times = np.full(len(lines), np.nan)
    since = np.zeros(len(lines))
    if stamps is not None:
        found = seconds_of_stamps(stamps)
        times = _cells(stamps) if found is None else found
        times = times - np.nanmin(times)
    for place in dict.fromkeys(places):
        at = np.flatnonzero(np.array(places) == place)
        if step is not None and (stamps is None or not (np.diff(times[at]) > 0).all()):
            times[at] = step * np.arange(len(at))
        if np.isnan(times[at]).any() or not (np.diff(times[at]) > 0).all():
            raise ProfileError(
                f"{name}: its rows have no stamps that increase; the time between rows is wanted "
                f"(--step 1s)."
            )
        since[at] = np.diff(times[at], prepend=times[at][0])
    values = {n: v * since for n, v in (*watts.items(), *shares.items())}
    units = {**dict.fromkeys(watts, ENERGY_UNITS), **dict.fromkeys(shares, "s")}
    if "energy" not in values and len(watts) == 1:
        (only,) = watts
        values["energy"], units["energy"] = values.pop(only), ENERGY_UNITS
    later = since > 0
    notes = [*WARNINGS]
    if others:
        notes.append(f"levels that are no counts were left out: {', '.join(others)}.")
    several = len(set(places)) > 1
    return rows_of(
        name, [n for n, keep in zip(lines, later) if keep], times[later],
        [p if several else "" for p, keep in zip(places, later) if keep],
        {n: v[later] for n, v in values.items()}, tuple(f"{name}: {note}" for note in notes), units,
    )  # fmt: skip


def _is_header(cells: Sequence[str]) -> bool:
    return any(cell.startswith(("power.draw", "utilization.gpu", "timestamp")) or
               cell in ("Avg_MHz", "Bzy_MHz", "PkgWatt") for cell in cells)  # fmt: skip


def _watts(cells: Sequence[str], title: str) -> Floats:
    """Powers [W] of cells, which may have units."""
    factor = 1e-3 if "mW" in title else 1.0
    return np.array([1e-3 * v if "mW" in c else factor * v for c, v in zip(cells, _cells(cells))])


def _cells(cells: Sequence[str]) -> Floats:
    """Numbers of cells, without their units; NaN where one is missing."""
    found = [None if c.lower() in MISSING else _NUMBER.match(c) for c in cells]
    return np.array([float(one[0]) if one else np.nan for one in found])
