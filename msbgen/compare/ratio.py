"""The ratio of a quantity between two versions of a program: over all contexts, and in each.

With the mean of a quantity over the runs of version v in context c, m_v,c, the logarithm of the
ratio there is d_c = log m_new,c − log m_old,c.  From five runs on, means are trimmed by a fifth on
either side, and Winsorized variances take the place of the runs' variances (Yuen, Biometrika 61,
1974): rare slow runs do not decide.  Runs that were measured in pairs are compared pair by pair.

Variances of contexts are shrunk to a common one, as far as they look alike (Smyth, Stat. Appl.
Genet. Mol. Biol. 3, 2004).  The ratio over all contexts is the exponential of D = Σ w_c δ_c with
d_c = δ_c + noise.  Given weights w are kept: D = Σ w_c d_c.  Without them w is equal, and δ_c
varies between contexts with a variance τ² (random effects): the best linear prediction of D weighs
contexts alike, but those whose noise is far above τ² less, so that they do not decide.  There, the
noise of a context is at least the usual one of its neighbours (`usual.py`): few runs miss modes of
the noise that none of them has (page colourings).

Student's t has Satterthwaite's degrees of freedom, without their bias.  For the same modes, the
quantile of |T| is that with the labels of runs permuted (`permuted.py`), without the usual ratio.
Where a version has a single run in every context, the spread of d_c about a plane over the contexts
is the noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from msbgen.compare.permuted import permuted_runs
from msbgen.compare.usual import usual_noise
from msbgen.core.errors import MeasurementError
from msbgen.trend.coordinates import Coordinates, default_names

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.int64]

# Power of the smallest change that is reported as detectable.
POWER = 0.9
# Share of the runs that is trimmed on either side.
_TRIMMED = 0.2
# Least variance of the true differences between contexts, over the usual noise of one.
_LEAST_APART = 10.0
# Least variance: that of equal runs is rounding.
_LEAST_VARIANCE = 1e-32
# The most degrees of freedom: those of a known variance.
_KNOWN = 1e9
# The least degrees of freedom with which a plane over the contexts shows the noise.
_LEAST_FREE = 3
# The largest confidence whose quantile the permutations show.
_MOST_CONFIDENCE = 0.99
# Logarithms of halves of degrees of freedom, and the trigamma function of these.
_LOG_HALVES = np.linspace(np.log(1e-6), np.log(_KNOWN / 2), 2000)
_TRIGAMMA = special.polygamma(1, np.exp(_LOG_HALVES))


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
        Variance of `value` that the spread of runs causes, shrunk to a common one.
    freedom : (n,)
        Degrees of freedom of the spread of each context's own runs; 0 for a single run.
    added_freedom : float
        Degrees of freedom that the common variance adds to each.
    from_neighbours : bool
        Whether the variance comes from neighbouring contexts, because some version has one run in
        every context.
    runs : (old, new), each (n, runs)
        The quantity in every run; runs of one column are partners if `are_paired`.
    """

    contexts: Floats
    value: Floats
    variance: Floats
    freedom: Floats
    added_freedom: float
    from_neighbours: bool
    runs: tuple[Floats, Floats]
    are_paired: bool

    @classmethod
    def of(
        cls, contexts: Floats, old: Floats, new: Floats, *, are_paired: bool = False
    ) -> Differences:
        """Differences of positive quantities (n, runs) of both versions; missing runs are NaN.

        Runs of both in one column are compared with each other if they `are_paired`.

        Raises
        ------
        MeasurementError
            No run has a sibling, and the contexts are too few to show the noise.
        """
        if are_paired:
            both = np.isfinite(old) & np.isfinite(new)
            old, new = np.where(both, old, np.nan), np.where(both, new, np.nan)
        value, variance, free, added = _differences(old, new, are_paired=are_paired)
        alone = not (free > 0).any()
        if alone:
            variance = _spread_about_plane(contexts, value)
            free = np.full(len(value), float(max(len(value) - contexts.shape[1] - 1, 1)))
        own = 0.0 if alone else float(added)
        return cls(contexts, value, variance, free, own, alone, (old, new), are_paired)

    def mean(self, weights: Floats | None, confidence: float) -> Ratio:
        """The ratio over all contexts, with weights (n,) that sum to 1.

        Without weights, contexts count alike, but noisy ones less.
        """
        if self.from_neighbours or not (self.variance > 0).any():
            gain = equal_weights(len(self.value)) if weights is None else weights
            error = float((gain**2 * self.variance).sum()) ** 0.5
            free = float(self.freedom[0]) if self.from_neighbours else _KNOWN
            return Ratio.of(float(gain @ self.value), error, free, confidence)
        found = self.value, self.variance, self.freedom, np.array(self.added_freedom)
        log_ratio, error, free = (float(part) for part in _pooled(self.contexts, *found, weights))
        error *= self._widening(free, weights, confidence)
        return Ratio.of(log_ratio, error, free, confidence)

    def _widening(self, freedom: float, weights: Floats | None, confidence: float) -> float:
        """Quantile of |T| under permuted labels of runs over that of Student's t."""
        level = min(confidence, _MOST_CONFIDENCE)
        common = np.full(len(self.value), np.median(self.value))
        sizes = []
        for old, new in permuted_runs(
            self.contexts, *self.runs, common, are_paired=self.are_paired
        ):
            found = _differences(old, new, are_paired=self.are_paired)
            log_ratio, error, _ = _pooled(self.contexts, *found, weights)
            sizes.append(np.abs(log_ratio) / np.maximum(error, 1e-300))
        if not sizes:
            return 1.0  # too few runs
        quantile = float(np.quantile(np.concatenate(sizes), level))
        return quantile / float(stats.t.ppf(0.5 + level / 2, freedom))

    def permuted_values(self, shift: Floats) -> Floats:
        """Values (p, n) under permuted labels, without a `shift` (n,); p is 0 for too few runs."""
        draws = permuted_runs(self.contexts, *self.runs, shift, are_paired=self.are_paired)
        found = [_values(*runs, are_paired=self.are_paired) for runs in draws]
        return np.concatenate(found) if found else np.empty((0, len(self.value)))

    def positive_variance(self) -> Floats:
        """Variances (n,), none of which is so small that it decides alone."""
        if self.from_neighbours:
            return np.full(len(self.value), max(float(self.variance.mean()), 1e-300))
        return np.maximum(self.variance, max(float(self.variance.mean()), 1e-300) * 1e-3)


