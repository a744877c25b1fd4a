"""The bridge at one context: a cloud of atoms between two snapshots, weighted by a kernel in β.

Between two snapshots with coupling Γ the bridge is a cloud of atoms λ·(ξ_r, β_r) + (1−λ)·(ξ_s, β_s)
of mass Γ[r, s].  Given a context β, atom (r, s) has the weight Γ[r, s]·κ(β − λβ_r − (1−λ)β_s), with
a Gaussian κ (the paper's KDE alignment, Section III-C).

Points of one context share κ.  So everything but the atoms is computed on the coupling summed over
pairs of distinct contexts, and no n² atoms are stored.  Contexts are divided by the kernel's
bandwidth, so that κ(β) = exp(−|β|²/2).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.core.contexts import in_tiles, squared_distances
from msbgen.core.errors import ArgumentError
from msbgen.core.lazy import lazy_module

_kernels = lazy_module("msbgen.engine.bridge._kernels")

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Largest logarithm of a factor of a kernel weight: the product of two must not overflow.
LARGEST_EXPONENT = 300.0


@dataclass(frozen=True, eq=False)
class Segment:
    """The bridge between two neighbouring snapshots, summed over pairs of distinct contexts."""

    points: tuple[Floats, Floats]  # (n, d) and (m, d): scaled; the cost is the squared distance
    potentials: tuple[Floats, Floats]  # (n,) and (m,): f and g of exp((f + g − |x − y|²)/ε)
    epsilon: float
    values: tuple[Floats, Floats]  # (n, k) and (m, k): states in the coordinates to mix them in
    known: Floats  # (n_known, n_resources): distinct contexts, divided by the bandwidth
    first: tuple[Indices, Indices]  # (n_known + 1,): context c has points first[c]:first[c + 1]
    mass: Floats  # (n_known, n_known): coupling summed over the points of two contexts
    moments: Floats  # (2, k, n_known, n_known): that sum weighted by the values at start and end
    peak: Floats  # (3, n_known, n_known): largest log Γ of a block, and its points r and s


def make_segment(
    points: tuple[Floats, Floats],
    potentials: tuple[Floats, Floats],
    epsilon: float,
    values: tuple[Floats, Floats],
    labels: tuple[Indices, Indices],
    known: Floats,
) -> Segment:
    """The coupling of two snapshots, summed over the pairs of distinct contexts.

    Other arguments are as in :class:`Segment`; `labels` are the rows of `known` of each point, (n,)
    and (m,).  ArgumentError where they decrease.  O(n·m·(d + k)) time, O(n_known²·k) memory.
    """
    for name, column in zip(("start", "end"), labels):
        if np.any(np.diff(column) < 0):
            raise ArgumentError(f"labels decrease at the {name}; sorted ones are wanted.")
    n_known, k = len(known), values[0].shape[1]
    mass = np.empty((n_known, n_known))
    moments = np.empty((2, k, n_known, n_known))
    peak = np.empty((3, n_known, n_known))
    start, end = (np.ascontiguousarray(v, dtype=float) for v in values)
    _kernels.aggregate_coupling(
        *points, *potentials, epsilon, *labels, start, end, mass, moments, peak
    )
    blocks = np.arange(n_known + 1)
    first = (np.searchsorted(labels[0], blocks), np.searchsorted(labels[1], blocks))
    known = np.ascontiguousarray(known, dtype=float)
    return Segment(points, potentials, epsilon, (start, end), known, first, mass, moments, peak)


def conditional_mean(segment: Segment, lam: float, query: Floats) -> tuple[Floats, Floats]:
    """Mean of the conditional cloud (n_query, k), and the log of its unnormalised mass (n_query,).

    `lam` is the share of the first snapshot, (τ_{j+1} − τ)/(τ_{j+1} − τ_j); `query` (n_query,
    n_resources) are contexts divided by the bandwidth.
    """
    mean = np.empty((len(query), segment.values[0].shape[1]))
    log_density = np.empty(len(query))
    mixed = lam * segment.moments[0] + (1 - lam) * segment.moments[1]
    for rows, left, middle, right, log_scale in _kernel_factors(segment, lam, query):
        q, left, right = len(left), in_tiles(left), in_tiles(right)
        density = np.einsum("qb,qb->q", left @ (middle * segment.mass), right)[:q]
        for c, layer in enumerate(mixed):
            total = np.einsum("qb,qb->q", left @ (middle * layer), right)[:q]
            mean[rows, c] = total / density
        log_density[rows] = np.log(density) + log_scale
    return mean, log_density


def conditional_mode(segment: Segment, lam: float, query: Floats) -> Floats:
    """Atom of the highest conditional density at each context, (n_query, k).

    The paper's maximum-likelihood state; arguments as of :func:`conditional_mean`.  The result is
    exact: the search over pairs of contexts is pruned by bounds only.
    """
    mode = np.empty((len(query), 2), dtype=np.int64)
    query = np.ascontiguousarray(query, dtype=float)
    _kernels.conditional_modes(segment.peak, lam, segment.known, query, mode)
    return lam * segment.values[0][mode[:, 0]] + (1 - lam) * segment.values[1][mode[:, 1]]


def conditional_sample(segment: Segment, lam: float, query: Floats, uniform: Floats) -> Floats:
    """Atoms drawn independently from the conditional cloud, (n_query, n_draws, k).

    `uniform` (n_query, n_draws, 3) are random numbers in [0, 1); other arguments as of
    :func:`conditional_mean`.
    """
    draw = np.empty((*uniform.shape[:2], 2), dtype=np.int64)
    coupling = (*segment.points, *segment.potentials, segment.epsilon)
    for rows, left, middle, right, _ in _kernel_factors(segment, lam, query):
        drawn = np.empty((len(left), *draw.shape[1:]), dtype=np.int64)
        _kernels.conditional_samples(
            coupling,
            segment.first,
            middle * segment.mass,
            segment.mass,
            left,
            right,
            np.ascontiguousarray(uniform[rows]),
            drawn,
        )
        draw[rows] = drawn
    return lam * segment.values[0][draw[..., 0]] + (1 - lam) * segment.values[1][draw[..., 1]]


def _kernel_factors(
    segment: Segment, lam: float, query: Floats
) -> Iterator[tuple[Indices, Floats, Floats, Floats, Floats]]:
    """Rows of queries, and the factors of their weights κ(q − λa − (1−λ)b) of pairs (a, b).

    The weight is left[q, a]·middle[a, b]·right[q, b]·exp(log_scale[q]), because
    |q − λa − (1−λ)b|² = λ|q − a|² + (1−λ)|q − b|² − λ(1−λ)|a − b|².
    Most queries share one block.  A query so far away that a factor would overflow has a block of
    its own.
    """
    known = segment.known
    to_known = 0.5 * squared_distances(query, known)
    spread = lam * (1 - lam) * 0.5 * squared_distances(known, known)
    near = np.maximum(to_known.max(axis=1), spread.max()) <= LARGEST_EXPONENT
    if near.any():
        nearest = to_known[near].min(axis=1)
        away = to_known[near] - nearest[:, None]
        left, right = np.exp(-lam * away), np.exp(-(1 - lam) * away)
        yield np.flatnonzero(near), left, np.exp(spread), right, -nearest
    one = np.ones((1, len(known)))
    for q in np.flatnonzero(~near):
        exponent = spread - lam * to_known[q, :, None] - (1 - lam) * to_known[q, None, :]
        exponent[segment.mass == 0] = -np.inf
        top = exponent.max()
        yield np.array([q]), one, np.exp(exponent - top), one, np.array([top])
