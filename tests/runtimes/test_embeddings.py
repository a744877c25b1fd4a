"""Embeddings: residuals beside loops over the formula, and what does not matter."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.runtimes.embeddings import LEAK, Embeddings
from msbgen.runtimes.runs import Observations
from observing import drawn_runs


def embeddings(rng, heads=2, types=2, shape=(5, 4), rank=3):
    def drawn(n, size):
        return rng.normal(size=(n, size, rank)).astype(np.float32)

    return Embeddings(drawn(heads, shape[0]), drawn(1 + 2 * types, shape[1]))


@given(st.integers(0, 10_000))
def test_a_residual_is_that_of_the_formula(seed):
    rng = np.random.default_rng(seed)
    runs, at = drawn_runs(rng, n=12), embeddings(rng)
    w, p = at.workload.astype(float), at.platform.astype(float)
    for n in range(len(runs)):
        i, j, near = runs.workload[n], runs.platform[n], [k for k in runs.beside[n] if k >= 0]
        for h in range(2):
            wanted = w[h, i] @ p[0, j]
            for t in range(2):
                pushed = sum(w[0, k] @ p[3 + t, j] for k in near)
                wanted += w[h, i] @ p[1 + t, j] * max(pushed, LEAK * pushed)
            assert at.residual(runs)[h, n] == pytest.approx(wanted, rel=1e-4, abs=1e-4)


@given(st.integers(0, 10_000), st.integers(0, 2), st.integers(0, 3))
def test_vectors_and_matrices_agree(seed, types, slots):
    rng = np.random.default_rng(seed)
    runs, at = drawn_runs(rng, slots=slots), embeddings(rng, types=types)
    np.testing.assert_allclose(
        at.gather(runs).residual(), at.products().residual(runs), rtol=1e-4, atol=1e-4
    )


@given(st.integers(0, 10_000))
def test_the_order_of_neighbours_and_of_runs_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    runs, at = drawn_runs(rng), embeddings(rng)
    swapped = Observations(runs.workload, runs.platform, runs.beside[:, ::-1], runs.shape)
    np.testing.assert_allclose(at.residual(swapped), at.residual(runs), atol=1e-4)
    order = rng.permutation(len(runs))
    np.testing.assert_allclose(
        at.residual(runs.some(order)), at.residual(runs)[:, order], atol=1e-4
    )


def test_several_pairs_of_towers_agree_with_each_alone():
    rng = np.random.default_rng(3)
    runs, all_of = drawn_runs(rng, slots=3), [embeddings(rng) for _ in range(4)]
    at = Embeddings(np.stack([e.workload for e in all_of]), np.stack([e.platform for e in all_of]))
    each = [e.residual(runs) for e in all_of]
    np.testing.assert_allclose(at.residual(runs), each, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(at.each()[2].platform, all_of[2].platform)
