"""The ratio of a quantity between two versions in each context, and a band that holds all at once.

Gaussian processes over the contexts predict the logarithm of NEW/OLD: a constant of free size, and
in all but one of them a smooth part (Matérn) of some length scale and amplitude.  The predictions
are averaged by the probabilities of the processes, of which the constant has one half before the
differences are seen: small differences between contexts that the runs cannot exclude widen the
band.  The noise of a context is that of its runs with their labels permuted, and the band is as
wide as the largest deviation of draws from the processes, and as that of permuted runs.  Where
contexts are many, the differences of neighbours are averaged first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.answers.compare.ratio import Differences
from msbgen.answers.compare.usual import PRIOR_FREEDOM, mean_by_side, sides
from msbgen.answers.compare.variances import shrink
from msbgen.core.contexts import MOST_EXACT, are_many, representative_contexts
from msbgen.core.gaussian_process import SeenCovariance
from msbgen.engine.trend.coordinates import Coordinates, default_names
from msbgen.engine.trend.covariance import matern

Floats = NDArray[np.float64]
# Correlations of the smooth part between contexts, (q, n), by its length scale.
Correlations = Mapping[float, Floats]

# Length scales, of coordinates that span one, and amplitudes over the noise that are compared.
_LENGTHS = (0.3, 0.8, 2.5)
_AMPLITUDES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
# Contexts whose ratios are predicted at a time.
_AT_ONCE = 5000
# Draws for the simultaneous band, and the most contexts of a draw.
_DRAWS, _MOST_DRAWN = 2000, 400
# Processes of a smaller probability are left out.
_LEAST_PROBABLE = 1e-3
# Least variance of the constant: equal versions differ by rounding alone.
_LEAST_VARIANCE = 1e-20
# Jitter of a covariance before its root, of the largest variance.
_JITTER = 1e-9


def ratios_everywhere(
    differences: Differences, targets: Floats, confidence: float, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Ratios of any contexts (q, m), and a band that holds all of them at once.

    Returns
    -------
    value, low, high : (q,)
        The simultaneous band is value · exp(± z · standard deviation), where z is the quantile of
        the largest deviation.
    """
    names = default_names(differences.contexts)
    coordinates = Coordinates.of(names, differences.contexts)
    known, asked = coordinates.scaled(differences.contexts), coordinates.scaled(targets)
    noise = _steady(differences, differences.positive_variance())
    joined = _joined(differences.contexts, known, noise)
    places, value = joined @ known, joined @ differences.value
    among_known = _correlations(places, places)
    processes = _processes(among_known, value, joined**2 @ noise)
    weights = _probabilities(processes, value[None])
    usual = _averaged_at(known, processes, weights, places, value[None])[0][0]
    permuted = differences.permuted_values(usual)
    if len(permuted) and not differences.from_neighbours:
        # labels do not change this noise: versions whose runs are in one mode each have it, too
        noise = _steady(differences, (permuted**2).mean(axis=0))
        processes = _processes(among_known, value, joined**2 @ noise)
        weights = _probabilities(processes, value[None])
    found = _averaged_at(asked, processes, weights, places, value[None])
    mean, deviation = (part[0] for part in found)
    # the process is smooth: the largest deviation of many contexts is that of some of them
    some = rng.permutation(len(asked))[:_MOST_DRAWN]
    to_some = _correlations(places, asked[some])
    among_some = _correlations(asked[some], asked[some])
    centre, scale = mean[some], np.maximum(deviation[some], 1e-300)
    largest = []
    for process, number in zip(processes, rng.multinomial(_DRAWS, weights[0])):
        if number:
            drawn = process.draws(to_some, among_some, value, number, rng) - centre
            largest.append((np.abs(drawn) / scale).max(axis=1))
    sizes = np.concatenate(largest)
    if len(permuted):
        permuted = permuted @ joined.T
        of_each = _probabilities(processes, permuted)
        apart, spread = _averaged(processes, of_each, to_some, permuted)
        deviations = (np.abs(apart) / np.maximum(spread, 1e-300)).max(axis=1)
        z = max(float(np.quantile(part, confidence)) for part in (sizes, deviations))
    else:
        # the noise itself is an estimate: the draws are those of Student's t
        free = float(
            differences.freedom[0] if differences.from_neighbours else differences.freedom.sum()
        )
        sizes = sizes / np.sqrt(rng.chisquare(free, len(sizes)) / free)
        z = float(np.quantile(sizes, confidence))
    half = z * deviation
    return np.exp(mean), np.exp(mean - half), np.exp(mean + half)


def _joined(contexts: Floats, scaled: Floats, noise: Floats) -> Floats:
    """Weights (groups, n) of the contexts of each group, which sum to 1.

    Each of a few contexts is a group.  Many are grouped with the nearest of some of them, and
    weighed by their precision.
    """
    if not are_many(contexts):
        return np.eye(len(contexts))
    from scipy.spatial import KDTree  # imported here, as few comparisons need it

    centres = representative_contexts(contexts, MOST_EXACT)
    group = KDTree(scaled[centres]).query(scaled)[1]
    weights = np.where(group == np.arange(len(centres))[:, None], 1.0 / noise, 0.0)
    return weights / weights.sum(axis=1, keepdims=True)


