"""Words of resources as columns of numbers, one for each word: 1 in its contexts, 0 in all others.

Levels that are words have no order, and no mean.  As columns of zeros and ones they are resources
that every part of the engine knows: contexts of two words v and w differ in two columns, so that
their covariance (:mod:`msbgen.engine.trend.covariance`) is matern(1 / ℓ_v) matern(1 / ℓ_w) times
that of the other resources.  With equal length scales all words are equally alike; a word that
differs more gets a shorter one.  The free line gives each word its own mean.  Two words need no
columns: any numbers are in the order of two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msbgen.core.contexts import Hull
from msbgen.data.schema import labels_of

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class WordColumns:
    """Columns of contexts: the words with runs of each resource; empty where levels are numbers."""

    codes: tuple[tuple[float, ...], ...]

    @classmethod
    def of(cls, resources: Mapping[str, Mapping[str, Any]], contexts: Floats) -> WordColumns:
        """Columns of resources by their attributes, for the words of contexts (n, m)."""
        known = [tuple(np.unique(column).tolist()) for column in contexts.T]
        return cls(
            tuple(
                codes if labels_of(attrs) and len(codes) > 2 else ()
                for attrs, codes in zip(resources.values(), known)
            )
        )

    @property
    def is_plain(self) -> bool:
        """Whether all levels are numbers, and contexts are their own columns."""
        return not any(self.codes)

    def encode(self, contexts: Floats) -> Floats:
        """Columns (n, columns) of contexts (n, m)."""
        if self.is_plain:
            return contexts
        parts = [
            (column[:, None] == np.array(codes)).astype(float) if codes else column[:, None]
            for codes, column in zip(self.codes, contexts.T)
        ]
        return np.concatenate(parts, axis=1)

    def decode(self, columns: Floats) -> Floats:
        """Contexts (n, m) of columns that :meth:`encode` made."""
        if self.is_plain:
            return columns
        levels, first = [], 0
        for codes in self.codes:
            part = columns[:, first : first + max(len(codes), 1)]
            levels.append(np.array(codes)[part.argmax(axis=1)] if codes else part[:, 0])
            first += part.shape[1]
        return np.stack(levels, axis=1)


# Contexts without words.
NUMBERS = WordColumns(())


def outside_hull(known: Floats, query: Floats, words: WordColumns) -> NDArray[np.bool_]:
    """Contexts (q, m) outside of the convex hull of the known ones (n, m) with the same words.

    As words have no order, a context between two words does not exist.
    """
    if words.is_plain:
        return Hull.of(known).outside(query)
    named = np.array([bool(codes) for codes in words.codes])
    outside = np.ones(len(query), dtype=bool)
    for own in np.unique(query[:, named], axis=0):
        rows, alike = ((table[:, named] == own).all(axis=1) for table in (query, known))
        if alike.any() and not named.all():
            outside[rows] = Hull.of(known[alike][:, ~named]).outside(query[rows][:, ~named])
        elif alike.any():
            outside[rows] = False
    return outside
