"""The compiled kernels of the bridge against their definitions, and without a cache."""

from pathlib import Path

import numpy as np
import pytest

from forks import anew
from msbgen.engine.bridge import _kernels

NO_COST = np.zeros((0, 0))


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def test_exponential_is_exact_to_rounding_and_underflows_to_zero():
    exponents = np.concatenate([np.linspace(-745, 709, 20_001), [-1e308, -708.5, 0.0]])
    plan = np.empty((1, exponents.size))
    ground = (np.zeros((1, 0)), np.zeros((0, exponents.size)), -exponents[None])
    _kernels.gibbs(ground, np.zeros(1), np.zeros(exponents.size), 1.0, plan)
    normal = exponents > -708
    np.testing.assert_allclose(plan[0, normal], np.exp(exponents[normal]), rtol=5e-16)
    assert (plan[0, exponents < -708] == 0.0).all()


@pytest.mark.parametrize("shape", [(1, 1), (7, 31), (8, 32), (9, 33), (41, 70)])
def test_a_pass_is_two_products(rng, shape):
    kernel, v, a = rng.random(shape), rng.random(shape[1]), rng.random(shape[0])
    u, t = np.empty(shape[0]), np.empty(shape[1])
    _kernels.sinkhorn_pass(kernel, v, a, True, u, t)
    np.testing.assert_allclose(u, a / (kernel @ v), rtol=1e-13)
    np.testing.assert_allclose(t, kernel.T @ u, rtol=1e-13)
    _kernels.sinkhorn_pass(kernel, v, a, False, u, t)
    np.testing.assert_allclose(u, a * (kernel @ v), rtol=1e-13)
    np.testing.assert_allclose(t, kernel.T @ u, rtol=1e-13)


def test_sums_keep_infinity_and_nan(rng):
    kernel, u, t = rng.random((9, 40)), np.empty(9), np.empty(40)
    for value in (np.inf, np.nan):
        for i in (3, 8):  # among eight rows, and in the remainder
            spoilt = kernel.copy()
            spoilt[i, 5] = value
            _kernels.sinkhorn_pass(spoilt, np.ones(40), np.ones(9), False, u, t)
            np.testing.assert_array_equal(u[i], value)
            np.testing.assert_array_equal(t, np.full(40, value))
            assert np.isfinite(np.delete(u, i)).all()


def test_a_kernel_becomes_that_of_a_quarter_of_epsilon(rng):
    x, y, f, g = rng.random((9, 2)), rng.random((6, 2)), rng.random(9), rng.random(6)
    ground = (x, np.ascontiguousarray(y.T), NO_COST)
    left, right = 0.5 + rng.random(9), 0.5 + rng.random(6)
    kernel, wanted = np.empty((9, 6)), np.empty((9, 6))
    _kernels.gibbs(ground, f, g, 0.4, kernel)
    _kernels.quarter_epsilon(kernel, left, right)
    _kernels.gibbs(ground, f + 0.4 * np.log(left), g + 0.4 * np.log(right), 0.1, wanted)
    np.testing.assert_allclose(kernel, wanted, rtol=1e-12)


def test_sinkhorn_updates_stop_at_the_tolerance_the_limit_or_when_slow(rng):
    a, b = np.full(30, 1 / 30), np.full(20, 1 / 20)
    cost = ((rng.random((30, 1, 3)) - rng.random((20, 3))) ** 2).sum(-1)

    def solved(epsilon, tol, limit):
        kernel, v = np.exp(-cost / epsilon), b.copy()
        u, t = np.empty(30), np.empty(20)
        passes, error = _kernels.sinkhorn(kernel, a, b, v, tol, limit, u, t)
        np.testing.assert_allclose(u * (kernel @ v), a, rtol=1e-12)
        assert error == pytest.approx(abs(v * (kernel.T @ u) - b).sum(), rel=1e-6)
        return passes, error

    passes, error = solved(1.0, 1e-9, 100)
    assert error <= 1e-9
    assert passes <= 20
    assert solved(1.0, 1e-9, 3)[0] == 3
    passes, error = solved(0.01, 1e-9, 100)
    assert error > 1e-4
    assert passes < 20


def test_mixed_updates_take_less_than_half_of_the_passes_of_plain_ones(rng):
    a, b = rng.dirichlet(np.ones(200)), rng.dirichlet(np.ones(150))
    cost = ((rng.random((200, 1, 3)) - rng.random((150, 3))) ** 2).sum(-1)
    kernel, v = np.exp(-cost / 0.05), b.copy()
    plain = 0
    while abs(v * (kernel.T @ (a / (kernel @ v))) - b).sum() > 1e-7:
        v = b / (kernel.T @ (a / (kernel @ v)))
        plain += 1
    wanted = a[:, None] * kernel * v / (kernel @ v)[:, None]
    u, t, v = np.empty(200), np.empty(150), b.copy()
    passes, error = _kernels.sinkhorn(kernel, a, b, v, 1e-7, 100, u, t)
    assert error <= 1e-7
    assert passes < plain / 2
    np.testing.assert_allclose(u[:, None] * kernel * v, wanted, atol=1e-7)