def _steady(differences: Differences, noise: Floats) -> Floats:
    """Variances (n,) shrunk to the usual ones: few runs leave each of them unsure."""
    freedom = np.zeros(len(noise)) if differences.from_neighbours else differences.freedom
    side = sides(differences.contexts, differences.positive_variance(), freedom)
    usual = mean_by_side(noise, np.ones(len(noise)), side)
    return shrink(noise, freedom, usual, PRIOR_FREEDOM)


@dataclass(frozen=True, eq=False)
class _Process:
    """A constant of variance `constant` and a smooth part, seen with noise in n contexts."""

    constant: float
    amplitude: float
    length: float
    seen: SeenCovariance
    log_prior: float

    def log_likelihoods(self, values: Floats) -> Floats:
        """Log densities of rows (p, n) without their constant, plus the prior's logarithm."""
        square = (self.seen.whitened(values.T) ** 2).sum(axis=0)
        return self.log_prior - self.seen.half_log_determinant - 0.5 * square

    def covariance(self, correlations: Correlations) -> Floats:
        """Covariance of contexts with these correlations of the smooth part."""
        return self.constant + self.amplitude * correlations[self.length]

    def gain(self, to_asked: Correlations) -> tuple[Floats, Floats]:
        """Whitened covariance of the seen contexts with others, (n, q), and weights (q, n)."""
        covariance = self.covariance(to_asked)
        return self.seen.whitened(covariance), self.seen.weights(covariance).T

    def draws(
        self,
        to_asked: Correlations,
        among_asked: Correlations,
        value: Floats,
        number: int,
        rng: np.random.Generator,
    ) -> Floats:
        """Draws of other contexts where `value` (n,) was seen, (number, q)."""
        cross, gain = self.gain(to_asked)
        root = _root(self.covariance(among_asked) - cross.T @ cross)
        return gain @ value + rng.standard_normal((number, root.shape[1])) @ root.T


def _processes(among_known: Correlations, value: Floats, noise: Floats) -> list[_Process]:
    """Processes that differences (n,) with variances `noise` do not exclude."""
    scale = float(np.median(noise))
    constant = max(100 * (scale + float(np.mean(value**2))), _LEAST_VARIANCE)
    noise = np.maximum(noise, 1e-12 * constant)  # else equal runs make a singular matrix
    n_smooth = len(_LENGTHS) * len(_AMPLITUDES)
    options = [(0.0, _LENGTHS[0], 0.0)]
    options += [(scale * a, c, -np.log(n_smooth)) for c in _LENGTHS for a in _AMPLITUDES]
    out = []
    for amplitude, length, log_prior in options:
        covariance = constant + amplitude * among_known[length] + np.diag(noise)
        try:
            seen = SeenCovariance.of(covariance)
        except np.linalg.LinAlgError:
            continue
        out.append(_Process(constant, amplitude, length, seen, log_prior))
    weights = _probabilities(out, value[None])[0]
    return [process for process, w in zip(out, weights) if w >= _LEAST_PROBABLE]


def _probabilities(processes: Sequence[_Process], values: Floats) -> Floats:
    """Probabilities of the processes for rows (p, n), (p, processes)."""
    logs = np.stack([process.log_likelihoods(values) for process in processes], axis=1)
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def _averaged(
    processes: Sequence[_Process], weights: Floats, to_asked: Correlations, values: Floats
) -> tuple[Floats, Floats]:
    """Means and standard deviations in other contexts for rows (p, n), each (p, q)."""
    mean = square = np.zeros(())
    for process, weight in zip(processes, weights.T[..., None]):
        cross, gain = process.gain(to_asked)
        variance = process.constant + process.amplitude - (cross**2).sum(axis=0)
        predicted = values @ gain.T
        mean = mean + weight * predicted
        square = square + weight * (np.maximum(variance, 0.0) + predicted**2)
    return mean, np.sqrt(np.maximum(square - mean**2, 0.0))


def _averaged_at(
    asked: Floats, processes: Sequence[_Process], weights: Floats, places: Floats, values: Floats
) -> tuple[Floats, Floats]:
    """As :func:`_averaged`, at scaled coordinates (q, m) where rows (p, n) are at `places`."""
    parts = [
        _averaged(processes, weights, _correlations(places, block), values)
        for block in np.array_split(asked, -(-len(asked) // _AT_ONCE))
    ]
    mean, deviation = (np.concatenate(part, axis=1) for part in zip(*parts))
    return mean, deviation


def _correlations(z: Floats, other: Floats) -> Correlations:
    """Matérn correlations of scaled coordinates (q, m) and (n, m), (q, n) by length scale."""
    steps = z[:, None] - other[None]
    return {length: matern(steps, length).prod(axis=2) for length in _LENGTHS}


def _root(covariance: Floats) -> Floats:
    """A root R of a covariance, R Rᵀ, without its negligible directions."""
    values, vectors = np.linalg.eigh(covariance)
    kept = values > _JITTER * max(float(values[-1]), 1e-300)
    return vectors[:, kept] * np.sqrt(values[kept])
