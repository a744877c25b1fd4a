"""Variability of measurements between nodes that should be alike, and between sessions.

Observations come in groups (a node, a session). Their reference is the median of the groups'
medians. Two tests without a model of the distribution show whether groups differ. The test of
Anderson and Darling is for all groups together (Scholz and Stephens, JASA 1987, equation 6). The
test of Kolmogorov and Smirnov is for each pair; its smallest probability is corrected for the
number of pairs (Bonferroni). The measures are those of the paper on Jetson boards (Abdelhafez et
al., MIRAGE, SEC 2021, Section 3.1).
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, get_args

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.core.records import checks_arguments
from msbgen.data.schema import resource_names
from msbgen.systems.kernels.dataset import configurations_of, kernels_of, measured_table

Floats = NDArray[np.float64]

By = Literal["node", "run"]
Quantity = Literal["runtime", "power"]
# Fewest observations of a group for the tests.
_FEWEST = 2
# More groups than this are numbers, not sessions, and are not described.
_MOST_GROUPS = 50


@dataclass(frozen=True, eq=False)
class Variability:
    """Differences between groups of observations, and within them.

    Attributes
    ----------
    reference : float
        Median of the groups' medians, in the unit of the observations.
    difference : ndarray, (n,)
        Relative difference of every observation to it [1].
    medians : ndarray, (n_groups,)
        Relative difference of each group's median [1].
    spread : ndarray, (n_groups,)
        Median absolute difference of a group's members from its median, relative to that [1].
    anderson, anderson_p : float
        Standardised statistic of all groups together, and how probable it or a larger one is if
        they are of one law; the probability is known from 0.001 to 0.25, and cut there.
    kolmogorov, kolmogorov_p : float
        Largest distance between the distributions of two groups, and the smallest probability of
        any pair's, times the number of pairs, at most 1.
    """

    reference: float
    difference: Floats
    medians: Floats
    spread: Floats
    anderson: float
    anderson_p: float
    kolmogorov: float
    kolmogorov_p: float

    @property
    def between(self) -> float:
        """Largest less smallest median of the groups, relative to the reference [1]."""
        return float(np.ptp(self.medians))

    @property
    def within(self) -> float:
        """Median of the groups' spreads [1]."""
        return float(np.median(self.spread))


def compare_groups(groups: Sequence[ArrayLike]) -> Variability:
    """Compare groups of observations of one thing.

    Parameters
    ----------
    groups : sequence of array_like, (n_i,) each
        Positive observations: runtimes [s] or powers [W] of each node or session.

    Raises
    ------
    ArgumentError
        Observations that are not positive.
    MeasurementError
        Fewer than two groups of two observations, or all observations are equal.

    Examples
    --------
    >>> found = compare_groups([[1.0, 1.1, 0.9], [2.0, 2.2, 1.8], [1.0, 1.1, 0.9]])
    >>> found.reference, found.medians.tolist(), round(found.within, 3)
    (1.0, [0.0, 1.0, 0.0], 0.1)
    """
    samples = [np.asarray(group, dtype=float).ravel() for group in groups]
    for i, group in enumerate(samples):
        bad = ~(np.isfinite(group) & (group > 0))
        if bad.any():
            raise ArgumentError(
                f"observation {int(np.argmax(bad))} of group {i} is {group[bad][0]:g}; a positive "
                f"number is wanted."
            )
    sizes = ", ".join(str(len(sample)) for sample in samples) or "no"
    if len(samples) < 2 or min(map(len, samples)) < _FEWEST:
        raise MeasurementError(
            f"there are groups of {sizes} observations; two "
            f"groups or more, of {_FEWEST} observations or more each, are wanted."
        )
    every = np.concatenate(samples)
    if np.ptp(every) == 0:
        raise MeasurementError(
            f"all {len(every)} observations are {every[0]:g}; a clock or meter that tells them "
            f"apart is wanted."
        )
    medians = np.array([np.median(group) for group in samples])
    reference = float(np.median(medians))
    spread = [float(np.median(np.abs(g - m))) / m for g, m in zip(samples, medians)]
    anderson, anderson_p = _anderson(samples)
    kolmogorov, kolmogorov_p = _kolmogorov(samples)
    return Variability(
        reference=reference, difference=every / reference - 1.0, medians=medians / reference - 1.0,
        spread=np.array(spread), anderson=anderson, anderson_p=anderson_p, kolmogorov=kolmogorov,
        kolmogorov_p=kolmogorov_p,
    )  # fmt: skip


def repeatability(medians: ArrayLike) -> float:
    """Repeatability of medians between sessions: their mean relative difference [1].

    The medians are (n_things, n_sessions), NaN where a session did not measure a thing. Things of
    one session are left out. The result is the mean over the others of the mean over their sessions
    of |median / median of its medians − 1|.

        >>> round(repeatability([[1.0, 1.1], [2.0, 2.0], [3.0, float("nan")]]), 4)
        0.0238
    """
    table = np.atleast_2d(np.asarray(medians, dtype=float))
    several = np.isfinite(table).sum(axis=1) >= 2
    if not several.any():
        raise MeasurementError(
            "nothing was measured in two sessions, so that nothing tells how it repeats; measure "
            "again another day."
        )
    table = table[several]
    off = np.abs(table / np.nanmedian(table, axis=1, keepdims=True) - 1.0)
    return float(np.nanmean(off, axis=1).mean())


