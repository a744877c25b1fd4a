"""Two smoothers of values at scattered points: a Gaussian process, and local lines.

The values y (n, c) have many columns at the same points z (n, m), with noise variances (n, c) over
that of the smooth part.  There is one length scale per resource, and one nugget that multiplies the
noise.  The smoothers are linear, and predict left-out points in closed form.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from msbgen.core.contexts import are_many
from msbgen.core.errors import MeasurementError
from msbgen.core.lazy import lazy_module
from msbgen.core.machine import available_cores
from msbgen.engine.trend.covariance import Pairs
from msbgen.engine.trend.folds import Folds
from msbgen.engine.trend.low_rank import LowRankProcess

_kernels = lazy_module("msbgen.engine.trend._kernels")

Floats = NDArray[np.float64]

FORMS = ("gaussian-process", "local-linear")
# Systems from which on threads are faster.
_MANY = 16


class Smoother(Protocol):
    """The interface of a form of the trend; lengths are (m,) unless stated."""

    def __init__(self, known: Floats) -> None: ...

    def predict(self, z: Floats, coefficients: Floats, lengths: Floats, nugget: Floats) -> Floats:
        """Predictions at points (q, m) for k quantities, (k, q, c).

        coefficients (k, n, c), lengths (k, m), nugget (k,).
        """
        ...

    def coefficients(self, values: Floats, noise: Floats, lengths: Floats, nugget: float) -> Floats:
        """Coefficients of the predictions, (n, c)."""
        ...

    def left_out(
        self, values: Floats, noise: Floats, lengths: Floats, nugget: float, folds: Folds
    ) -> Floats:
        """Known minus predicted values for each row of the folds, (rows, c)."""
        ...


class GaussianProcess:
    """The posterior mean, at points (n, m), under the prior of :mod:`.covariance`.

    O(n³) a fit where all columns have the same noise, else O(n³) a column, in threads.
    """

    def __init__(self, known: Floats) -> None:
        self._known = known

    @cached_property
    def _pairs(self) -> Pairs:
        return Pairs(self._known, self._known)

    def __reduce__(self) -> tuple[type[GaussianProcess], tuple[Floats]]:
        return type(self), (self._known,)  # pairs hold a lock, and are computed again

    def predict(self, z: Floats, coefficients: Floats, lengths: Floats, nugget: Floats) -> Floats:
        """See :class:`Smoother`; independent of the nugget."""
        pairs = self._pairs if np.array_equal(z, self._known) else Pairs(z, self._known)
        return pairs.covariances(lengths) @ coefficients

    def coefficients(self, values: Floats, noise: Floats, lengths: Floats, nugget: float) -> Floats:
        """See :class:`Smoother`; MeasurementError for points so close that none is determined."""
        kernel, out = self._pairs.covariance(lengths), np.empty_like(values)

        def solve(columns: NDArray[np.intp]) -> None:
            half = _half_inverse(kernel, nugget * noise[:, columns[0]])
            out[:, columns] = half.T @ (half @ values[:, columns])

        _each(solve, _equal_columns(noise))
        return out

    def left_out(
        self, values: Floats, noise: Floats, lengths: Floats, nugget: float, folds: Folds
    ) -> Floats:
        """See :class:`Smoother`; errors as of `coefficients`."""
        kernel, singles = self._pairs.covariance(lengths), folds.singles
        out = np.empty((len(folds.weight), values.shape[1]))

        def solve(columns: NDArray[np.intp]) -> None:
            half = _half_inverse(kernel, nugget * noise[:, columns[0]])
            if len(folds.ends) == 0:
                weighted = half.T @ (half @ values[:, columns])
                diagonal = (half**2).sum(axis=0)
            else:
                inverse = half.T @ half
                weighted = inverse @ values[:, columns]
                diagonal = np.diag(inverse)
                errors = np.empty((len(folds.members), len(columns)))
                if not _kernels.left_out(inverse, weighted, folds.members, folds.ends, errors):
                    raise MeasurementError(_TOO_CLOSE)
                out[singles:, columns] = errors
            # known minus predicted from all others: (K⁻¹y)_i / K⁻¹_ii
            out[:singles, columns] = weighted[:singles] / diagonal[:singles, None]

        _each(solve, _equal_columns(noise))
        return out


class LocalLinear:
    """Lines fitted around each point (n, m), with larger weights of near values.

    They minimise Σ_i κ_i (y_i − a − b·(z_i − z))² + ridge·|b|².  κ is Gaussian with the length
    scales, and the nugget is the ridge over Σ κ.  The noise is not used.
    """

    def __init__(self, known: Floats) -> None:
        self._known = known
        self._cached = (Folds.alone(0), _LocalFits.of(known, known[:0]))

    def predict(self, z: Floats, coefficients: Floats, lengths: Floats, nugget: Floats) -> Floats:
        """See :class:`Smoother`."""
        fits = _LocalFits.of(self._known, z)
        return np.stack([fits.weights(*one) for one in zip(lengths, nugget)]) @ coefficients

    def coefficients(self, values: Floats, noise: Floats, lengths: Floats, nugget: float) -> Floats:
        """The values themselves."""
        return values

    def left_out(
        self, values: Floats, noise: Floats, lengths: Floats, nugget: float, folds: Folds
    ) -> Floats:
        """See :class:`Smoother`."""
        rows = self._left_out_fits(folds).weights(lengths, nugget)
        return values[folds.index] - rows @ values

    def _left_out_fits(self, folds: Folds) -> _LocalFits:
        """The fits around each row of the folds; those of the last folds are cached."""
        cached, fits = self._cached
        if cached is not folds:
            fits = _LocalFits.of(self._known, self._known[folds.index])
            singles = np.arange(folds.singles)
            fits.squares[singles, singles] = np.inf
            for group in folds.groups:
                rows = slice(folds.singles + group.start, folds.singles + group.stop)
                fits.squares[rows, folds.members[group]] = np.inf
            self._cached = folds, fits
        return fits


@dataclass(frozen=True, eq=False)
class _LocalFits:
    """Local fits of the known points around other points."""

    squares: Floats  # (q, n, m): squared steps along each resource, infinite to left-out points
    design: Floats  # (q, n, 1 + m): 1 and the steps

    @classmethod
    def of(cls, known: Floats, z: Floats) -> _LocalFits:
        step = known[None] - z[:, None]
        return cls(step**2, np.concatenate([np.ones((*step.shape[:2], 1)), step], axis=2))

    def weights(self, lengths: Floats, ridge: float) -> Floats:
        """Weights of the known values in the fit around each point, (q, n)."""
        squared = self.squares @ lengths**-2.0
        weight = np.exp(-0.5 * (squared - squared.min(axis=1, keepdims=True)))
        normal = np.matmul((weight[..., None] * self.design).transpose(0, 2, 1), self.design)
        index = np.arange(1, self.design.shape[2])
        normal[:, index, index] += ridge * weight.sum(axis=1, keepdims=True)
        first = np.zeros((len(squared), self.design.shape[2], 1))
        first[:, 0] = 1.0
        return np.matmul(self.design, np.linalg.solve(normal, first))[..., 0] * weight


def gaussian_process(known: Floats) -> Smoother:
    """The Gaussian process of known points (n, m): exact, or of low rank where they are many."""
    return LowRankProcess(known) if are_many(known) else GaussianProcess(known)


SMOOTHERS: dict[str, Callable[[Floats], Smoother]] = dict(
    zip(FORMS, (gaussian_process, LocalLinear))
)

_TOO_CLOSE = "contexts are so close that they determine no trend; drop those next to others."


def _half_inverse(kernel: Floats, diagonal: Floats) -> Floats:
    """W (n, n) with (kernel + diagonal)⁻¹ = WᵀW, lower triangular."""
    n = len(diagonal)
    rows = np.zeros((n, 2 * n))
    rows[:, :n] = kernel
    rows.ravel()[:: 2 * n + 1] += diagonal
    rows.ravel()[n :: 2 * n + 1] = 1.0
    if not _kernels.eliminate(rows, n):
        raise MeasurementError(_TOO_CLOSE)
    return rows[:, n:]


def _each(solve: Callable[[NDArray[np.intp]], None], parts: list[NDArray[np.intp]]) -> None:
    """Call `solve` for each part, in threads where there are many."""
    threads = available_cores() if len(parts) >= _MANY else 1

    def every_few(first: int) -> None:
        for part in parts[first::threads]:
            solve(part)

    if threads == 1:
        every_few(0)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(every_few, range(threads)))


def _equal_columns(noise: Floats) -> list[NDArray[np.intp]]:
    """Indices of the columns of (n, c), in groups of equal columns."""
    if np.all(noise == noise[:, :1]):
        return [np.arange(noise.shape[1])]
    which = np.unique(noise, axis=1, return_inverse=True)[1].reshape(-1)
    order = np.argsort(which, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(which[order])) + 1)
