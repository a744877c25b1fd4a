"""The ratio of a quantity between two versions of a program: over all contexts, and in each.

With the mean of a quantity over the runs of version v in context c, m_v,c, the logarithm of the
ratio there is d_c = log m_new,c − log m_old,c.  The ratio over all contexts is the exponential of
D = Σ w_c d_c, a weighted geometric mean.  The variance of d_c comes from the spread of the runs of
the context; Student's t has Satterthwaite's degrees of freedom, without their bias.  Where a
version has a single run in every context, the spread of d_c about a plane over the contexts takes
its place.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from msbgen.core.errors import MeasurementError
from msbgen.trend.coordinates import Coordinates, default_names
from msbgen.trend.covariance import matern

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# Power of the smallest change that is reported as detectable.
POWER = 0.9
# Length scales, of coordinates that span one, and amplitudes over the noise that are compared.
_LENGTHS = (0.3, 0.8, 2.5)
_AMPLITUDES = np.array([0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0])
# Draws for the simultaneous band, and the most contexts of a draw.
_DRAWS, _MOST_DRAWN = 2000, 400
# Degrees of freedom of the mean variance in that of a context.
_PRIOR_FREEDOM = 16.0
# Log likelihood that a smooth part must add: equal likelihoods mean a constant.
_PENALTY = 2.0
# Jitter of a covariance before its root, of the largest variance.
_JITTER = 1e-9


@dataclass(frozen=True)
class Ratio:
    """A ratio NEW/OLD with its confidence interval.

    Attributes
    ----------
    value, low, high : float
        The ratio, and the ends of its interval [1].
    p_value : float
        Of the hypothesis that the ratio is 1, two-sided.
    error : float
        Standard error of the logarithm of the ratio.
    freedom : float
        Degrees of freedom of `error`.
    """

    value: float
    low: float
    high: float
    p_value: float
    error: float
    freedom: float

    @classmethod
    def of(cls, log_ratio: float, error: float, freedom: float, confidence: float) -> Ratio:
        """Ratio of a normally distributed logarithm with an estimated standard error."""
        half = float(stats.t.ppf(0.5 + confidence / 2, freedom)) * error
        if error > 0:
            p_value = 2 * float(stats.t.sf(abs(log_ratio) / error, freedom))
        else:
            p_value = float(log_ratio == 0)
        value, low, high = np.exp([log_ratio, log_ratio - half, log_ratio + half]).tolist()
        return cls(value, low, high, p_value, error, freedom)

    def as_dict(self) -> dict[str, float]:
        """The ratio, its interval and its p-value as JSON values."""
        return {"ratio": self.value, "low": self.low, "high": self.high, "p_value": self.p_value}

    def detectable(self, confidence: float) -> float:
        """Smallest relative change that would have been found with probability `POWER`."""
        levels = stats.t.ppf([0.5 + confidence / 2, POWER], self.freedom)
        return float(np.expm1(levels.sum() * self.error))


@dataclass(frozen=True, eq=False)
class Differences:
    """Differences of logarithms between both versions, context by context.

    Attributes
    ----------
    contexts : (n, m)
        Levels of the resources.
    value : (n,)
        log NEW − log OLD of the means over runs.
    variance : (n,)
        Variance of `value` that the spread of runs causes.
    freedom : (n,)
        Degrees of freedom of `variance`.
    from_neighbours : bool
        Whether the variance comes from neighbouring contexts, because some version has one run in
        every context.
    """

    contexts: Floats
    value: Floats
    variance: Floats
    freedom: Floats
    from_neighbours: bool

    @classmethod
    def of(cls, contexts: Floats, old: Floats, new: Floats) -> Differences:
        """Differences of positive quantities (n, runs) of both versions; missing runs are NaN.

        Raises
        ------
        MeasurementError
            No run has a sibling, and the contexts are too few to show the noise.
        """
        means, variances, counts = [], [], []
        for values in (old, new):
            n = np.isfinite(values).sum(axis=1)
            mean = np.nansum(values, axis=1) / n
            square = np.nansum((values / mean[:, None] - 1) ** 2, axis=1)
            means.append(mean)
            counts.append(n)
            variances.append(np.divide(square, n - 1, out=np.full(len(n), np.nan), where=n > 1))
        value = np.log(means[1] / means[0])
        for variance, n in zip(variances, counts):
            known = n > 1
            if not known.any():
                spread = _spread_about_plane(contexts, value)
                n_free = max(len(value) - contexts.shape[1] - 1, 1)
                return cls(contexts, value, spread, np.full(len(value), float(n_free)), True)
            # a run without a sibling has the mean variance of the others
            variance[~known] = variance[known].mean()
        parts = np.stack([v / n for v, n in zip(variances, counts)])
        free = np.maximum(np.stack(counts) - 1.0, 1.0)
        total = parts.sum(axis=0)
        freedom = np.where(
            total > 0,
            total**2 / np.maximum((parts**2 / free).sum(axis=0), 1e-300),
            free.sum(axis=0),
        )
        return cls(contexts, value, total, freedom, False)

    def mean(self, weights: Floats, confidence: float) -> Ratio:
        """The ratio over all contexts, with weights (n,) that sum to 1."""
        parts = weights**2 * self.variance
        total = float(parts.sum())
        if self.from_neighbours:
            freedom = float(self.freedom[0])
        else:
            # estimated squares are larger than those of the variances by (f + 2)/f
            squares = float((parts**2 / (self.freedom + 2)).sum())
            freedom = max(total**2 / squares - 2, float(self.freedom.min())) if total > 0 else 1e9
        return Ratio.of(float(weights @ self.value), total**0.5, freedom, confidence)

    def everywhere(
        self, targets: Floats, confidence: float, rng: np.random.Generator
    ) -> tuple[Floats, Floats, Floats]:
        """Ratios of any contexts (q, m), and a band that holds all of them at once.

        A Gaussian process over the contexts: a constant of free size, and a smooth part (Matérn)
        of the length scale and amplitude that the differences make most likely.

        Returns
        -------
        value, low, high : (q,)
            The simultaneous band is value · exp(± z · standard deviation), where z is the quantile
            of the largest deviation of draws from the process.
        """
        names = default_names(self.contexts)
        coordinates = Coordinates.of(names, self.contexts)
        known, asked = coordinates.scaled(self.contexts), coordinates.scaled(targets)
        noise = self._steady_variance()
        scale = float(np.median(noise))
        constant = 100 * (scale + float(np.mean(self.value**2)))
        best = (-np.inf, 0.0, _LENGTHS[0])
        for length in _LENGTHS:
            smooth = _correlation(known, known, length)
            for amplitude in scale * _AMPLITUDES:
                fit = _log_likelihood(self.value, constant + amplitude * smooth + np.diag(noise))
                # a smooth part must be earned: equal likelihoods mean a constant
                best = max(best, (fit - _PENALTY * (amplitude > 0), amplitude, length))
        _, amplitude, length = best
        own = constant + amplitude * _correlation(known, known, length) + np.diag(noise)
        cross = constant + amplitude * _correlation(asked, known, length)
        gain = np.linalg.solve(own, cross.T).T
        mean = gain @ self.value
        variance = constant + amplitude - (gain * cross).sum(axis=1)
        deviation = np.sqrt(np.maximum(variance, 0.0))
        # the process is smooth: the largest deviation of many contexts is that of some of them
        some = rng.permutation(len(asked))[:_MOST_DRAWN]
        prior = constant + amplitude * _correlation(asked[some], asked[some], length)
        root = _root(prior - gain[some] @ cross[some].T)
        draws = np.abs(root @ rng.standard_normal((root.shape[1], _DRAWS)))
        largest = (draws / np.maximum(deviation[some], 1e-300)[:, None]).max(axis=0)
        # the noise itself is an estimate: the draws are those of Student's t
        free = float(self.freedom[0] if self.from_neighbours else self.freedom.sum())
        largest /= np.sqrt(rng.chisquare(free, _DRAWS) / free)
        half = np.quantile(largest, confidence) * deviation
        return np.exp(mean), np.exp(mean - half), np.exp(mean + half)

    def _steady_variance(self) -> Floats:
        """Variances, each shrunk to the mean of all as far as few runs leave it unsure."""
        pooled = float(self.variance.mean())
        own = np.zeros(len(self.value)) if self.from_neighbours else self.freedom
        shrunk = (own * self.variance + _PRIOR_FREEDOM * pooled) / (own + _PRIOR_FREEDOM)
        return np.maximum(shrunk, max(pooled, 1e-300) * 1e-3)


def equal_weights(n: int) -> Floats:
    """Weights of n contexts that count alike, (n,)."""
    return np.full(n, 1.0 / n)


def _spread_about_plane(contexts: Floats, value: Floats) -> Floats:
    """Squared residuals of values (n,) about a plane over the contexts, scaled to its freedom."""
    z = Coordinates.of(default_names(contexts), contexts).scaled(contexts)
    design = np.column_stack([np.ones(len(z)), z[:, np.ptp(z, axis=0) > 0]])
    n_free = len(z) - design.shape[1]
    if n_free < 3:
        raise MeasurementError(
            f"{len(z)} shared contexts with one run each do not show how much runs vary: measure "
            f"two runs in each context, or {design.shape[1] + 3} contexts."
        )
    residual = value - design @ np.linalg.lstsq(design, value, rcond=None)[0]
    return residual**2 * (len(z) / n_free)


def _correlation(z: Floats, other: Floats, length: float) -> Floats:
    """Matérn correlations of scaled coordinates (q, m) and (n, m), (q, n)."""
    steps = z[:, None] - other[None]
    return np.prod(matern(steps, length), axis=2)


def _log_likelihood(value: Floats, covariance: Floats) -> float:
    """Log density of a centred normal vector, without its constant."""
    try:
        lower = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        return -np.inf
    whitened = np.linalg.solve(lower, value)
    return float(-0.5 * whitened @ whitened - np.log(np.diag(lower)).sum())


def _root(covariance: Floats) -> Floats:
    """A root R of a covariance, R Rᵀ, without its negligible directions."""
    values, vectors = np.linalg.eigh(covariance)
    kept = values > _JITTER * max(float(values[-1]), 1e-300)
    return vectors[:, kept] * np.sqrt(values[kept])