def equal_weights(n: int) -> Floats:
    """Weights of n contexts that count alike, (n,)."""
    return np.full(n, 1.0 / n)


def _differences(
    old: Floats, new: Floats, *, are_paired: bool
) -> tuple[Floats, Floats, Floats, Floats]:
    """Differences of contexts (..., n) from runs (..., n, runs), as in `Differences`.

    Their shrunk variances and degrees of freedom (..., n), and the freedom that is added, (...).
    """
    (centre, first), (other, second) = _relative(old), _relative(new)
    value = np.log(other / centre)
    if are_paired:
        value = value + _trimmed_mean(second - first)
        squares, free = _squared_errors(second - first)
    else:
        parts, frees = zip(*(_squared_errors(part) for part in (first, second)))
        squares, free = _welch(np.stack(parts), np.stack(frees))
    runs = [np.isfinite(values).sum(axis=-1) for values in (old, new)]
    share = 1 / runs[0] + 1 / runs[1]
    shrunk, added = _shrunk_variances(squares / share, free)
    return value, shrunk * share, free, added


def _values(old: Floats, new: Floats, *, are_paired: bool) -> Floats:
    """Differences of contexts (..., n) from runs (..., n, runs)."""
    (centre, first), (other, second) = _relative(old), _relative(new)
    value = np.log(other / centre)
    return value + _trimmed_mean(second - first) if are_paired else value


def _relative(values: Floats) -> tuple[Floats, Floats]:
    """Trimmed means of rows (..., runs), and the runs' relative deviations from them."""
    centre = _trimmed_mean(values)
    return centre, values / centre[..., None] - 1