@pytest.mark.parametrize("seed", [5, 16, 29, 85, 91, 162])
def test_mixed_updates_never_raise_the_error(seed):
    # without the check of the error 5, 16 and 91 end above their first error; without the limit on
    # the step 29, 85 and 162 overflow
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(2, 30)), int(rng.integers(2, 30))
    kernel = np.exp(-60 * rng.random((n, m)))
    a, b = rng.dirichlet(np.full(n, 0.1)) + 1e-12, rng.dirichlet(np.full(m, 0.1)) + 1e-12

    def error(limit):
        return _kernels.sinkhorn(kernel, a, b, b.copy(), 1e-12, limit, np.empty(n), np.empty(m))[1]

    assert error(40) <= error(2)


@pytest.mark.parametrize("size", [1, 7, 32, 33, 75])
def test_cholesky_solves(rng, size):
    factor, wanted = rng.random((size + 3, size)), rng.random(size)
    matrix = 2.0 * size**2 * np.eye(size)
    right = (matrix - factor.T @ factor) @ wanted
    _kernels.subtract_gram(factor, 0, matrix)
    assert _kernels.cholesky_solve(matrix, right)
    np.testing.assert_allclose(right, wanted, rtol=1e-10)
    assert not _kernels.cholesky_solve(-np.eye(size), right)


@pytest.mark.parametrize("threshold", [0.0, 0.02, 0.5])
def test_newton_directions_agree(rng, threshold):
    n, m = 30, 20
    kernel, v = rng.random((n, m)) ** 4, np.full(m, 1.0 / m)
    a, u, t = np.full(n, 1.0 / n), np.empty(n), np.empty(m)
    _kernels.sinkhorn_pass(kernel, v, a, True, u, t)
    c = v * t
    residual = 1.0 / m - c
    plan = u[:, None] * kernel * v
    hessian = 1.25 * np.diag(c) - plan.T @ (plan / a[:, None])
    direction = np.empty(m)
    _kernels.newton_direction(kernel, u**2 / a, v, c, 0.25, residual, 1e-14, 500, direction)
    np.testing.assert_allclose(hessian @ direction, residual, atol=1e-15)

    scaled = plan / np.sqrt(a[:, None] * c)
    values, columns = np.empty(n * m + m), np.empty(n * m + m, np.int32)
    starts, squares = np.empty(n + 1, np.int64), np.empty(m)
    count = _kernels.sparse_plan(kernel, u, a, v, c, threshold, values, columns, starts, squares)
    kept = np.where(scaled > threshold, scaled, 0.0)
    assert count == np.count_nonzero(kept)
    dense = np.zeros((n, m))
    for i in range(n):
        dense[i, columns[starts[i] : starts[i + 1]]] = values[starts[i] : starts[i + 1]]
    np.testing.assert_allclose(dense, kept)
    np.testing.assert_allclose(squares, (kept**2).sum(0))
    right = residual / np.sqrt(c)
    _kernels.sparse_direction(
        values[:count], columns, starts, np.full(m, 1.25), 0.25, right, 1e-14, 500, direction
    )
    wanted = 1.25 * np.eye(m) - kept.T @ kept
    np.testing.assert_allclose(wanted @ direction, right, atol=1e-14)
    little = values[:99], columns[:99]  # a dense plan is not compressed
    assert _kernels.sparse_plan(kernel, u, a, v, c, 0.0, *little, starts, squares) == -1


def test_kernels_compile_without_a_place_for_the_cache(rng):
    # numba finds no place for the cache of code that has no file: as in a read-only installation
    scope = {"__name__": "nowhere"}
    exec(compile(Path(_kernels.__file__).read_text(), "<nowhere>", "exec"), scope)
    kernel, left, right = rng.random((3, 4)), rng.random(3), rng.random(4)
    wanted = (left[:, None] * kernel * right) ** 4
    scope["quarter_epsilon"](kernel, left, right)  # one of the fastest to compile
    np.testing.assert_allclose(kernel, wanted)


UNCOMPILED = """
import numpy as np
from msbgen.engine.bridge.solve import solve_bridge
rng = np.random.default_rng(0)
bridge = solve_bridge([rng.random((5, 2)) for _ in range(3)], epsilon=0.1)
print(bridge.status, *np.round(bridge.potentials[0][0], 9))
"""


def test_the_solver_runs_without_compilation(capsys):
    exec(UNCOMPILED, {})
    (printed,) = capsys.readouterr().out.splitlines()
    assert [printed] == anew(UNCOMPILED, compiled=False)
    assert printed
