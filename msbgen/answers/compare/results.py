"""Settings and results of a comparison of two versions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from msbgen.answers.compare.ratio import Ratio
from msbgen.answers.compare.stretches import ContextGroup
from msbgen.core.records import Share, Within, check_fields

Floats = NDArray[np.float64]
Verdict = Literal["slower", "faster", "same", "undecided"]


@dataclass(frozen=True)
class CompareSettings:
    """Settings of a comparison."""

    # an interval of the execution time that holds 1 and is within this share means 'the same'
    tolerance: Share = 0.01
    confidence: Annotated[float, Within(0.5, 1, below=True)] = 0.95
    bins: Annotated[int, Within(10)] = 100  # of progress, in which stretches are located
    permutations: Annotated[int, Within(99)] = 999

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class Change:
    """A stretch of the work that changed.

    Attributes
    ----------
    old, new : (float, float)
        Begin and end in the work of either version, shares from 0 to 1.
    quantity : str
        Where the change is clearest: ``"time"`` or a counter; ``"inserted"``, ``"removed"`` or
        ``"replaced"`` for work that has no match.
    ratios : dict of str to Ratio
        NEW/OLD of every quantity in the stretch, over the contexts of `group`; empty for inserted
        and removed work.
    group : ContextGroup
        The contexts in which the change is clearest.
    p_value : float
        Adjusted for all stretches, quantities and groups of contexts; NaN for inserted and removed
        work, which is found by alignment.
    begins : (float, float)
        Between which shares of the old work it may begin: for inserted and removed work, where the
        counters look alike in several places.
    """

    old: tuple[float, float]
    new: tuple[float, float]
    quantity: str
    ratios: dict[str, Ratio]
    group: ContextGroup
    p_value: float
    begins: tuple[float, float]


@dataclass(frozen=True, eq=False)
class AmountsByProgress:
    """Mean amounts of both versions by progress, over contexts and runs.

    Attributes
    ----------
    quantities : tuple of str
        ``"time"`` [s] and the counters but that of progress.
    old_edges, new_edges : (bins + 1,)
        Edges of equal bins of either version's work on a common axis from 0 to 1, on which matched
        work has one place, and inserted and removed work a place of its own.
    old, new : (bins, q)
        Amounts in those bins.
    """

    quantities: tuple[str, ...]
    old_edges: Floats
    new_edges: Floats
    old: Floats
    new: Floats


@dataclass(frozen=True, eq=False)
class Comparison:
    """Result of :func:`compare_profiles`.

    Attributes
    ----------
    verdict : {"slower", "faster", "same", "undecided"}
        Of the execution time over all contexts.
    time : Ratio
        NEW/OLD of the execution time, the weighted geometric mean over contexts.
    detectable : float
        Smallest relative change of it that these runs would have found 9 times in 10.
    more_runs : int or None
        Further runs of each version in every context that would decide, if the true change is the
        one found; 0 if decided, None if unknown.
    totals : dict of str to Ratio
        NEW/OLD of the totals of the counters, over all contexts.
    files : (str, str)
        Names of both versions' files.
    task : str
        What was compared.
    resources : tuple of str
        Names of the columns of `contexts`.
    units : tuple of str
        Their units.
    labels : dict of str to tuple of str
        Words of the levels 1, 2, … of resources whose levels are no numbers.
    contexts : (n, m)
        Contexts of `value`: the compared or the wanted ones.
    value, low, high : (n,)
        NEW/OLD of the execution time in each context, and the band that holds all at once.
    changes : tuple of Change
        Stretches of the work that changed, the clearest first.
    same_program : bool or None
        Whether the counters of most of the work look alike in both versions; None without a shared
        context.
    stretched_runs : (int, int) or None
        Runs of either version of which a part was slowed down; they are left out.  None without a
        shared context.
    stretched_p : float or None
        Of their numbers being alike (Fisher's exact test).
    runs : (int, int)
        Number of runs of either version that were compared.
    noise : {"runs", "neighbours", "models"}
        Origin of the intervals: runs of one context; neighbouring contexts, where each has one run;
        or left-out errors of fitted models, where the versions share no context.
    left_out : (k, m)
        Shared contexts that one version alone excludes, as it looks wrongly measured there.
    notes : tuple of str
        What limits the comparison, a sentence each.
    course : AmountsByProgress or None
        Both versions by progress; None without a shared context.
    settings : CompareSettings
        Settings of the comparison.
    """

    verdict: Verdict
    time: Ratio
    detectable: float
    more_runs: int | None
    totals: dict[str, Ratio]
    files: tuple[str, str]
    task: str
    resources: tuple[str, ...]
    units: tuple[str, ...]
    labels: dict[str, tuple[str, ...]]
    contexts: Floats
    value: Floats
    low: Floats
    high: Floats
    changes: tuple[Change, ...]
    same_program: bool | None
    stretched_runs: tuple[int, int] | None
    stretched_p: float | None
    runs: tuple[int, int]
    noise: Literal["runs", "neighbours", "models"]
    left_out: Floats
    notes: tuple[str, ...]
    course: AmountsByProgress | None
    settings: CompareSettings = field(default_factory=CompareSettings)

    def as_dict(self) -> dict[str, Any]:
        """All results as JSON values; ``msbgen/answers/compare/README.md`` lists them."""
        course = self.course
        return {
            "task": self.task,
            "old": self.files[0],
            "new": self.files[1],
            "verdict": self.verdict,
            "confidence": self.settings.confidence,
            "tolerance": self.settings.tolerance,
            "time": self.time.as_dict(),
            "detectable": self.detectable,
            "more_runs": self.more_runs,
            "totals": {name: ratio.as_dict() for name, ratio in self.totals.items()},
            "runs": list(self.runs),
            "noise": self.noise,
            "same_program": self.same_program,
            "stretched_runs": self.stretched_runs and list(self.stretched_runs),
            "stretched_p": self.stretched_p,
            "resources": [
                {"name": name, "units": units, "labels": list(self.labels[name])}
                for name, units in zip(self.resources, self.units)
            ],
            "contexts": self.contexts.tolist(),
            "ratio": self.value.tolist(),
            "low": self.low.tolist(),
            "high": self.high.tolist(),
            "changes": [
                {
                    "quantity": change.quantity,
                    "old": list(change.old),
                    "new": list(change.new),
                    "ratios": {name: ratio.as_dict() for name, ratio in change.ratios.items()},
                    "resource": change.group.resource,
                    "level": change.group.level,
                    "below": change.group.below,
                    "p_value": change.p_value,
                    "begins": list(change.begins),
                }
                for change in self.changes
            ],
            "left_out": self.left_out.tolist(),
            "notes": list(self.notes),
            "course": course
            and {
                "quantities": list(course.quantities),
                **{
                    part: getattr(course, part).tolist()
                    for part in ("old_edges", "new_edges", "old", "new")
                },
            },
        }
