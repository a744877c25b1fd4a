"""The ratio of a quantity between two versions of a program, over all contexts and in each.

With the mean of a quantity over the runs of version v in context c, m_v,c, the logarithm of the
ratio there is d_c = log m_new,c − log m_old,c.  Means are trimmed (`trimmed.py`).  Runs that were
measured in pairs are compared pair by pair.  Variances of contexts are shrunk to a common one, as
far as they look alike (`variances.py`).  The ratio over all contexts is the exponential of their
mean (`pooled.py`).

Its quantile of Student's |t| is that with the labels of runs permuted (`permuted.py`), without the
usual ratio: the runs of a context may be in few modes.  Where a version has a single run in every
context, the spread of d_c about a plane over the contexts is the noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from msbgen.answers.compare.permuted import permuted_runs
from msbgen.answers.compare.pooled import equal_weights, pool
from msbgen.answers.compare.trimmed import difference_errors, squared_errors, trimmed_mean
from msbgen.answers.compare.variances import KNOWN, shrink_alike
from msbgen.core.errors import MeasurementError
from msbgen.engine.trend.coordinates import Coordinates, default_names

Floats = NDArray[np.float64]

# Power of the smallest change that is reported as detectable.
POWER = 0.9
# The least degrees of freedom with which a plane over the contexts shows the noise.
_LEAST_FREE = 3
# The largest confidence whose quantile the permutations show.
_MOST_CONFIDENCE = 0.99


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
        half = float(special.stdtrit(freedom, 0.5 + confidence / 2)) * error
        if error > 0:
            p_value = 2 * float(special.stdtr(freedom, -abs(log_ratio) / error))
        else:
            p_value = float(log_ratio == 0)
        value, low, high = np.exp([log_ratio, log_ratio - half, log_ratio + half]).tolist()
        return cls(value, low, high, p_value, error, freedom)

    def as_dict(self) -> dict[str, float]:
        """The ratio, its interval and its p-value as JSON values."""
        return {"ratio": self.value, "low": self.low, "high": self.high, "p_value": self.p_value}

    def detectable(self, confidence: float) -> float:
        """Smallest relative change that would have been found with probability `POWER`."""
        return float(np.expm1(detectable_log(self.error, self.freedom, confidence)))


def detectable_log(error: float, freedom: float, confidence: float) -> float:
    """Smallest |log NEW/OLD| that is found with probability `POWER`, by its standard error."""
    levels = special.stdtrit(freedom, [0.5 + confidence / 2, POWER])
    return float(levels.sum() * error)


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
        Degrees of freedom of the spread of each context's runs; 0 for a single run.
    added_freedom : float
        Degrees of freedom that the common variance adds to each.
    from_neighbours : bool
        Whether the variance comes from neighbouring contexts, because some version has one run in
        every context.
    runs : (old, new), each (n, runs)
        The quantity in every run; runs of one column are partners if `are_paired`.
    are_paired : bool
        Whether runs of both versions are compared in pairs that were measured one after the other.
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
        value, variance, free, added = differences_of(old, new, are_paired=are_paired)
        alone = not (free > 0).any()
        if alone:
            variance = _spread_about_plane(contexts, value)
            free = np.full(len(value), float(_free_of_plane(contexts)))
            added = np.zeros(())
        return cls(contexts, value, variance, free, float(added), alone, (old, new), are_paired)

    def mean(self, weights: Floats | None, confidence: float) -> Ratio:
        """The ratio over all contexts, with weights (n,) that sum to 1.

        Without weights, contexts count alike, but noisy ones less.
        """
        if self.from_neighbours or not (self.variance > 0).any():
            gain = equal_weights(len(self.value)) if weights is None else weights
            error = float((gain**2 * self.variance).sum()) ** 0.5
            free = float(self.freedom[0]) if self.from_neighbours else KNOWN
            return Ratio.of(float(gain @ self.value), error, free, confidence)
        found = self.value, self.variance, self.freedom, np.array(self.added_freedom)
        pooled = pool(self.contexts, *found, weights)
        free = float(pooled.freedom)
        error = float(pooled.error) * self._widening(free, weights, confidence)
        return Ratio.of(float(pooled.value), error, free, confidence)

    def _widening(self, freedom: float, weights: Floats | None, confidence: float) -> float:
        """Quantile of |T| under permuted labels of runs over that of Student's t."""
        level = min(confidence, _MOST_CONFIDENCE)
        common = np.full(len(self.value), np.median(self.value))
        sizes = []
        for old, new in permuted_runs(
            self.contexts, *self.runs, common, are_paired=self.are_paired
        ):
            found = differences_of(old, new, are_paired=self.are_paired)
            pooled = pool(self.contexts, *found, weights)
            sizes.append(np.abs(pooled.value) / np.maximum(pooled.error, 1e-300))
        if not sizes:
            return 1.0  # too few runs
        quantile = float(np.quantile(np.concatenate(sizes), level))
        return quantile / float(special.stdtrit(freedom, 0.5 + level / 2))

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


