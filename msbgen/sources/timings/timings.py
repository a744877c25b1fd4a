"""Durations of the runs of a task with the setting of each, and the profiles that they make."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.durations import UNITS, time_unit
from msbgen.core.errors import ProfileError
from msbgen.core.words import number_of
from msbgen.data.build import make_profiles
from msbgen.data.columns import MISSING, NUMBER
from msbgen.data.schema import RESERVED, one_spelling
from msbgen.data.units import BYTES, HERTZ, JOULES, WATTS

Floats = NDArray[np.float64]

# A level with its unit, as 4KiB or 2.4 GHz.
_WITH_UNIT = re.compile(rf"({NUMBER.pattern}) ?([^\W\d_][^\s\d,;]*|%)")
# Factors of units within a quantity.
_QUANTITIES = (UNITS, BYTES, HERTZ, WATTS, JOULES)
# The one setting of what has no parameters.
_SETTING = "setting"
# Contexts × runs that make a dataset; more would not fit into memory.
_MOST = 50_000_000


@dataclass(frozen=True, eq=False)
class Column:
    """Levels of a setting, (n,): numbers, or codes from 1 on of `labels`; NaN where missing."""

    values: Floats
    units: str = "1"
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Timings:
    """Durations of n runs of a task.

    Attributes
    ----------
    task, source : str
        Name of the task; of the file, in messages.
    seconds : (n,)
        Execution times [s].
    settings : dict of str to Column
        Level of each resource in each run.
    totals : dict of str to (values, units)
        Other numbers of each run, (n,), such as an energy [J].
    taken : tuple of str
        Sentences: what was taken for what, and what was left out.
    """

    task: str
    source: str
    seconds: Floats
    settings: Mapping[str, Column]
    totals: Mapping[str, tuple[Floats, str]] = field(default_factory=dict)
    taken: tuple[str, ...] = ()

    def rows(self, kept: NDArray[np.bool_]) -> Timings:
        """The runs of a mask."""
        return replace(
            self,
            seconds=self.seconds[kept],
            settings={n: replace(c, values=c.values[kept]) for n, c in self.settings.items()},
            totals={n: (values[kept], units) for n, (values, units) in self.totals.items()},
        )


def column_of(cells: Sequence[object], units: str = "") -> Column:
    """A column of levels: numbers with or without a unit, else words.

    Examples
    --------
    >>> column_of(["1", "2"]).values.tolist(), column_of(["4KiB", "1MiB"]).units
    ([1.0, 2.0], 'KiB')
    >>> column_of(["gcc", "clang", "gcc"]).labels
    ('gcc', 'clang')
    """
    texts = [_word(str(cell)) for cell in cells]
    known = [text for text in dict.fromkeys(texts) if not _is_missing(text)]
    if all(NUMBER.fullmatch(text) for text in known):
        values = {text: float(text) for text in known}
        return Column(np.array([values.get(text, np.nan) for text in texts]), units or "1")
    parts = {text: found for text in known if (found := _WITH_UNIT.fullmatch(text))}
    if len(parts) == len(known):
        own = time_unit(next(iter(parts.values()))[2])
        for factors in ({own: 1.0}, *_QUANTITIES):
            if own in factors and all(time_unit(p[2]) in factors for p in parts.values()):
                values = {
                    text: float(p[1]) * factors[time_unit(p[2])] / factors[own]
                    for text, p in parts.items()
                }
                return Column(np.array([values.get(t, np.nan) for t in texts]), own)
    codes = {text: float(i) for i, text in enumerate(known, 1)}
    return Column(np.array([codes.get(text, np.nan) for text in texts]), "1", tuple(known))


def _word(text: str) -> str:
    """A text that can be a label: without what cannot be printed, as a byte order mark."""
    return "".join(sign for sign in text if sign.isprintable()).strip()


def _is_missing(text: str) -> bool:
    """Whether a cell has no value: a mark of a missing one, or no finite number."""
    try:
        return text.lower() in MISSING or not math.isfinite(float(text))
    except ValueError:
        return False


def resource_name(text: str, taken: Sequence[str] = ()) -> str:
    """A name of a resource: letters, digits and underscores, and none that msbgen reserves.

    Examples
    --------
    >>> resource_name("Problem size"), resource_name("run"), resource_name("2nd")
    ('problem_size', 'run_', 'p_2nd')
    """
    stem = re.sub(r"\W+", "_", text.strip()).strip("_").lower()[:100] or "parameter"
    stem = f"p_{stem}" if stem[0].isdigit() else stem
    name, n = stem, 1
    while name in RESERVED or name in taken:
        name, n = (f"{stem}_" if n == 1 else f"{stem}_{n}"), n + 1
    return name


def profiles_of(
    timings: Timings, levels: Mapping[str, Sequence[float]] | None = None
) -> tuple[xr.Dataset, list[str]]:
    """Profile dataset of durations, and sentences about what was left out.

    The levels seen are those of the platform unless `levels` names others.  Settings with one level
    are left out where others vary; a task without any has the one setting ``setting``.

    ProfileError: no run has a duration and a level of each setting, or a duration is not positive.
    """
    timings, sentences = _complete(timings)
    settings, constant = _varying(timings.settings)
    if constant:
        sentences.append(f"{', '.join(constant)}: one level in all runs; left out.")
    if not settings:
        one = Column(np.ones(len(timings.seconds)))
        settings = {_SETTING: one}
        sentences.append(
            f"{timings.task}: there are no parameters, so that all runs are of one setting."
        )
    levels = levels or {}
    for name in levels:
        if name not in settings:
            raise ProfileError(
                f"{timings.source}: levels are of '{name}'; one of {', '.join(settings)} is wanted."
            )
    table = one_spelling(np.stack([column.values for column in settings.values()], axis=1))
    contexts, of = np.unique(table, axis=0, return_inverse=True)
    of = of.reshape(-1)
    counts = np.bincount(of, minlength=len(contexts))
    if len(contexts) * counts.max() > _MOST:
        raise ProfileError(
            f"{timings.source}: {len(contexts)} settings of up to {counts.max()} runs are too many "
            f"for memory; take a part of the runs."
        )
    order = np.argsort(of, kind="stable")
    run = np.empty(len(of), dtype=np.int64)
    run[order] = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)

    def by_context(values: Floats) -> Floats:
        placed = np.full((len(contexts), counts.max()), np.nan)
        placed[of, run] = values
        return placed

    totals = [by_context(values) for values, _ in timings.totals.values()]
    dataset = make_profiles(
        counts=np.stack(totals, axis=-1) if totals else None,
        durations=by_context(timings.seconds),
        contexts=contexts,
        resources={
            name: {
                "units": column.units,
                "long_name": name,
                "levels": np.asarray(levels.get(name, np.unique(table[:, i]))).tolist(),
                **({"labels": list(column.labels)} if column.labels else {}),
            }
            for i, (name, column) in enumerate(settings.items())
        },
        counters={name: {"units": units} for name, (_, units) in timings.totals.items()},
        attrs={"task": timings.task, "source": f"imported from {timings.source}"},
    )
    return dataset, sentences


def _complete(timings: Timings) -> tuple[Timings, list[str]]:
    """The runs with a positive duration and a level of each setting, and how many lack one."""
    lacking = np.isnan(timings.seconds)
    for column in timings.settings.values():
        lacking |= np.isnan(column.values)
    if lacking.all():
        raise ProfileError(f"{timings.source}: no run has a time and all settings; measure again.")
    kept = timings.rows(~lacking) if lacking.any() else timings
    n = int(lacking.sum())
    sentences = [
        f"{number_of(n, 'run')} without a time or a setting {'was' if n == 1 else 'were'} left out."
    ] * bool(n)
    bad = ~((kept.seconds > 0) & np.isfinite(kept.seconds))
    if bad.any():
        raise ProfileError(
            f"{timings.source}: {timings.task}: run {int(np.argmax(bad))} took "
            f"{kept.seconds[bad][0]:g} s; a time above 0 is wanted: measure it again, in a "
            f"finer unit, or drop it."
        )
    return kept, sentences


def _varying(settings: Mapping[str, Column]) -> tuple[dict[str, Column], list[str]]:
    """Settings that vary, or all of them if none does; and the names of the others."""
    varying = {
        name: _without_unused(column)
        for name, column in settings.items()
        if np.ptp(column.values) > 0
    }
    if not varying:
        return {name: _without_unused(column) for name, column in settings.items()}, []
    return varying, [name for name in settings if name not in varying]


def _without_unused(column: Column) -> Column:
    """The column without words that no run has."""
    if not column.labels:
        return column
    used, codes = np.unique(column.values, return_inverse=True)
    labels = tuple(column.labels[int(code) - 1] for code in used)
    return replace(column, values=codes.reshape(-1) + 1.0, labels=labels)