def _pooled(
    contexts: Floats,
    value: Floats,
    variance: Floats,
    free: Floats,
    added: Floats,
    weights: Floats | None,
) -> tuple[Floats, Floats, Floats]:
    """Mean over contexts, its standard error and degrees of freedom, (...), from (..., n)."""
    own = free
    free = free + added[..., None]
    if weights is not None:
        gain = np.broadcast_to(weights, value.shape)
        extra = np.zeros(value.shape[:-1])
    else:
        even = equal_weights(value.shape[-1])
        noise = np.maximum(variance, usual_noise(contexts, variance, free))
        noise = np.maximum(noise, _LEAST_VARIANCE)
        apart = _heterogeneity(value, noise)[..., None]
        precision = 1 / (apart + noise)
        gain = even * apart * precision
        rest = 1 - gain.sum(axis=-1, keepdims=True)
        gain = gain + rest * precision / precision.sum(axis=-1, keepdims=True)
        extra = apart[..., 0] * ((gain - even) ** 2).sum(axis=-1)
    parts = gain**2 * variance
    total = parts.sum(axis=-1)
    # estimated squares are larger than those of the variances by (f + 2)/f
    known = np.maximum((parts**2 / (free + 2)).sum(axis=-1), 1e-300)
    freedom = np.where(total > 0, total**2 / known - 2, _KNOWN)
    freedom = np.clip(freedom, free.min(axis=-1), own.sum(axis=-1))
    error = np.sqrt(total + extra)
    return (gain * value).sum(axis=-1), error, np.where(total > 0, np.maximum(freedom, 1.0), _KNOWN)


def _heterogeneity(value: Floats, noise: Floats) -> Floats:
    """Variance of the true differences between contexts, (...), from values and noise (..., n).

    DerSimonian and Laird (1986); at least a multiple of the usual noise, which cannot be told from
    it.
    """
    least = _LEAST_APART * np.median(noise, axis=-1)
    n = value.shape[-1]
    if n == 1:
        return least
    precision = 1 / noise
    total = precision.sum(axis=-1)
    centre = (precision * value).sum(axis=-1) / total
    beyond = (precision * (value - centre[..., None]) ** 2).sum(axis=-1) - (n - 1)
    return np.maximum(beyond / (total - (precision**2).sum(axis=-1) / total), least)


def _trimmed_mean(values: Floats) -> Floats:
    """Mean of each row's middle values, (..., runs) -> (...); missing ones are NaN."""
    n, trimmed = _trimmed(values)
    if trimmed.any():
        values = np.where(_kept(values, n, trimmed), np.sort(values, axis=-1), np.nan)
    return np.nansum(values, axis=-1) / (n - 2 * trimmed)


def _trimmed(values: Floats) -> tuple[Indices, Indices]:
    """Number of values in each row, (..., runs) -> (...), and of those trimmed on either side."""
    n = np.isfinite(values).sum(axis=-1)
    return n, (_TRIMMED * n + 1e-9).astype(np.int64)


def _kept(values: Floats, n: Indices, trimmed: Indices) -> Bools:
    """Which values of sorted rows are not trimmed, (..., runs)."""
    place = np.arange(values.shape[-1])
    return (place >= trimmed[..., None]) & (place < (n - trimmed)[..., None])


def _squared_errors(values: Floats) -> tuple[Floats, Floats]:
    """Squared standard errors of trimmed means of rows (..., runs), and degrees of freedom."""
    n, trimmed = _trimmed(values)
    if trimmed.any():
        ordered = np.sort(values, axis=-1)
        low = np.take_along_axis(ordered, trimmed[..., None], axis=-1)
        high = np.take_along_axis(ordered, (n - 1 - trimmed)[..., None], axis=-1)
        values = np.clip(ordered, low, high)
    mean = np.nansum(values, axis=-1) / n
    square = np.nansum((values - mean[..., None]) ** 2, axis=-1)
    held = n - 2.0 * trimmed
    return square / np.maximum(held * (held - 1.0), 1.0), held - 1.0


