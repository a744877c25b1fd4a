"""The ratio of a quantity between two versions of a program: over all contexts, and in each.

With the mean of a quantity over the runs of version v in context c, m_v,c, the logarithm of the
ratio there is d_c = log m_new,c − log m_old,c.  From five runs on, means are trimmed by a fifth on
either side, and Winsorized variances take the place of the runs' variances (Yuen, Biometrika 61,
1974): rare slow runs do not decide.  Runs that were measured in pairs are compared pair by pair.

Variances of contexts are shrunk to a common one, as far as they look alike (Smyth, Stat. Appl.
Genet. Mol. Biol. 3, 2004).  The ratio over all contexts is the exponential of D = Σ w_c δ_c with
d_c = δ_c + noise.  Given weights w are kept: D = Σ w_c d_c.  Without them w is equal, and δ_c
varies between contexts with a variance τ² (random effects): the best linear prediction of D weighs
contexts alike, but those whose noise is far above τ² less, so that they do not decide.

Student's t has Satterthwaite's degrees of freedom, without their bias.  Where a version has a
single run in every context, the spread of d_c about a plane over the contexts is the noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from msbgen.core.errors import MeasurementError
from msbgen.trend.coordinates import Coordinates, default_names
from msbgen.trend.covariance import matern

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.int64]

# Power of the smallest change that is reported as detectable.
POWER = 0.9
# Share of the runs that is trimmed on either side.
_TRIMMED = 0.2
# Degrees of freedom of the mean variance in that of a context, for the band.
_PRIOR_FREEDOM = 16.0
# Length scales, of coordinates that span one, and amplitudes over the noise that are compared.
_LENGTHS = (0.3, 0.8, 2.5)
_AMPLITUDES = np.array([0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0])
# Least variance of the true differences between contexts, over the usual noise of one.
_LEAST_APART = 3.0
# Draws for the simultaneous band, and the most contexts of a draw.
_DRAWS, _MOST_DRAWN = 2000, 400
# Log likelihood that a smooth part of the band must add: equal likelihoods mean a constant.
_PENALTY = 2.0
# Jitter of a covariance before its root, of the largest variance.
_JITTER = 1e-9
# The most degrees of freedom: those of a known variance.
_KNOWN = 1e9
# Permutations of runs, the fewest that runs must have, the values of a block of them [1], and the
# largest confidence whose quantile they show.
_PERMUTATIONS, _FEWEST_PERMUTATIONS, _BLOCK = 999, 1000, 500_000
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
        log_ratio, error, free = (
            float(part)
            for part in _pooled(
                self.value, self.variance, self.freedom, np.array(self.added_freedom), weights
            )
        )
        error *= self._widening(log_ratio, free, weights, confidence)
        return Ratio.of(log_ratio, error, free, confidence)

    def _widening(
        self, log_ratio: float, freedom: float, weights: Floats | None, confidence: float
    ) -> float:
        """Quantile of |T| under permuted labels of runs over that of Student's t; 1 if few."""
        level = min(confidence, _MOST_CONFIDENCE)
        sizes = _permuted_sizes(self, log_ratio, weights)
        if not len(sizes):
            return 1.0
        return float(np.quantile(sizes, level) / stats.t.ppf(0.5 + level / 2, freedom))

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
        noise = np.maximum(noise, 1e-12 * constant)  # else equal runs make a singular matrix
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

    def _positive_variance(self) -> Floats:
        """Variances (n,), none of which is so small that it decides alone."""
        if self.from_neighbours:
            return np.full(len(self.value), max(float(self.variance.mean()), 1e-300))
        return np.maximum(self.variance, max(float(self.variance.mean()), 1e-300) * 1e-3)

    def _steady_variance(self) -> Floats:
        """Variances shrunk further to their mean, as few runs leave them unsure in each context."""
        noise = self._positive_variance()
        own = np.zeros(len(noise)) if self.from_neighbours else self.freedom
        return (own * noise + _PRIOR_FREEDOM * noise.mean()) / (own + _PRIOR_FREEDOM)


def equal_weights(n: int) -> Floats:
    """Weights of n contexts that count alike, (n,)."""
    return np.full(n, 1.0 / n)


def _differences(
    old: Floats, new: Floats, *, are_paired: bool
) -> tuple[Floats, Floats, Floats, Floats]:
    """Differences of contexts (..., n) from runs (..., n, runs), as in `Differences`.

    Their shrunk variances and degrees of freedom (..., n), and the freedom that is added, (...).
    """
    centres = [_trimmed_mean(values) for values in (old, new)]
    first, second = (
        values / centre[..., None] - 1 for values, centre in zip((old, new), centres)
    )
    value = np.log(centres[1] / centres[0])
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


def _pooled(
    value: Floats, variance: Floats, free: Floats, added: Floats, weights: Floats | None
) -> tuple[Floats, Floats, Floats]:
    """Mean over contexts, its standard error and degrees of freedom, (...), from (..., n)."""
    own = free
    free = free + added[..., None]
    if weights is not None:
        gain = np.broadcast_to(weights, value.shape)
        parts = gain**2 * variance
        extra = np.zeros(value.shape[:-1])
    else:
        even = equal_weights(value.shape[-1])
        least = np.maximum(variance.mean(axis=-1, keepdims=True), 1e-300) * 1e-3
        noise = np.maximum(variance, least)
        apart = _heterogeneity(value, noise)[..., None]
        precision = 1 / (apart + noise)
        gain = even * apart * precision
        rest = 1 - gain.sum(axis=-1, keepdims=True)
        gain = gain + rest * precision / precision.sum(axis=-1, keepdims=True)
        # gains are larger where the noise was estimated too small (Meier, 1953)
        parts = gain**2 * noise * (1 + 4 * noise * precision * (1 - gain) / np.maximum(free, 1.0))
        extra = apart[..., 0] * ((gain - even) ** 2).sum(axis=-1)
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


