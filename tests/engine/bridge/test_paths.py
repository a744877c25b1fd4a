"""Paths of the chain against the enumeration of all paths."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

import oracles
from forged import restored
from msbgen.core.errors import ProfileError
from msbgen.engine.bridge.paths import Chain

EPSILON = 3.0


@pytest.fixture(scope="module")
def chain():
    """Six runs at four snapshots: 1296 paths."""
    points = np.random.default_rng(5).standard_normal((4, 6, 3))
    return Chain.fit(points, epsilon=EPSILON, tol=1e-11)


@pytest.fixture(scope="module")
def plans(chain):
    """Couplings of neighbouring snapshots from a dense solver."""
    uniform = np.full(6, 1 / 6)
    plans = [
        oracles.bridge_tensor([oracles.squared_distances(x, y)], [uniform] * 2, EPSILON, 1000)
        for x, y in pairwise(chain.points)
    ]
    for plan in plans:
        np.testing.assert_allclose(plan.sum(axis=1), 1 / 6, rtol=1e-9)
    return plans


def test_errors_of_the_marginals_are_those_of_the_plans(chain):
    loose = Chain.fit(chain.points, epsilon=EPSILON, tol=0.1)
    wanted = []
    for x, y, f, g in zip(loose.points, loose.points[1:], *loose.potentials):
        plan = np.exp((f[:, None] + g - oracles.squared_distances(x, y)) / EPSILON)
        wanted.append(sum(np.abs(plan.sum(axis=axis) - 1 / 6).sum() for axis in (0, 1)))
    np.testing.assert_allclose(loose.marginal_errors(), wanted, rtol=1e-6, atol=1e-14)
    assert loose.marginal_errors().max() == pytest.approx(loose.marginal_error, rel=0.01)
    assert np.all(chain.marginal_errors() <= 1e-11)


def draw(chain, active, log_weight, n_draws, seed=0):
    uniform = np.random.default_rng(seed).random((1, n_draws, len(chain.points)))
    return chain.draw(active[None], log_weight[None], uniform)[0]


@pytest.mark.parametrize("active", [[0, 1, 2, 3, 4, 5], [5, 0, 3]])
def test_drawn_paths_follow_the_enumerated_law(chain, plans, active):
    log_weight = np.log(np.linspace(1.0, 0.2, len(active)))
    n = 40_000
    paths = draw(chain, np.array(active), log_weight, n)
    wanted = oracles.path_distribution(plans, active, np.exp(log_weight))
    assert sum(wanted.values()) == pytest.approx(1.0)
    seen, counts = np.unique(paths, axis=0, return_counts=True)
    got = dict.fromkeys(wanted, 0.0) | {tuple(p): c / n for p, c in zip(seen.tolist(), counts)}
    assert got.keys() == wanted.keys()
    away = [(got[p] - q) / np.sqrt(q * (1 - q) / n + 1e-4 / n) for p, q in wanted.items()]
    assert np.abs(away).max() < 6
    assert np.sqrt(np.mean(np.square(away))) < 1.3  # no systematic part either


@pytest.mark.parametrize("seed", range(8))
def test_the_most_likely_path_is_the_best_of_all(chain, plans, seed):
    rng = np.random.default_rng(seed)
    active = rng.permutation(6)[: 4 + seed % 3].astype(np.int64)
    log_weight = np.log(rng.random(len(active)))
    bandwidth, dims = 0.3 + rng.random(), 1 + seed % 3
    path = chain.most_likely(active[None], log_weight[None], bandwidth=bandwidth, dims=dims)
    best = oracles.most_likely_path(
        plans, chain.points[:, :, :dims], active, np.exp(log_weight), bandwidth
    )
    assert tuple(path[0]) == best


def test_a_chain_of_one_snapshot_has_no_potentials():
    chain = Chain.fit(np.zeros((1, 3, 2)), epsilon=1.0, tol=1e-9)
    assert chain.potentials.shape == (2, 0, 3)
    assert set(draw(chain, np.arange(3), np.zeros(3), 50).ravel()) == {0, 1, 2}


def test_a_stored_chain_is_restored_and_other_arrays_are_refused(chain):
    around = SimpleNamespace(points=chain.points, settings=SimpleNamespace(epsilon=EPSILON))
    again = restored(chain, around)
    assert vars(again).keys() == vars(chain).keys()
    for name, value in vars(chain).items():
        np.testing.assert_array_equal(getattr(again, name), value)
    odd = chain.potentials.copy()
    odd[1, 2, 3] = np.nan
    for change, sentence in (
        (lambda a, _: a.pop("potentials"), "some.nc: variable 'potentials' is missing"),
        (lambda a, _: a.update(potentials=a["potentials"][:, :, :3]), r"one of \(2, 3, 6\)"),
        (lambda a, _: a.update(potentials=odd), "holds nan"),
        (lambda _, t: t.update(status=3), "'status' is 3"),
        (lambda a, _: a.update(marginal_error=-1.0), "'marginal_error' holds -1"),
    ):
        with pytest.raises(ProfileError, match=sentence):
            restored(chain, around, change=change)
