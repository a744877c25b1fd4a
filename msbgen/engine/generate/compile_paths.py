"""Compilation into the cache of what a fit needs late, and profiles of a kind after it.

``python -m msbgen.engine.generate.compile_paths KIND RUNS`` is run beside a fit
(:mod:`msbgen.engine.generate.ahead`).  It imports little, as that process does nothing else.
"""

import sys

import numpy as np

from msbgen.core.lazy import lazy_module
from msbgen.engine.bridge.paths import Chain

_kernels = lazy_module("msbgen.engine.generate._kernels")

# Larger bridges are solved by the same kernels.
_MOST_RUNS = 300


def compile_paths(kind: str, runs: int) -> None:
    """Compile the kernels of profiles of a kind, of some runs, into the cache.

    First the deconvolution of counts, which the fit needs after its own first kernels.
    """
    ones, first = np.ones((1, 1, 1)), np.zeros(1, dtype=np.int64)
    _kernels.sum_in_proportion(np.eye(2)[1:], ones, ones, first, ones > 1, ones.copy())
    runs, segments, one = min(max(runs, 2), _MOST_RUNS), 3, np.ones((1, 2))
    active, path = np.array([[0, 1]]), np.zeros((1, 2, segments), dtype=np.int64)
    if kind != "mean":
        points = np.random.default_rng(0).normal(size=(segments, runs, 3))
        chain = Chain.fit(points, epsilon=0.1, tol=1e-6)
        if kind == "sample":
            path = chain.draw(active, one, np.full((1, 2, segments), 0.5))
        else:
            chain.most_likely(active, one, bandwidth=1.0, dims=1)
    centre, factor, stretch = (
        np.ones((1, segments, 2)),
        np.ones((runs, segments, 2)),
        np.ones((1, 2, 2)),
    )
    if kind == "sample":
        _kernels.path_amounts(centre, factor, path, np.empty((1, 2, 2)))
    last, counts = np.zeros((1, 2), dtype=np.int64), np.empty((1, 1, 1, 2), dtype=np.float32)
    _kernels.play_paths(centre, factor, path, stretch, one, one, last, 1, 1.0, counts)


if __name__ == "__main__":
    compile_paths(sys.argv[1], int(sys.argv[2]))