def _permuted_sizes(differences: Differences, log_ratio: float, weights: Floats | None) -> Floats:
    """Absolute T of both versions without their common difference, with labels permuted.

    Labels are permuted within contexts, or exchanged within pairs.  Empty where the runs have few
    permutations.  The order of contexts and runs, and which version is the new one, do not matter.
    """
    order = np.lexsort(differences.contexts.T)
    old, new = (np.asarray(runs)[order] for runs in differences.runs)
    new = new / np.exp(np.median(differences.value))
    counts = [np.isfinite(part).sum(axis=1) for part in (old, new)]
    if differences.are_paired:
        logs = counts[0] * np.log(2.0)
        by_size = np.argsort(np.abs(np.log(new / old)), axis=1)
        old, new = (np.take_along_axis(part, by_size, axis=1) for part in (old, new))
    else:
        both = counts[0] + counts[1]
        logs = (
            special.gammaln(both + 1)
            - special.gammaln(counts[0] + 1)
            - special.gammaln(counts[1] + 1)
        )
    if len(old) < 2 or logs.sum() < np.log(_FEWEST_PERMUTATIONS):
        return np.empty(0)
    weights = None if weights is None else weights[order]
    rng = np.random.default_rng(0)  # equal runs have equal intervals
    out: list[Floats] = []
    block = max(_BLOCK // (old.size + new.size), 1)
    for first in range(0, _PERMUTATIONS, block):
        n = min(block, _PERMUTATIONS - first)
        if differences.are_paired:
            flip = rng.integers(2, size=(n, *old.shape)).astype(bool)
            drawn = np.where(flip, new, old), np.where(flip, old, new)
        else:
            drawn = _relabelled(old, new, np.minimum(*counts), n, rng)
        found = _differences(*drawn, are_paired=differences.are_paired)
        value, error, _ = _pooled(*found, weights)
        out.append(np.abs(value) / np.maximum(error, 1e-300))
    return np.concatenate(out)


def _relabelled(
    old: Floats, new: Floats, fewer: Indices, number: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Runs (number, n, runs) of two versions, drawn from those of both in each context."""
    together = np.sort(np.concatenate([old, new], axis=1), axis=1)
    keys = rng.random((number, *together.shape))
    keys[:, ~np.isfinite(together)] = 2.0
    drawn = np.take_along_axis(
        np.broadcast_to(together, keys.shape), np.argsort(keys, axis=2), axis=2
    )
    is_first = np.arange(together.shape[1]) < fewer[:, None]
    return np.where(is_first, drawn, np.nan), np.where(is_first, np.nan, drawn)


def _trimmed_mean(values: Floats) -> Floats:
    """Mean of each row's middle values, (..., runs) -> (...); missing ones are NaN."""
    _, kept = _middle(values)
    return np.where(kept, np.sort(values, axis=-1), 0.0).sum(axis=-1) / kept.sum(axis=-1)


def _middle(values: Floats) -> tuple[Indices, Bools]:
    """Number of trimmed values on either side, (...), and which of the sorted ones are kept."""
    n = np.isfinite(values).sum(axis=-1)
    trimmed = (_TRIMMED * n + 1e-9).astype(np.int64)
    place = np.arange(values.shape[-1])
    return trimmed, (place >= trimmed[..., None]) & (place < (n - trimmed)[..., None])


def _squared_errors(values: Floats) -> tuple[Floats, Floats]:
    """Squared standard errors of trimmed means of rows (..., runs), and degrees of freedom."""
    trimmed, kept = _middle(values)
    ordered, n = np.sort(values, axis=-1), np.isfinite(values).sum(axis=-1)
    low = np.take_along_axis(ordered, trimmed[..., None], axis=-1)
    high = np.take_along_axis(ordered, (n - 1 - trimmed)[..., None], axis=-1)
    winsorized = np.clip(ordered, low, high)
    mean = np.nansum(winsorized, axis=-1) / n
    square = np.nansum((winsorized - mean[..., None]) ** 2, axis=-1)
    held = kept.sum(axis=-1)
    return square / np.maximum(held * (held - 1.0), 1.0), held - 1.0


def _welch(squares: Floats, free: Floats) -> tuple[Floats, Floats]:
    """Squared errors of differences from those of both parts (2, ...), and degrees of freedom."""
    total = squares.sum(axis=0)
    known = np.maximum((squares**2 / np.maximum(free, 1.0)).sum(axis=0), 1e-300)
    freedom = np.where(total > 0, total**2 / known, free.sum(axis=0))
    return total, np.where((free > 0).all(axis=0), freedom, 0.0)


def _shrunk_variances(variance: Floats, free: Floats) -> tuple[Floats, Floats]:
    """Variances (..., n) with degrees of freedom (..., n), shrunk to a common one if they look alike.

    The true variances are taken to be a common one over χ²(a)/a, where a is matched to the spread
    of the logarithms; a is returned, too, (...).
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
