"""Decisions on the comparisons of several programs, with the rate of false ones held.

The p-values of all programs are adjusted by Benjamini and Hochberg (1995): among the programs that
are called slower or faster, the expected share of those that are not is at most one minus the
confidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy import special

from msbgen.answers.compare.results import Comparison

# Why a clear verdict is withdrawn.
_ALONE = (
    "the program is {0.verdict} if it is compared alone, but among so many programs the difference "
    "may be chance."
)


class SlowerError(Exception):
    """A program became slower by more than a limit."""


class UndecidedError(Exception):
    """The runs do not decide whether a program became slower."""


def hold_false_discoveries(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Comparisons whose verdicts hold with the rate of false ones held; one alone keeps its own."""
    adjusted = _adjusted([one.time.p_value for one in comparisons])
    return [
        replace(one, verdict="undecided", more_runs=None, notes=(*one.notes, _ALONE.format(one)))
        if one.verdict in ("slower", "faster") and p_value > 1 - one.settings.confidence
        else one
        for one, p_value in zip(comparisons, adjusted)
    ]


def check_limit(comparisons: Mapping[str, Comparison], limit: float | None, strict: bool) -> None:
    """Raise where a program became slower than a limit, or, if `strict`, may have become so.

    Parameters
    ----------
    comparisons : mapping of str to Comparison
        Comparisons by name.
    limit : float or None
        Largest relative increase of the execution time; None for no limit.
    strict : bool
        Whether an interval with values on both sides of the limit, or an undecided verdict without
        a limit, is an error; and contexts that were left out for one version alone.

    Raises
    ------
    SlowerError
        A lower end of an interval is above the limit, with false discoveries held.
    UndecidedError
        `strict`, and a comparison is not decided, or leaves out contexts for one version alone.
    """
    if limit is not None:
        # one-sided, at the level at which the lower end of a single interval is above the limit
        p_values = [
            float(
                special.stdtr(
                    c.time.freedom, (np.log1p(limit) - np.log(c.time.value)) / c.time.error
                )
            )
            if c.time.error > 0
            else float(c.time.value <= 1 + limit)
            for c in comparisons.values()
        ]
        slower = [
            name
            for (name, one), p_value in zip(comparisons.items(), _adjusted(p_values))
            if p_value < (1 - one.settings.confidence) / 2
        ]
        if slower:
            raise SlowerError(f"slower by more than {100 * limit:g} %: {', '.join(slower)}.")
    open_ones = [
        name
        for name, one in comparisons.items()
        if (one.verdict == "undecided" if limit is None else one.time.high > 1 + limit)
    ]
    if strict and open_ones:
        raise UndecidedError(f"not decided, measure more runs: {', '.join(open_ones)}.")
    partial = [name for name, one in comparisons.items() if len(one.left_out)]
    if strict and partial:
        raise UndecidedError(
            f"not decided, as contexts in which one version alone looks wrongly measured are left "
            f"out: {', '.join(partial)}; see the notes."
        )


def _adjusted(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for the false discovery rate (Benjamini and Hochberg, 1995)."""
    p, n = np.array(p_values, dtype=float), len(p_values)
    order = np.argsort(p)
    scaled = p[order] * (n / np.arange(1, n + 1))  # the largest last
    p[order] = np.minimum.accumulate(scaled[::-1])[::-1]
    return np.minimum(p, 1.0).tolist()
