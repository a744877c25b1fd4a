"""Durations over the contexts: a Bayesian average of Gaussian processes with a prior on the noise.

The logarithm of the mean duration of the n_i runs in context β_i is

    y_i = g(β_i) + b·h(β_i) + f(β_i) + e_i,    e_i ~ N(0, v²/n_i).

g is a given prediction, such as the trend's.  Without one, h is a line in the logarithms and in the
levels of the resources with nearly free coefficients b: it holds power laws, and times that fall
towards a limit or grow again.  f is a Gaussian process with a Matérn covariance (Rasmussen and
Williams, 2006, equation 4.14) of smoothness ½, 3/2 or 5/2, one length scale and one deviation s.

A few measured durations do not show whether a departure from a smooth curve is a property of the
task, such as saturation, or the noise of single runs.  Its size does: runs of one context seldom
differ by 5 to 15 %.  So the deviation v of one run has a log-normal prior, to which repeated runs
add their likelihood.  Predictions are means over all combinations of smoothness, length scale, s
and v, weighted by their posterior probability (equation 5.8).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from msbgen.core.arrays import LOGARITHMS, POSITIVE, Stored
from msbgen.core.parts import Given
from msbgen.engine.trend.coordinates import Coordinates, default_names

Floats = NDArray[np.float64]

SMOOTHNESS = (0.5, 1.5, 2.5)
# In scaled coordinates, which span one.
_LENGTHS = np.array([0.1, 0.2, 0.4, 0.8, 1.6, 3.2])
# Deviations s of the process and v of one run, of logarithms.
_SIGNALS = 0.0003 * 2.4625 ** np.arange(12.0)  # to 6: times over many decades
_NOISES = 0.005 * 2.5 ** np.arange(-2.0, 6.0)
# Median and factor of one deviation of the log-normal priors.  A task departs from a line by some
# 10 %, and from a trend that counters explain by 2 % or far less.
_LENGTH_PRIOR, _NOISE_PRIOR = (0.7, np.e), (0.005, 3.0)
_FROM_LINE, _FROM_TREND = (0.1, np.e), (0.02, np.e**2)
# Variances of the coefficients of the line: constant, logarithms and levels in scaled coordinates.
_CONSTANT, _OF_LOGARITHMS, _OF_LEVELS = 100.0, 1200.0, 4.0
# Probability of the hypotheses that are kept.
_KEPT = 0.999


@dataclass(frozen=True, eq=False)
class Durations:
    """Fitted durations; :meth:`fit` makes them.

    A *hypothesis* is one combination of smoothness, length scale, and both deviations.
    """

    contexts: Annotated[Floats, Given("contexts")]  # (n, m)
    # (n,): logarithm of the mean duration, less that of a given prediction
    departure: Annotated[Floats, Stored(("known",), LOGARITHMS)]
    # (n,): number of runs, or less where they are less reliable
    weight: Annotated[Floats, Stored(("known",), POSITIVE)]
    has_line: bool  # whether there is no given prediction, but a line
    # (H, 5): smoothness, length scale, deviations of the process and of a run, probability
    hypotheses: Annotated[Floats, Stored(("hypothesis", 5), POSITIVE)]

    def problems(self) -> Iterator[tuple[str, object, str]]:
        """What is wrong with stored durations."""
        if not len(self.hypotheses) or not np.isin(self.hypotheses[:, 0], SMOOTHNESS).all():
            yield "hypotheses", "others", "one or more of a known smoothness"

    @classmethod
    def fit(
        cls,
        contexts: Floats,
        departure: Floats,
        weight: Floats,
        *,
        has_line: bool,
        repeats: tuple[float, int] = (0.0, 0),
        like: Durations | None = None,
    ) -> Durations:
        """Hypotheses with their posterior probabilities; O(n³) for each of 18 covariances.

        Fields as of the class.  `repeats` are the sum of the squared deviations of log durations of
        repeated runs from the means of their contexts, and its degrees of freedom.  Coordinates are
        those of other durations, `like`, or of these contexts.
        """
        unfitted = cls(contexts, departure, weight, has_line, np.empty((0, 5)))
        unfitted._in_coordinates_of(like)
        found, logs = [], []
        for grid, log_density in unfitted._log_densities(departure[None], repeats):
            found.append(grid)
            logs.append(log_density[:, 0])
        log = np.concatenate(logs)
        probability = np.exp(log - log.max())
        probability /= probability.sum()
        order = np.argsort(-probability, kind="stable")
        kept = order[: np.searchsorted(probability[order].cumsum(), _KEPT) + 1]
        probability = probability[kept] / probability[kept].sum()
        hypotheses = np.column_stack([np.concatenate(found)[kept], probability])
        return replace(unfitted, hypotheses=hypotheses)._in_coordinates_of(like)

    def _in_coordinates_of(self, other: Durations | None) -> Durations:
        """These durations, in the coordinates of others where they are given."""
        if other is not None:
            vars(self).update(_coordinates=other._coordinates, _levels=other._levels)
        return self

    def refit(self, rows: NDArray[np.int64], departure: Floats) -> Durations:
        """The same hypotheses and coordinates with the departures of some of the contexts."""
        others = replace(
            self, contexts=self.contexts[rows], departure=departure, weight=self.weight[rows]
        )
        return others._in_coordinates_of(self)

    def log_evidence(self, departures: Floats) -> Floats:
        """Log densities of other departures (c, n) of the same contexts, up to a constant, (c,).

        Means over all hypotheses with their prior probabilities (equation 5.14).
        """
        logs = np.concatenate([log for _, log in self._log_densities(departures, (0.0, 0))])
        highest = logs.max(axis=0)
        return highest + np.log(np.exp(logs - highest).sum(axis=0))

    def _log_densities(
        self, departures: Floats, repeats: tuple[float, int]
    ) -> Iterator[tuple[Floats, Floats]]:
        """Parameters (g, 4) of the hypotheses of each covariance, and log densities (g, c).

        Each is the log density of departures (c, n) and `repeats`, plus that of the prior.
        """
        signal, noise = (a.ravel() for a in np.meshgrid(_SIGNALS, _NOISES, indexing="ij"))
        square, freedom = repeats
        prior = _log_prior(signal, _FROM_LINE if self.has_line else _FROM_TREND)
        prior += _log_prior(noise, _NOISE_PRIOR)
        prior -= freedom * np.log(noise) + 0.5 * square / noise**2
        for smoothness, length in product(SMOOTHNESS, _LENGTHS.tolist()):
            axes = self._axes(smoothness, length)
            variance = axes.variance(signal, noise)
            y = (departures - self._middle) @ axes.towards
            log = -0.5 * ((1.0 / variance) @ (y**2).T + np.log(variance).sum(axis=1)[:, None])
            if self.has_line:
                scaled = axes.basis / variance[..., None]  # (g, n, p)
                normal = axes.normal(scaled)
                projected = y @ scaled  # (g, c, p)
                solved = np.linalg.solve(normal, np.swapaxes(projected, 1, 2))
                log += 0.5 * np.einsum("gcp,gpc->gc", projected, solved)
                log -= 0.5 * np.linalg.slogdet(normal)[1][:, None]
            kind = np.broadcast_to((smoothness, length), (len(signal), 2))
            log += (prior + _log_prior(length, _LENGTH_PRIOR))[:, None]
            yield np.column_stack([kind, signal, noise]), log

    def predict(self, contexts: Floats) -> Floats:
        """Expected departure at contexts (q, m), (q,)."""
        z = self._coordinates.scaled(contexts)
        out = np.full(len(z), self._middle)
        if self.has_line:
            out += self._basis(contexts, z) @ self._fitted[1]
        for (smoothness, length), coefficients in self._fitted[0].items():
            out += _matern(z, self._z, smoothness, length) @ coefficients
        return out

    @cached_property
    def left_out(self) -> Floats:
        """Expected departure of each known context given the others, (n,).

        In closed form (equation 5.12), with the probabilities of the hypotheses given all.
        """
        errors = np.zeros(len(self.departure))
        for solved, weight in self._each_covariance():
            errors += weight @ (solved.alpha / solved.precision)
        return self.departure - errors

    def deviation(self, contexts: Floats, *, of_run: bool = True) -> Floats:
        """Standard deviation of the log duration of a new run at contexts (q, m), (q,).

        Of the mixture of all hypotheses.  Without `of_run` the noise of the run is left out.
        """
        z, mean, square = self._coordinates.scaled(contexts), 0.0, 0.0
        basis = self._basis(contexts, z)[:, None]  # (q, 1, p)
        for (smoothness, length), rows in self._groups():
            axes, (signal, noise, weight) = self._axes(smoothness, length), rows[:, 2:].T
            across = _matern(z, self._z, smoothness, length) @ axes.towards  # (q, n)
            variance = axes.variance(signal, noise)  # (g, n)
            explained = signal**4 * (across**2 @ (1.0 / variance).T)
            mean_of = signal**2 * (across @ (self._along(axes) / variance).T)
            new = signal**2 - explained + (noise**2 if of_run else 0.0)
            if self.has_line:
                scaled = axes.basis / variance[..., None]  # (g, n, p)
                inverse = np.linalg.inv(axes.normal(scaled))
                left = basis - signal[:, None] ** 2 * np.einsum("qn,gnp->qgp", across, scaled)
                of_line = np.einsum("gpr,gnp,n->gr", inverse, scaled, self._along(axes))
                mean_of = mean_of + np.einsum("qgp,gp->qg", left, of_line)
                new = new + np.einsum("qgp,gpr,qgr->qg", left, inverse, left)
            mean, square = mean + mean_of @ weight, square + (new + mean_of**2) @ weight
        return np.sqrt(np.maximum(square - mean**2, 0.0))

    @cached_property
    def left_out_deviation(self) -> Floats:
        """Standard deviation of the log duration of a run given all other contexts, (n,)."""
        mean, square = np.zeros(len(self.departure)), np.zeros(len(self.departure))
        for (smoothness, length), rows in self._groups():
            signal, noise, weight = rows[:, 2:].T
            solved = self._solved(smoothness, length, signal, noise)
            error = solved.alpha / solved.precision
            # the precision holds the noise of the mean of all runs
            of_run = 1.0 / solved.precision + noise[:, None] ** 2 * (1.0 - 1.0 / self.weight)
            mean, square = mean + weight @ error, square + weight @ (of_run + error**2)
        return np.sqrt(np.maximum(square - mean**2, 0.0))

    @cached_property
    def _fitted(self) -> tuple[dict[tuple[float, float], Floats], Floats]:
        """Mean coefficients (n,) of each covariance, and those of the line, (1 + 2m,)."""
        coefficients, of_line = {}, np.zeros(1 + 2 * self.contexts.shape[1])
        for solved, weight in self._each_covariance():
            coefficients[solved.kind] = (weight * solved.signal**2) @ solved.alpha
            if self.has_line:
                of_line += weight @ solved.line
        return coefficients, of_line

    def _each_covariance(self) -> Iterator[tuple[_Solved, Floats]]:
        """Each covariance solved for its hypotheses, and their probabilities."""
        for (smoothness, length), rows in self._groups():
            yield self._solved(smoothness, length, rows[:, 2], rows[:, 3]), rows[:, 4]

    def _groups(self) -> Iterator[tuple[tuple[float, float], Floats]]:
        """Smoothness and length scale of each covariance, and its hypotheses (g, 5)."""
        kinds, group = np.unique(self.hypotheses[:, :2], axis=0, return_inverse=True)
        for g, (smoothness, length) in enumerate(kinds.tolist()):
            yield (smoothness, length), self.hypotheses[group.ravel() == g]

    def _along(self, axes: _Axes) -> Floats:
        """Departures along the axes, (n,)."""
        return (self.departure - self._middle) @ axes.towards

    @cached_property
    def _coordinates(self) -> Coordinates:
        return Coordinates.of(default_names(self.contexts), self.contexts)

    @cached_property
    def _levels(self) -> Coordinates:
        return Coordinates.of(("linear",) * self.contexts.shape[1], self.contexts)

    @cached_property
    def _z(self) -> Floats:
        return self._coordinates.scaled(self.contexts)

    @property
    def _middle(self) -> float:
        return float(self.departure.mean()) if self.has_line else 0.0

    def _basis(self, contexts: Floats, z: Floats) -> Floats:
        """Terms of the line over the deviations of their coefficients, (q, 1 + 2m)."""
        parts = (
            np.full(len(z), np.sqrt(_CONSTANT)),
            np.sqrt(_OF_LOGARITHMS) * z,
            # beyond the known levels its exponential would grow, or vanish, without limit
            np.sqrt(_OF_LEVELS) * np.clip(self._levels.scaled(contexts), -0.5, 0.5),
        )
        return np.column_stack(parts)

    def _axes(self, smoothness: float, length: float) -> _Axes:
        root = np.sqrt(self.weight)
        covariance = _matern(self._z, self._z, smoothness, length)
        values, vectors = np.linalg.eigh(root[:, None] * covariance * root)
        towards = root[:, None] * vectors
        basis = towards.T @ self._basis(self.contexts, self._z) if self.has_line else vectors[:, :0]
        return _Axes(np.maximum(values, 0.0), towards, basis)

    def _solved(self, smoothness: float, length: float, signal: Floats, noise: Floats) -> _Solved:
        """The normal equations of one covariance for deviations (g,) of process and run."""
        axes = self._axes(smoothness, length)
        variance = axes.variance(signal, noise)
        white = self._along(axes) / variance  # (g, n)
        precision = (1.0 / variance) @ (axes.towards**2).T
        scaled = axes.basis / variance[..., None]  # (g, n, p)
        inverse = np.linalg.inv(axes.normal(scaled))
        line = (inverse @ (white @ axes.basis)[..., None])[..., 0]
        white -= (scaled @ line[..., None])[..., 0]
        across = axes.towards @ scaled
        precision -= ((across @ inverse) * across).sum(axis=2)
        kind = smoothness, length
        return _Solved(kind, signal, white @ axes.towards.T, precision, line)


@dataclass(frozen=True, eq=False)
class _Axes:
    """Axes of W^½ K W^½, with W the numbers of runs and K the covariance of unit deviation.

    They diagonalise s² K + v² W⁻¹ for all s and v at once; the line, of low rank, is added by
    Woodbury's identity.
    """

    values: Floats  # (n,): eigenvalues
    towards: Floats  # (n, n): W^½ times the eigenvectors
    basis: Floats  # (n, p): of the line along the axes

    def variance(self, signal: Floats, noise: Floats) -> Floats:
        """Variances along the axes for deviations (g,) of process and run, (g, n)."""
        return signal[:, None] ** 2 * self.values + noise[:, None] ** 2

    def normal(self, scaled: Floats) -> Floats:
        """Precision of the line's coefficients from the basis over the variances, (g, p, p)."""
        return np.eye(self.basis.shape[1]) + np.einsum("np,gnq->gpq", self.basis, scaled)


