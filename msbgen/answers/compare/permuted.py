"""Runs of both versions with their labels permuted: what differences look like without a change.

Labels are permuted within each context, or exchanged within pairs of runs that were measured one
right after the other.  The order of contexts and runs, and which version is the new one, do not
matter: equal runs give equal permutations.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]

# Permutations, the fewest that the runs must have, and the values of a block of them.
_DRAWN, _FEWEST, _BLOCK = 999, 1000, 500_000


def permuted_runs(
    contexts: Floats, old: Floats, new: Floats, shift: Floats, *, are_paired: bool
) -> Iterator[tuple[Floats, Floats]]:
    """Blocks of permuted runs, each (number, n, runs) of both versions; missing runs are NaN.

    Parameters
    ----------
    contexts : (n, m)
        Levels of the resources, which name the contexts.
    old, new : (n, runs)
        A positive quantity in the runs of both versions.
    shift : (n,)
        Logarithm of NEW/OLD that is taken out of `new` first, so that it is no noise.
    are_paired : bool
        Whether runs in one column are partners.

    Notes
    -----
    Nothing is drawn for one context, or for fewer than a thousand different permutations.
    """
    order = np.lexsort(contexts.T)
    back = np.argsort(order)
    old, new = old[order], (new / np.exp(shift)[:, None])[order]
    n_old, n_new = (np.isfinite(part).sum(axis=1) for part in (old, new))
    if are_paired:
        ways = n_old * np.log(2.0)
        by_size = np.argsort(np.abs(np.log(new / old)), axis=1)
        old, new = (np.take_along_axis(part, by_size, axis=1) for part in (old, new))
    else:
        each = special.gammaln(n_old + 1) + special.gammaln(n_new + 1)
        ways = special.gammaln(n_old + n_new + 1) - each
    if len(old) < 2 or ways.sum() < np.log(_FEWEST):
        return
    rng = np.random.default_rng(0)
    block = max(_BLOCK // (old.size + new.size), 1)
    for first in range(0, _DRAWN, block):
        number = min(block, _DRAWN - first)
        if are_paired:
            swap = rng.integers(2, size=(number, *old.shape)).astype(bool)
            drawn = np.where(swap, new, old), np.where(swap, old, new)
        else:
            drawn = _relabelled(old, new, np.minimum(n_old, n_new), number, rng)
        yield drawn[0][:, back], drawn[1][:, back]


def _relabelled(
    old: Floats, new: Floats, fewer: NDArray[np.int64], number: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Runs drawn from those of both: `fewer` (n,) for the first version, the rest for the other."""
    together = np.sort(np.concatenate([old, new], axis=1), axis=1)
    keys = rng.random((number, *together.shape))
    keys[:, ~np.isfinite(together)] = 2.0
    places = np.argsort(keys, axis=2)
    drawn = np.take_along_axis(np.broadcast_to(together, keys.shape), places, axis=2)
    is_first = np.arange(together.shape[1]) < fewer[:, None]
    return np.where(is_first, drawn, np.nan), np.where(is_first, np.nan, drawn)