def differences_of(
    old: Floats, new: Floats, *, are_paired: bool
) -> tuple[Floats, Floats, Floats, Floats]:
    """Differences of contexts (..., n) from runs (..., n, runs), as in `Differences`.

    Their shrunk variances and degrees of freedom (..., n), and the freedom that is added, (...).
    """
    (centre, first), (other, second) = _relative(old), _relative(new)
    value = np.log(other / centre)
    if are_paired:
        value = value + trimmed_mean(second - first)
        squares, free = squared_errors(second - first)
    else:
        parts, frees = zip(*(squared_errors(part) for part in (first, second)))
        squares, free = difference_errors(np.stack(parts), np.stack(frees))
    runs = [np.isfinite(values).sum(axis=-1) for values in (old, new)]
    share = 1 / runs[0] + 1 / runs[1]
    shrunk, added = shrink_alike(squares / share, free)
    return value, shrunk * share, free, added


def _values(old: Floats, new: Floats, *, are_paired: bool) -> Floats:
    """Differences of contexts (..., n) from runs (..., n, runs)."""
    (centre, first), (other, second) = _relative(old), _relative(new)
    value = np.log(other / centre)
    return value + trimmed_mean(second - first) if are_paired else value


def _relative(values: Floats) -> tuple[Floats, Floats]:
    """Trimmed means of rows (..., runs), and the runs' relative deviations from them."""
    centre = trimmed_mean(values)
    return centre, values / centre[..., None] - 1


def ratio_of_amounts(
    contexts: Floats,
    old: Floats,
    new: Floats,
    *,
    weights: Floats | None,
    confidence: float,
    are_paired: bool,
) -> Ratio | None:
    """Ratio of amounts (n, runs), over the contexts in which no run of them is 0.

    None without such contexts, or if their runs do not show the noise.  `weights` (n,) are those of
    all contexts.
    """
    held = [np.isfinite(part) for part in (old, new)]
    if are_paired:
        held = [held[0] & held[1]] * 2
    above = [(np.where(one, part, 1.0) > 0).all(axis=1) for one, part in zip(held, (old, new))]
    rows = np.all([one.any(axis=1) for one in held] + above, axis=0)
    known = contexts[rows], old[rows], new[rows]
    if not rows.any() or not shows_noise(*known):
        return None
    shares = None if weights is None else weights[rows] / weights[rows].sum()
    return Differences.of(*known, are_paired=are_paired).mean(shares, confidence)


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
            f"one version has a single run in each shared context, and {len(z)} contexts do not "
            f"show how much runs vary: measure two runs of both versions in each context, or "
            f"{design.shape[1] + _LEAST_FREE} contexts."
        )
    residual = value - design @ np.linalg.lstsq(design, value, rcond=None)[0]
    return residual**2 * (len(z) / n_free)