@dataclass(frozen=True, eq=False)
class _Solved:
    """The normal equations of one covariance, solved for g pairs of deviations."""

    kind: tuple[float, float]  # smoothness and length scale
    signal: Floats  # (g,)
    alpha: Floats  # (g, n): inverse covariance times departures
    precision: Floats  # (g, n): diagonal of the inverse covariance
    line: Floats  # (g, p): coefficients of the line


def _matern(z: Floats, other: Floats, smoothness: float, length: float) -> Floats:
    """Product over the resources of Matérn correlations, (q, m), (n, m) -> (q, n)."""
    correlation, distance = np.ones((len(z), len(other))), np.zeros((len(z), len(other)))
    for column, of_other in zip(z.T, other.T):
        step = np.sqrt(2.0 * smoothness) / length * np.abs(column[:, None] - of_other)
        distance += step
        if smoothness == 1.5:
            correlation *= 1.0 + step
        elif smoothness == 2.5:
            correlation *= 1.0 + step + step**2 / 3.0
    return correlation * np.exp(-distance)


def _log_prior(value: Floats | float, prior: tuple[float, float]) -> Floats:
    """Log density of a log-normal prior, up to a constant."""
    median, factor = prior
    return -0.5 * (np.log(np.asarray(value) / median) / np.log(factor)) ** 2