def describe_variability(dataset: xr.Dataset) -> list[str]:
    """Lines about the repeatability of measurements on other nodes and in other runs.

    A line for nodes and one for runs, of each quantity, where something was measured in two of
    them: its :func:`repeatability`, and which of them lies lowest and highest, by the median over
    what it measured.
    """
    lines = []
    for by in get_args(By):
        for quantity in get_args(Quantity):
            if quantity not in dataset:
                continue
            names, table = _medians(dataset, by, quantity)
            table = table[np.isfinite(table).sum(axis=1) >= 2]
            if not len(table):
                continue
            off = table / np.nanmedian(table, axis=1, keepdims=True) - 1.0
            seen = np.isfinite(off).any(axis=0)
            typical = np.nanmedian(off[:, seen], axis=0)
            low, high = (names[seen][at] for at in (typical.argmin(), typical.argmax()))
            lines.append(
                f"{quantity:<13} repeats to {repeatability(table):.1%} between {by}s: from "
                f"{typical.min():+.1%} on {low} to {typical.max():+.1%} on {high}"
            )
    return lines


@checks_arguments
def variability_rows(
    dataset: xr.Dataset, *, by: By = "node", quantity: Quantity = "runtime"
) -> Iterator[dict[str, Any]]:
    """Rows of the variability of each kernel in each configuration.

    Parameters
    ----------
    dataset : xarray.Dataset
        Measurements of kernels (:mod:`msbgen.kernels.dataset`).
    by : {"node", "run"}
        What makes groups: machines, or sessions.
    quantity : {"runtime", "power"}

    Returns
    -------
    iterator of dict
        ``kind``, the resources, ``groups``, ``observations``, ``median`` in the unit of the
        quantity, and the figures of :class:`Variability`.  Kernels that were not measured twice in
        two groups are left out.

    Raises
    ------
    ArgumentError
        Another word, or no power in the dataset.
    """
    if quantity not in dataset:
        raise ArgumentError("quantity is 'power', but no measurement has one; take 'runtime'.")
    return _rows(dataset, by, quantity)


def _rows(dataset: xr.Dataset, by: By, quantity: Quantity) -> Iterator[dict[str, Any]]:
    """Rows of :func:`variability_rows`."""
    values = dataset[quantity].values.astype(float)
    group = dataset[by].values.astype(str)
    kernels, (table, configuration) = kernels_of(dataset), configurations_of(dataset)
    cell = kernels.of * len(table) + configuration
    order = np.argsort(cell, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(cell[order])) + 1):
        rows = rows[np.isfinite(values[rows])]
        samples = [values[rows][group[rows] == word] for word in np.unique(group[rows])]
        samples = [members for members in samples if len(members) >= _FEWEST]
        if len(samples) < 2 or np.ptp(np.concatenate(samples)) == 0:
            continue
        found = compare_groups(samples)
        yield {
            "kind": str(kernels.kind[kernels.of[rows[0]]]),
            **dict(zip(resource_names(dataset), table[configuration[rows[0]]].tolist())),
            "groups": len(samples),
            "observations": sum(map(len, samples)),
            "median": found.reference,
            "between": found.between,
            "within": found.within,
            "anderson": found.anderson,
            "anderson_p": found.anderson_p,
            "kolmogorov": found.kolmogorov,
            "kolmogorov_p": found.kolmogorov_p,
        }


def _medians(dataset: xr.Dataset, by: By, quantity: Quantity) -> tuple[NDArray[np.str_], Floats]:
    """Names of groups, and their medians of each kernel in each configuration, (n, n_groups)."""
    values = dataset[quantity].values.astype(float)
    names, group = np.unique(dataset[by].values.astype(str), return_inverse=True)
    if len(names) > _MOST_GROUPS:
        return names[:0], np.empty((0, 0))
    samples = [np.where(group.reshape(-1) == i, values, np.nan) for i in range(len(names))]
    return names, np.column_stack([measured_table(dataset, each).ravel() for each in samples])


def _anderson(groups: Sequence[Floats]) -> tuple[float, float]:
    from scipy.stats import anderson_ksamp  # here, as it takes longer to import than to run

    # scipy 1.17 gave the choice another name
    named = "variant" in inspect.signature(anderson_ksamp).parameters
    given: dict[str, Any] = {"variant": "midrank"} if named else {"midrank": True}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the probability is cut; so our docstring says
        found: Any = anderson_ksamp(list(groups), **given)
    return float(found.statistic), float(found.pvalue)


def _kolmogorov(groups: Sequence[Floats]) -> tuple[float, float]:
    from scipy.stats import ks_2samp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that ties leave the limiting law only
        pairs: list[Any] = [ks_2samp(a, b) for a, b in combinations(groups, 2)]
    least = min(float(pair.pvalue) for pair in pairs)
    return max(float(pair.statistic) for pair in pairs), min(1.0, least * len(pairs))