def _welch(squares: Floats, free: Floats) -> tuple[Floats, Floats]:
    """Squared errors of differences from those of both parts (2, ...), and degrees of freedom."""
    total = squares.sum(axis=0)
    known = np.maximum((squares**2 / np.maximum(free, 1.0)).sum(axis=0), 1e-300)
    freedom = np.where(total > 0, total**2 / known, free.sum(axis=0))
    return total, np.where((free > 0).all(axis=0), freedom, 0.0)


def _shrunk_variances(variance: Floats, free: Floats) -> tuple[Floats, Floats]:
    """Variances (..., n) with degrees of freedom (..., n), shrunk to a common one.

    They are shrunk as far as they look alike: the true ones are taken to be a common one over
    χ²(a)/a, where a is matched to the spread of the logarithms; a is returned, too, (...).
    """
    seen = (free > 0) & (variance > 0)
    n = seen.sum(axis=-1)
    half = np.where(seen, free, 2.0) / 2
    logs = np.log(np.where(seen, variance, 1.0)) - special.digamma(half) + np.log(half)
    usual = np.where(seen, logs, 0.0).sum(axis=-1) / np.maximum(n, 1)
    square = np.where(seen, (logs - usual[..., None]) ** 2, 0.0).sum(axis=-1)
    expected = np.where(seen, special.polygamma(1, half), 0.0).sum(axis=-1) / np.maximum(n, 1)
    beyond = square / np.maximum(n - 1, 1) - expected
    alike = beyond <= _TRIGAMMA[-1]
    # trigamma falls with its argument
    log_half = np.interp(-np.log(np.maximum(beyond, 1e-300)), -np.log(_TRIGAMMA), _LOG_HALVES)
    added = np.where(alike, _KNOWN, 2 * np.exp(log_half))
    added = np.where(n > 1, added, 0.0)
    plain = np.where(seen, variance * half, 0.0).sum(axis=-1) / np.maximum(
        np.where(seen, half, 0.0).sum(axis=-1), 1e-300
    )
    a = np.maximum(added, 1e-6) / 2
    common = np.where(alike | (n < 2), plain, np.exp(usual + special.digamma(a) - np.log(a)))
    added, common = added[..., None], common[..., None]
    total = np.where(free + added > 0, free + added, 1.0)
    shrunk = (np.where(seen, free * variance, 0.0) + added * common) / total
    found = np.where(free + added > 0, shrunk, common)
    return np.where(n[..., None] > 0, found, 0.0), added[..., 0]


def shows_noise(contexts: Floats, old: Floats, new: Floats) -> bool:
    """Whether runs (n, runs) of both versions in contexts (n, m) show how much runs vary."""
    several = [np.isfinite(part).sum(axis=1) > 1 for part in (old, new)]
    return bool(np.all(several, axis=0).any()) or _free_of_plane(contexts) >= _LEAST_FREE


def _free_of_plane(contexts: Floats) -> int:
    """Degrees of freedom that a plane over contexts (n, m) leaves."""
    return len(contexts) - 1 - int((np.ptp(contexts, axis=0) > 0).sum())


def _spread_about_plane(contexts: Floats, value: Floats) -> Floats:
    """Squared residuals of values (n,) about a plane over the contexts, scaled to its freedom."""
    z = Coordinates.of(default_names(contexts), contexts).scaled(contexts)
    design = np.column_stack([np.ones(len(z)), z[:, np.ptp(z, axis=0) > 0]])
    n_free = _free_of_plane(contexts)
    if n_free < _LEAST_FREE:
        raise MeasurementError(
            f"{len(z)} shared contexts with one run each do not show how much runs vary: measure "
            f"two runs in each context, or {design.shape[1] + _LEAST_FREE} contexts."
        )
    residual = value - design @ np.linalg.lstsq(design, value, rcond=None)[0]
    return residual**2 * (len(z) / n_free)
