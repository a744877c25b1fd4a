"""Kernels of decision trees: the leaves that rows fall into, and sums of their values.

A leaf is its own child. Trees are checked before (:mod:`msbgen.learn.trees`): children come after
their parents, so every walk ends. Kernels are serial and release the GIL.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from msbgen.core.compiled import cached


def _kernel(function: Callable[..., Any]) -> Any:
    """Compile lazily, and cache on disk where a place for the cache can be found."""
    options = {"nogil": True, "error_model": "numpy", "fastmath": False}  # NaN has a meaning
    return cached(njit, function, options)


# `nodes` is the tuple (feature, threshold, left, right, missing_left), each (n_nodes,): a row goes
# left where its feature is at most the threshold, or where it is NaN and missing_left is set.


@_kernel
def find_leaves(rows, nodes, root):
    """Leaf of one tree that each row falls into, (n,); rows (n, d) of single precision."""
    feature, threshold, left, right, missing_left = nodes
    leaves = np.empty(len(rows), np.int64)
    for i in range(len(rows)):
        node = root
        while left[node] != node:
            x = rows[i, feature[node]]
            if x <= threshold[node] or (missing_left[node] and math.isnan(x)):
                node = left[node]
            else:
                node = right[node]
        leaves[i] = node
    return leaves


@_kernel
def add_leaf_values(rows, nodes, value, roots, total):
    """Add to `total` (n,) the values of the leaves of the trees, one tree after another."""
    for root in roots:
        leaves = find_leaves(rows, nodes, root)
        for i in range(len(rows)):
            total[i] += value[leaves[i]]
