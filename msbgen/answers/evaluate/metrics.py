"""Distances between generated and measured profiles, durations and clouds, on arrays."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ArgumentError
from msbgen.core.lazy import lazy_module
from msbgen.core.records import checks_arguments

_kernels = lazy_module("msbgen.answers.evaluate._kernels")

Warping = Literal["exact", "fastdtw"]

# Largest number of points of clouds with equal weights that are matched point by point.
_LARGEST_MATCHING = 512


@checks_arguments
def dtw_distance(
    profile: ArrayLike, reference: ArrayLike, *, method: Warping = "exact", radius: int = 1
) -> float:
    """Dynamic time warping distance: the cost of the cheapest monotone alignment of two profiles.

    minimise Σ_(i,j)∈path |profile_i − reference_j|₂ over paths from the first pair of rows to
    the last with steps (1, 0), (0, 1) and (1, 1).

    Parameters
    ----------
    profile : array_like, (n, d)
    reference : array_like, (m, d)
    method : {"exact", "fastdtw"}
        "fastdtw" is the approximation used in the paper; it is never below the exact value.
    radius : int
        Neighbourhood that fastdtw searches; not used by the exact method.

    Returns
    -------
    float
        In the units of the rows.  Cost O(n·m·d) time and O(m) memory when exact.

    Raises
    ------
    ArgumentError
        Unequal widths, no rows, or values that are not finite.

    Examples
    --------
    >>> dtw_distance([[0.0], [1.0], [1.0], [3.0]], [[0.0], [1.0], [2.0]])
    1.0
    """
    a, b = _finite_pair(profile, reference, ("profile", "reference"))
    if method == "exact":
        return float(_kernels.dtw(a, b))
    if method == "fastdtw":
        import fastdtw

        return float(fastdtw.fastdtw(a, b, radius=radius, dist=_euclidean)[0])  # type: ignore
    raise ArgumentError(f"method is {method!r}; 'exact' or 'fastdtw' is wanted.")


def normalised_dtw(
    profile: ArrayLike, reference: ArrayLike, *, scale: ArrayLike = 1.0, method: Warping = "exact"
) -> float:
    """DTW distance per row of the reference, relative to the reference's largest row.

    DTW(G, R) / (len(R) · max_t |R_t|₂), Section IV-B of the paper.

    Parameters
    ----------
    profile, reference : array_like, (n, d) and (m, d)
    scale : array_like, broadcastable to (d,)
        Divisor of both.  With the largest count of each counter in the training data all counters
        have similar weights; with 1 (the paper) the counter of the largest counts dominates.
    method : {"exact", "fastdtw"}

    Returns
    -------
    float
        Dimensionless; 0 for equal profiles.

    Raises
    ------
    ArgumentError
        As :func:`dtw_distance`; a scale that is not positive; a reference that is zero.
    """
    divisor = np.asarray(scale, dtype=float)
    if divisor.ndim > 1 or not np.all((divisor > 0) & np.isfinite(divisor)):
        raise ArgumentError(f"scale is {divisor}; one positive number a column is wanted.")
    a = np.asarray(profile, dtype=float) / divisor
    b = np.asarray(reference, dtype=float) / divisor
    distance = dtw_distance(a, b, method=method)
    largest = float(np.linalg.norm(b, axis=1).max())
    if largest == 0:
        raise ArgumentError("reference is zero throughout; one row above zero is wanted.")
    return distance / (len(b) * largest)


def relative_error(value: ArrayLike, reference: ArrayLike) -> NDArray[np.float64]:
    """|value − reference| / reference, elementwise; for durations, which DTW hardly measures."""
    reference = np.asarray(reference, dtype=float)
    return np.abs(np.asarray(value, dtype=float) - reference) / reference


def energy_distance(
    x: ArrayLike,
    y: ArrayLike,
    x_weights: ArrayLike | None = None,
    y_weights: ArrayLike | None = None,
) -> float:
    """Energy distance 2·E|X−Y| − E|X−X'| − E|Y−Y'| between two weighted clouds (Székely).

    Parameters
    ----------
    x, y : array_like, (n, d) and (m, d)
    x_weights, y_weights : array_like, (n,) and (m,)
        Non-negative, normalised here; equal where left out.

    Returns
    -------
    float
        In the units of the coordinates, 0 if and only if the clouds are the same
        distribution.  O(n·m·d) time, no matrix is stored.

    Raises
    ------
    ArgumentError
        Shapes that do not fit, values that are not finite, weights without mass.
    """
    a, b = _finite_pair(x, y, ("x", "y"))
    wa, wb = _probabilities(x_weights, len(a), "x"), _probabilities(y_weights, len(b), "y")
    across = _kernels.mean_distance(a, wa, b, wb)
    within = _kernels.mean_distance(a, wa, a, wa) + _kernels.mean_distance(b, wb, b, wb)
    return max(float(2 * across - within), 0.0)


def wasserstein_distance(
    x: ArrayLike,
    y: ArrayLike,
    x_weights: ArrayLike | None = None,
    y_weights: ArrayLike | None = None,
) -> float:
    """Wasserstein-1 distance min_Γ Σ Γ_rs |x_r − y_s|₂ between two weighted clouds.

    Parameters and errors as :func:`energy_distance`; exact.  Clouds of equal weights are matched:
    points are repeated until both clouds have the same number, for which an optimal plan is a
    permutation (Birkhoff).  Others use POT's network simplex.  O(n·m) memory.
    """
    a, b = _finite_pair(x, y, ("x", "y"))
    wa, wb = _probabilities(x_weights, len(a), "x"), _probabilities(y_weights, len(b), "y")
    if 1 in (len(a), len(b)):  # all mass goes to one point
        return float(_kernels.mean_distance(a, wa, b, wb))
    size = math.lcm(len(a), len(b))
    if x_weights is None and y_weights is None and size <= _LARGEST_MATCHING:
        from scipy.optimize import linear_sum_assignment

        cost = np.sqrt(((a[:, None] - b) ** 2).sum(axis=2))
        cost = cost.repeat(size // len(a), axis=0).repeat(size // len(b), axis=1)
        return float(cost[linear_sum_assignment(cost)].mean())
    import ot  # takes a second

    cost = ot.dist(a, b, metric="euclidean")
    return float(np.asarray(ot.emd2(wa, wb, cost)))


def _finite_pair(
    x: ArrayLike, y: ArrayLike, names: tuple[str, str]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    a, b = _finite_rows(x, names[0]), _finite_rows(y, names[1])
    if a.shape[1] != b.shape[1]:
        raise ArgumentError(
            f"{names[0]} has {a.shape[1]} columns, {names[1]} {b.shape[1]}; equal numbers are "
            f"wanted."
        )
    return a, b


def _finite_rows(values: ArrayLike, name: str) -> NDArray[np.float64]:
    array = np.ascontiguousarray(values, dtype=float)
    if array.ndim != 2 or 0 in array.shape:
        raise ArgumentError(
            f"{name} has shape {array.shape}; rows × columns, both ≥ 1, are wanted."
        )
    if not np.all(np.isfinite(array)):
        row = int(np.argmin(np.isfinite(array).all(axis=1)))
        raise ArgumentError(
            f"{name} is not finite at row {row}; finite rows, cut where the run ends, are wanted."
        )
    return array


def _probabilities(weights: ArrayLike | None, n: int, name: str) -> NDArray[np.float64]:
    if weights is None:
        return np.full(n, 1.0 / n)
    array = np.asarray(weights, dtype=float)
    if array.shape != (n,) or not np.all(array >= 0) or not 0 < array.sum() < np.inf:
        raise ArgumentError(
            f"{name}_weights is {weights}; {n} numbers ≥ 0 with a positive sum are wanted."
        )
    return array / array.sum()


def _euclidean(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    step = a - b
    return float(np.sqrt(step @ step))
