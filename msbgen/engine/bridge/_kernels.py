"""Kernels of the bridge: a pair of snapshots, conditioning on a context, paths.

They are serial and release the GIL: callers run them in threads over independent work.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir  # numba's own compiler, always with it
from numba import config, njit, types
from numba.extending import intrinsic

from msbgen.core.compiled import cached


def _compiled(function: Callable[..., Any], freedoms: set[str]) -> Any:
    """Compile lazily, cache on disk where a place for the cache can be found."""
    options = {"nogil": True, "error_model": "numpy", "fastmath": freedoms}
    return cached(njit, function, options)


def _kernel(function: Callable[..., Any]) -> Any:
    # contraction (fused multiply-add) is the part of fast mathematics that keeps inf and NaN
    return _compiled(function, {"contract"})


def _reduction(function: Callable[..., Any]) -> Any:
    """A kernel whose sums may be taken in any order, as vector units need; inf and NaN are kept."""
    return _compiled(function, {"contract", "reassoc"})


# ------------------------------------------------------------------ a pair of snapshots

# `ground` is the triple (x, yt, cost). Where `cost` is empty the costs are the squared distances of
# the points x (n, d) and yt (d, m). Otherwise `cost` (n, m) is the cost matrix itself.
# Potentials f (n,) and g (m,) give the coupling exp((f_i + g_j - C_ij) / epsilon).

# exp(r) on |r| <= log(2)/2: Chebyshev interpolation of degree 11, relative error 1.7e-16
_P2 = 0.5000000000000019
_P3 = 0.1666666666666668
_P4 = 0.04166666666648812
_P5 = 0.008333333333319913
_P6 = 0.0013888888952297436
_P7 = 0.00019841269888946277
_P8 = 2.480148550290625e-05
_P9 = 2.7557242259433993e-06
_P10 = 2.7632632406249117e-07
_P11 = 2.510952234724359e-08
_LOG2E = 1.4426950408889634
_LN2_HIGH = 0.6931471803691238  # 33 bits, so that k * _LN2_HIGH is exact
_LN2_LOW = 1.9082149292705877e-10
_ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it leaves the rounded integer in the low bits
_EXP_LOW = -708.0  # below: exactly zero, never a denormal
_EXP_HIGH = 709.0

_PANEL = 32  # rows of a block of a factorisation
_LANES = 32  # number of partial maxima, for vector code
_PAYS = 0.6  # ratio of successive errors up to which a Sinkhorn update is worth its pass
_LEAST = 4  # number of updates whose mean ratio is taken
_MEMORY = 5  # number of updates that are mixed into the next one
_INDEPENDENT = 1e-10  # relative ridge on the products of their changes
_REACH = 8.0  # longest mixed update, as a change of a log dual variable


@intrinsic
def _bits(context, x):
    """The 64 bits of a float as an integer."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), generate


@intrinsic
def _float(context, bits):
    """The float of 64 bits."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


@_kernel
def _vector_exp(x):
    """exp(x) as vector code, within an ulp; zero instead of a denormal."""
    low = x < _EXP_LOW
    x = min(max(x, _EXP_LOW), _EXP_HIGH)
    s = x * _LOG2E + _ROUND
    k = s - _ROUND
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    r2 = r * r
    r4 = r2 * r2
    p01 = 1.0 + r
    p23 = _P2 + r * _P3
    p45 = _P4 + r * _P5
    p67 = _P6 + r * _P7
    p89 = _P8 + r * _P9
    pab = _P10 + r * _P11
    p = (p01 + r2 * p23) + r4 * ((p45 + r2 * p67) + r4 * (p89 + r2 * pab))
    # times 2**k: the low bits of s hold k, and move to the exponent field
    return 0.0 if low else _float(_bits(p) + (_bits(s) << 52))  # pyright: ignore[reportCallIssue]


def _plain_exp(x):
    """exp(x) without compilation, for debuggers: plain Python has no access to the bits."""
    return math.exp(min(x, _EXP_HIGH)) if x >= _EXP_LOW else 0.0


_exp = _plain_exp if config.DISABLE_JIT else _vector_exp  # pyright: ignore


@_kernel
def _add_squares(x, yt, i, dimension, row):
    """Add the squared distances of x[i] to all points in the first `dimension` coordinates."""
    odd = dimension % 3
    for k in range(odd):
        xk = x[i, k]
        yk = yt[k]
        for j in range(row.size):
            t = xk - yk[j]
            row[j] += t * t
    for k in range(odd, dimension, 3):  # by threes, for fewer loads and stores of the row
        x0 = x[i, k]
        x1 = x[i, k + 1]
        x2 = x[i, k + 2]
        y0 = yt[k]
        y1 = yt[k + 1]
        y2 = yt[k + 2]
        for j in range(row.size):
            t0 = x0 - y0[j]
            t1 = x1 - y1[j]
            t2 = x2 - y2[j]
            row[j] += (t0 * t0 + t1 * t1) + t2 * t2


@_kernel
def _cost_row(x, yt, cost, i, row):
    """Row i of the cost matrix."""
    if cost.size:
        from_cost = cost[i]
        for j in range(row.size):  # to assign a row to a row takes a second of compilation
            row[j] = from_cost[j]
    else:
        row[:] = 0.0
        _add_squares(x, yt, i, yt.shape[0], row)


@_kernel
def _plan_row(x, yt, cost, i, fi, g, scale, scratch, row):
    """exp((f_i + g_j - C_ij) / epsilon) for all j, with scale = 1 / epsilon; scratch (m,).

    The sum is taken before the scaling: at small epsilon its terms are large and cancel.
    """
    rest = yt.shape[0] - 6
    if cost.size or rest < 0:
        _cost_row(x, yt, cost, i, scratch)
        for j in range(row.size):
            row[j] = _exp(((fi - scratch[j]) + g[j]) * scale)
        return
    # six coordinates are summed with the exponential: a row outside the caches is read once
    if rest:
        scratch[:] = 0.0
        _add_squares(x, yt, i, rest, scratch)
        for j in range(row.size):
            scratch[j] = g[j] - scratch[j]
        g = scratch
    x0 = x[i, rest]
    x1 = x[i, rest + 1]
    x2 = x[i, rest + 2]
    x3 = x[i, rest + 3]
    x4 = x[i, rest + 4]
    x5 = x[i, rest + 5]
    y0 = yt[rest]
    y1 = yt[rest + 1]
    y2 = yt[rest + 2]
    y3 = yt[rest + 3]
    y4 = yt[rest + 4]
    y5 = yt[rest + 5]
    for j in range(row.size):
        t0 = x0 - y0[j]
        t1 = x1 - y1[j]
        t2 = x2 - y2[j]
        t3 = x3 - y3[j]
        t4 = x4 - y4[j]
        t5 = x5 - y5[j]
        c = ((t0 * t0 + t1 * t1) + t2 * t2) + ((t3 * t3 + t4 * t4) + t5 * t5)
        row[j] = _exp(((fi - c) + g[j]) * scale)


@_kernel
def _max(row):
    """Largest entry; partial maxima in lanes make it vector code."""
    m = row.size
    best = row[0]
    lanes = np.empty(_LANES)
    whole = m - m % _LANES
    if whole:
        lanes[:] = row[0]
        for start in range(0, whole, _LANES):
            part = row[start : start + _LANES]
            for k in range(_LANES):
                lanes[k] = max(lanes[k], part[k])
        for k in range(_LANES):
            best = max(best, lanes[k])
    for j in range(whole, m):
        best = max(best, row[j])
    return best


@_reduction
def _sum(row):
    total = 0.0
    for j in range(row.size):
        total += row[j]
    return total


@_kernel
def nearest(ground, g, out):
    """out_i = min_j (C_ij - g_j): the limit of `soft_nearest` as epsilon goes to 0."""
    x, yt, cost = ground
    row = np.empty(g.size)
    for i in range(out.size):
        _cost_row(x, yt, cost, i, row)
        for j in range(g.size):
            row[j] = g[j] - row[j]
        out[i] = -_max(row)


@_kernel
def soft_nearest(ground, g, epsilon, out):
    """out_i = -epsilon log sum_j exp((g_j - C_ij) / epsilon), g_j = -inf allowed (not all)."""
    x, yt, cost = ground
    m = g.size
    row = np.empty(m)
    scale = 1.0 / epsilon
    for i in range(out.size):
        _cost_row(x, yt, cost, i, row)
        for j in range(m):
            row[j] = g[j] - row[j]
        top = _max(row)
        for j in range(m):
            row[j] = _exp((row[j] - top) * scale)
        out[i] = -(top + epsilon * np.log(_sum(row)))


@_kernel
def gibbs(ground, f, g, epsilon, out):
    """out_ij = exp((f_i + g_j - C_ij) / epsilon), shape (n, m)."""
    x, yt, cost = ground
    scratch = np.empty(g.size)
    scale = 1.0 / epsilon
    for i in range(f.size):
        _plan_row(x, yt, cost, i, f[i], g, scale, scratch, out[i])


@_kernel
def quarter_epsilon(kernel, left, right):
    """K_ij = (left_i K_ij right_j)^4 in place: the kernel at a quarter of epsilon, absorbed."""
    n = kernel.shape[0]
    m = kernel.shape[1]
    for i in range(n):
        row = kernel[i]
        for j in range(m):
            once = left[i] * row[j] * right[j]
            twice = once * once
            row[j] = twice * twice


@_reduction
def _dot(row, v):
    total = 0.0
    for j in range(row.size):
        total += row[j] * v[j]
    return total


@_reduction
def sinkhorn_pass(kernel, v, a, divide, u, t):
    """t = K^T u with u = a / (K v), a Sinkhorn update and its check, or u = a * (K v).

    It takes a single pass over memory: four rows at a time are multiplied by v, and are still in
    the first cache when they are added to t.
    """
    n = kernel.shape[0]
    m = kernel.shape[1]
    whole = n - n % 4
    t[:] = 0.0
    # invariant: u holds the products of the rows before i, and t their sum weighted by u
    for i in range(0, whole, 4):
        r0 = kernel[i]
        r1 = kernel[i + 1]
        r2 = kernel[i + 2]
        r3 = kernel[i + 3]
        s0 = 0.0
        s1 = 0.0
        s2 = 0.0
        s3 = 0.0
        for j in range(m):
            vj = v[j]
            s0 += r0[j] * vj
            s1 += r1[j] * vj
            s2 += r2[j] * vj
            s3 += r3[j] * vj
        u0 = a[i] / s0 if divide else a[i] * s0
        u1 = a[i + 1] / s1 if divide else a[i + 1] * s1
        u2 = a[i + 2] / s2 if divide else a[i + 2] * s2
        u3 = a[i + 3] / s3 if divide else a[i + 3] * s3
        u[i] = u0
        u[i + 1] = u1
        u[i + 2] = u2
        u[i + 3] = u3
        for j in range(m):
            t[j] += (u0 * r0[j] + u1 * r1[j]) + (u2 * r2[j] + u3 * r3[j])
    for i in range(whole, n):
        row = kernel[i]
        s0 = _dot(row, v)
        u0 = a[i] / s0 if divide else a[i] * s0
        u[i] = u0
        for j in range(m):
            t[j] += u0 * row[j]


@_reduction
def _inner(weight, x, y):
    total = 0.0
    for j in range(x.size):
        total += weight[j] * x[j] * y[j]
    return total


@_kernel
def _mix(weight, changes, steps, step, corrected, gram, share):
    """Anderson's correction of a fixed-point step in place: step -= (changes + steps)^T share.

    `share` (q,) minimises the weighted norm of step - changes^T share.  False, with an unchanged
    step, where the changes (q, m) are dependent or the corrected step is too long.
    """
    for i in range(share.size):
        share[i] = _inner(weight, changes[i], step)
        for k in range(i, share.size):
            gram[i, k] = _inner(weight, changes[i], changes[k])
        gram[i, i] *= 1.0 + _INDEPENDENT
    if not cholesky_solve(gram, share):
        return False
    for j in range(step.size):
        corrected[j] = step[j]
    for i in range(share.size):
        for j in range(step.size):
            corrected[j] -= share[i] * (changes[i, j] + steps[i, j])
    longest = 0.0
    for j in range(step.size):
        longest = max(longest, abs(corrected[j]))
    if not longest <= _REACH:
        return False
    for j in range(step.size):
        step[j] = corrected[j]
    return True


@_kernel
def sinkhorn(kernel, a, b, v, tol, limit, u, t):
    """Sinkhorn updates of v in place, while they pay: number of passes, L1 error of the columns.

    u and t are the results of `sinkhorn_pass` at v.  The updates of log v are mixed after Anderson
    (1965; Walker and Ni, 2011, algorithm AA).  That needs about as many passes as conjugate
    gradients, the square root of the number of plain updates.  A mixed update that raises the error
    is replaced by a plain one.  The updates end where the geometric mean ratio of the last _LEAST
    errors exceeds _PAYS: a Newton step is then faster.
    """
    m = b.size
    before = np.empty(m)  # v before the last update
    step = np.empty(m)  # the last update of log v
    residual = np.empty(m)  # the plain update at the same place
    steps = np.empty((_MEMORY, m))
    changes = np.empty((_MEMORY, m))
    corrected = np.empty(m)
    share = np.empty(_MEMORY)
    errors = np.empty(_LEAST)
    errors[:] = np.inf  # compiles faster than np.full
    passes = 0
    kept = 0  # number of updates that were not replaced
    held = 0  # number of them in memory
    place = 0  # of the next one in memory
    mixed = False
    while True:
        sinkhorn_pass(kernel, v, a, np.bool_(True), u, t)
        passes += 1
        error = 0.0
        for j in range(m):
            error += abs(v[j] * t[j] - b[j])
        if mixed and not error < errors[(kept - 1) % _LEAST]:
            mixed = False
            held = 0
            place = 0
            for j in range(m):
                step[j] = residual[j]
                v[j] = before[j] * np.exp(step[j])
            continue
        crawls = error > _PAYS**_LEAST * errors[kept % _LEAST]
        if not error > tol or passes >= limit or crawls:
            return passes, error
        errors[kept % _LEAST] = error
        for j in range(m):
            update = np.log(b[j] / (v[j] * t[j]))
            steps[place, j] = step[j]
            changes[place, j] = update - residual[j]
            residual[j] = update
            step[j] = update
            before[j] = v[j]
        if kept > 0:
            held = min(held + 1, _MEMORY)
            place = (place + 1) % _MEMORY
        kept += 1
        # the last allowed update cannot be replaced
        mixed = (
            held > 0
            and passes + 1 < limit
            and _mix(b, changes, steps, step, corrected, np.empty((held, held)), share[:held])
        )
        for j in range(m):
            v[j] *= np.exp(step[j])


@_kernel
def _conjugate(out, r, p, hp, diagonal, rz):
    """A step of preconditioned conjugate gradients in place, hp = H p; returns the next rz.

    Zero, which ends the iteration, where the curvature is lost to rounding.
    """
    m = out.size
    curvature = 0.0
    for j in range(m):
        curvature += p[j] * hp[j]
    if not curvature > 0.0:
        return 0.0
    step = rz / curvature
    new = 0.0
    for j in range(m):
        out[j] += step * p[j]
        r[j] -= step * hp[j]
        new += r[j] * r[j] / diagonal[j]
    ratio = new / rz
    for j in range(m):
        p[j] = r[j] / diagonal[j] + ratio * p[j]
    return new


@_kernel
def newton_direction(kernel, w, v, c, damping, residual, reduction, max_iter, out):
    """Conjugate gradients on the semi-dual Hessian; returns the passes over the kernel.

    Solves ((1 + damping) diag(c) - diag(v) K^T diag(w) K diag(v)) out = residual, w = u^2 / a. It
    ends where the preconditioned residual has shrunk by `reduction`. The residual sums to zero, so
    that the null space (constants) is never entered. A truncated solution still ascends.
    """
    m = c.size
    out[:] = 0.0
    r = residual.copy()
    p = r / c
    vp = np.empty(m)
    hp = np.empty(m)
    carried = np.empty(w.size)
    rz = 0.0
    for j in range(m):
        rz += r[j] * p[j]
    goal = rz * reduction * reduction
    done = 0
    # invariant: r = residual - H out, p conjugate to all earlier directions, rz = r . r / c
    while done < max_iter and rz > goal:
        for j in range(m):
            vp[j] = v[j] * p[j]
        sinkhorn_pass(kernel, vp, w, np.bool_(False), carried, hp)
        done += 1
        for j in range(m):
            hp[j] = (1.0 + damping) * c[j] * p[j] - v[j] * hp[j]
        rz = _conjugate(out, r, p, hp, c, rz)
    return done


@_kernel
def _scaled_row(kernel, i, left, right, row):
    source = kernel[i]
    for j in range(row.size):
        row[j] = left * source[j] * right[j]


@_kernel
def sparse_plan(kernel, u, a, v, c, threshold, values, columns, starts, squares):
    """Number of the entries of S = diag(a)^-1/2 P diag(c)^-1/2 above the threshold, by rows.

    P = diag(u) K diag(v) is the coupling, so S has singular values in [0, 1]. Row i has the entries
    starts[i] to starts[i + 1]; squares (m,) receives the column sums of S^2. Returns -1 where the
    entries do not fit into `values`, estimated from some rows first.
    """
    n, m = kernel.shape
    right = v / np.sqrt(c)
    row = np.empty(m)
    stride = max(1, n // 16)
    count = 0
    seen = 0
    for i in range(0, n, stride):
        _scaled_row(kernel, i, u[i] / np.sqrt(a[i]), right, row)
        for j in range(m):
            count += row[j] > threshold
        seen += m
    if count * n * m > values.size * seen:
        return -1
    squares[:] = 0.0
    eighth = m // 8
    largest = np.empty(eighth)
    room = values.size - m
    count = 0
    starts[0] = 0
    for i in range(n):
        if count > room:
            return -1
        _scaled_row(kernel, i, u[i] / np.sqrt(a[i]), right, row)
        # mostly none of eight entries at equal distances is large; where one is, a branch would
        # be mispredicted: every entry is written, and the count advances at large ones
        for k in range(eighth):
            largest[k] = max(
                max(max(row[k], row[k + eighth]), max(row[k + 2 * eighth], row[k + 3 * eighth])),
                max(
                    max(row[k + 4 * eighth], row[k + 5 * eighth]),
                    max(row[k + 6 * eighth], row[k + 7 * eighth]),
                ),
            )
        for k in range(eighth):
            if largest[k] > threshold:
                for j in range(k, 8 * eighth, eighth):
                    values[count] = row[j]
                    columns[count] = j
                    count += row[j] > threshold
        for j in range(8 * eighth, m):
            values[count] = row[j]
            columns[count] = j
            count += row[j] > threshold
        for k in range(starts[i], count):
            squares[columns[k]] += values[k] * values[k]
        starts[i + 1] = count
    return count


@_kernel
def sparse_direction(values, columns, starts, diagonal, damping, residual, reduction, limit, out):
    """Conjugate gradients for ((1 + damping) I - S^T S) out = residual; returns the passes.

    It equals `newton_direction` in coordinates scaled by sqrt(c), preconditioned by `diagonal`.
    """
    m = residual.size
    out[:] = 0.0
    r = residual.copy()
    p = r / diagonal
    hp = np.empty(m)
    rz = 0.0
    for j in range(m):
        rz += r[j] * p[j]
    goal = rz * reduction * reduction
    done = 0
    # invariant: r = residual - H out, p conjugate to all earlier directions
    while done < limit and rz > goal:
        for j in range(m):
            hp[j] = (1.0 + damping) * p[j]
        for i in range(starts.size - 1):
            first = starts[i]
            last = starts[i + 1]
            inner = 0.0
            for k in range(first, last):
                inner += values[k] * p[columns[k]]
            for k in range(first, last):
                hp[columns[k]] -= inner * values[k]
        done += 1
        rz = _conjugate(out, r, p, hp, diagonal, rz)
    return done


@_kernel
def newton_factor(kernel, u, a, v, c, out):
    """out = S = diag(u / sqrt(a)) K diag(v / sqrt(c)), the coupling scaled by its marginals."""
    right = v / np.sqrt(c)
    for i in range(u.size):
        _scaled_row(kernel, i, u[i] / np.sqrt(a[i]), right, out[i])


@_kernel
def subtract_gram(panel, first, out):
    """out[r, r:] -= sum_k panel[k, r] * panel[k, r:] for r >= first: the upper triangle only.

    A row of `out` stays in the cache for _PANEL rows of the panel, taken eight at a time for fewer
    loads and stores.
    """
    m = out.shape[1]
    for start in range(0, panel.shape[0], _PANEL):
        stop = min(start + _PANEL, panel.shape[0])
        whole = start + (stop - start) // 8 * 8
        for r in range(first, m):
            row = out[r, r:]
            for k in range(start, whole, 8):
                c0 = panel[k, r]
                c1 = panel[k + 1, r]
                c2 = panel[k + 2, r]
                c3 = panel[k + 3, r]
                c4 = panel[k + 4, r]
                c5 = panel[k + 5, r]
                c6 = panel[k + 6, r]
                c7 = panel[k + 7, r]
                p0 = panel[k, r:]
                p1 = panel[k + 1, r:]
                p2 = panel[k + 2, r:]
                p3 = panel[k + 3, r:]
                p4 = panel[k + 4, r:]
                p5 = panel[k + 5, r:]
                p6 = panel[k + 6, r:]
                p7 = panel[k + 7, r:]
                for j in range(row.size):
                    row[j] -= ((c0 * p0[j] + c1 * p1[j]) + (c2 * p2[j] + c3 * p3[j])) + (
                        (c4 * p4[j] + c5 * p5[j]) + (c6 * p6[j] + c7 * p7[j])
                    )
            for k in range(whole, stop):
                ck = panel[k, r]
                pk = panel[k, r:]
                for j in range(row.size):
                    row[j] -= ck * pk[j]


@_kernel
def cholesky_solve(matrix, x):
    """Solve matrix @ x = x in place by Cholesky; False where the matrix is not positive.

    Reads and overwrites the upper triangle. The kernel is serial, because a threaded library would
    compete with the threads over pairs and is a hundred times slower on a busy machine.
    """
    m = x.size
    # invariant: rows below `start` hold the factor U, the others the Schur complement
    for start in range(0, m, _PANEL):
        stop = min(start + _PANEL, m)
        for k in range(start, stop):
            pivot = matrix[k, k]
            if not pivot > 0.0:
                return False
            top = matrix[k]
            inverse = 1.0 / np.sqrt(pivot)
            for j in range(k, m):
                top[j] *= inverse
            for i in range(k + 1, stop):
                row = matrix[i]
                factor = top[i]
                for j in range(i, m):
                    row[j] -= factor * top[j]
        subtract_gram(matrix[start:stop], stop, matrix)
    for k in range(m):
        row = matrix[k]
        x[k] /= row[k]
        for j in range(k + 1, m):
            x[j] -= row[j] * x[k]
    for k in range(m - 1, -1, -1):
        row = matrix[k]
        inner = 0.0
        for j in range(k + 1, m):
            inner += row[j] * x[j]
        x[k] = (x[k] - inner) / row[k]
    return True


@_kernel
def plan_marginals(ground, f, g, epsilon, rows, columns):
    """Row and column sums of the coupling, which is not stored."""
    x, yt, cost = ground
    row = np.empty(g.size)
    scratch = np.empty(g.size)
    scale = 1.0 / epsilon
    columns[:] = 0.0
    for i in range(f.size):
        _plan_row(x, yt, cost, i, f[i], g, scale, scratch, row)
        rows[i] = _sum(row)
        for j in range(g.size):
            columns[j] += row[j]


@_kernel
def draw_successors(ground, f, g, epsilon, rows, uniforms, out):
    """For each rows[q] draw a column from that row of the coupling by inverse distribution.

    Equal rows in succession share the work, so that rows should be sorted.
    """
    x, yt, cost = ground
    m = g.size
    row = np.empty(m)
    scratch = np.empty(m)
    scale = 1.0 / epsilon
    current = -1
    for q in range(rows.size):
        i = rows[q]
        if i != current:
            _plan_row(x, yt, cost, i, f[i], g, scale, scratch, row)
            for j in range(1, m):
                row[j] += row[j - 1]
            current = i
        # the first column whose cumulated mass exceeds the target: never one without mass
        target = uniforms[q] * row[m - 1]
        first = 0
        last = m - 1
        while first < last:
            middle = (first + last) // 2
            if row[middle] > target:
                last = middle
            else:
                first = middle + 1
        out[q] = first


# ------------------------------------------------------------------ conditioning on a context


@_kernel
def aggregate_coupling(
    x, y, f, g, epsilon, x_label, y_label, x_value, y_value, mass, moments, peak
):
    """Sum a coupling Γ = exp((f + g − |x − y|²)/ε) over the blocks of equal labels.

    Sums are over r with x_label a and s with y_label b, for every pair (a, b) of labels.

    - mass[a, b] = Σ Γ[r, s]
    - moments[0, :, a, b] = Σ Γ x_value[r]
    - moments[1, :, a, b] = Σ Γ y_value[s]
    - peak[0, a, b] = max log Γ; peak[1] and peak[2] are its first r and s, −1 without mass
    """
    n, d = x.shape
    m = y.shape[0]
    k = x_value.shape[1]
    mass[:] = 0.0
    moments[:] = 0.0
    peak[0] = -np.inf
    peak[1:] = -1.0
    n_labels = mass.shape[0]
    row_mass = np.empty(n_labels)
    row_moment = np.empty((k, n_labels))
    for r in range(n):
        if f[r] == -np.inf:
            continue
        # invariant: row_* hold the sums of row r by label of the column, without the factor x_value
        row_mass[:] = 0.0
        row_moment[:] = 0.0
        a = x_label[r]
        x_r = x[r]
        for s in range(m):
            cost = 0.0
            y_s = y[s]
            for c in range(d):
                step = x_r[c] - y_s[c]
                cost += step * step
            log_gamma = (f[r] + g[s] - cost) / epsilon
            b = y_label[s]
            if log_gamma > peak[0, a, b]:
                peak[0, a, b] = log_gamma
                peak[1, a, b] = r
                peak[2, a, b] = s
            gamma = np.exp(log_gamma)
            row_mass[b] += gamma
            for c in range(k):
                row_moment[c, b] += gamma * y_value[s, c]
        for b in range(n_labels):
            mass[a, b] += row_mass[b]
            for c in range(k):
                moments[0, c, a, b] += row_mass[b] * x_value[r, c]
                moments[1, c, a, b] += row_moment[c, b]


@_kernel
def conditional_modes(peak, lam, known, query, mode):
    """Heaviest displacement atom at each query: argmax over (r, s) of log Γ + log κ.

    mode[q] = (r, s).  Rows of the table of contexts are visited by their upper bound, which omits
    the non-positive term −(1 − λ)|q − b|²/2.  The search stops when no remaining row can have the
    maximum.  Of equal atoms the first in that order is taken.
    """
    n_known, m = known.shape
    tilted = np.empty((n_known, n_known))
    best_in_row = np.empty(n_known)
    for a in range(n_known):
        best_in_row[a] = -np.inf
        for b in range(n_known):
            squared = 0.0
            for i in range(m):
                step = known[a, i] - known[b, i]
                squared += step * step
            tilted[a, b] = peak[0, a, b] + 0.5 * lam * (1.0 - lam) * squared
            best_in_row[a] = max(best_in_row[a], tilted[a, b])
    distance = np.empty(n_known)
    bound = np.empty(n_known)
    for q in range(query.shape[0]):
        for a in range(n_known):
            squared = 0.0
            for i in range(m):
                step = query[q, i] - known[a, i]
                squared += step * step
            distance[a] = 0.5 * squared
            bound[a] = best_in_row[a] - lam * distance[a]
        best = -np.inf
        best_a = 0
        best_b = 0
        for _ in range(n_known):
            # invariant: no unvisited row has a bound above that of row a
            a = 0
            for b in range(1, n_known):  # compiles faster than np.argmax
                if bound[b] > bound[a]:
                    a = b
            if bound[a] <= best:
                break
            bound[a] = -np.inf
            for b in range(n_known):
                value = tilted[a, b] - lam * distance[a] - (1.0 - lam) * distance[b]
                if value > best:
                    best, best_a, best_b = value, a, b
        mode[q, 0] = peak[1, best_a, best_b]
        mode[q, 1] = peak[2, best_a, best_b]


@_kernel
def conditional_samples(coupling, blocks, weighted, mass, left, right, uniform, draw):
    """Draw displacement atoms (r, s) of each query's conditional cloud by inverse transform.

    coupling = (x, y, f, g, ε).  blocks are the first points of each context, at the start and at
    the end of the segment.  Pair (a, b) of contexts has mass[a, b] of the coupling.  At query q
    its weight is left[q, a]·weighted[a, b]·right[q, b].  uniform (n_query, n_draws, 3) is
    in [0, 1).
    """
    x, y, f, g, epsilon = coupling
    x_first, y_first = blocks
    n_known = mass.shape[0]
    d = x.shape[1]
    row = np.empty(n_known)
    for q in range(left.shape[0]):
        for a in range(n_known):
            inner = 0.0
            for b in range(n_known):
                inner += weighted[a, b] * right[q, b]
            row[a] = left[q, a] * inner
        total = row.sum()
        for i in range(uniform.shape[1]):
            left_over = uniform[q, i, 0] * total
            a = 0
            # invariant: left_over is the drawn mass less that of the rows before a
            while a < n_known - 1 and left_over >= row[a]:
                left_over -= row[a]
                a += 1
            inner = 0.0
            for b in range(n_known):
                inner += weighted[a, b] * right[q, b]
            left_over = uniform[q, i, 1] * inner
            b = 0
            while b < n_known - 1:
                part = weighted[a, b] * right[q, b]
                if left_over < part:
                    break
                left_over -= part
                b += 1
            left_over = uniform[q, i, 2] * mass[a, b]
            last_r = -1
            last_s = -1
            drawn = False
            for r in range(x_first[a], x_first[a + 1]):
                for s in range(y_first[b], y_first[b + 1]):
                    cost = 0.0
                    for c in range(d):
                        step = x[r, c] - y[s, c]
                        cost += step * step
                    gamma = np.exp((f[r] + g[s] - cost) / epsilon)
                    if gamma > 0.0:
                        last_r, last_s = r, s
                    left_over -= gamma
                    if left_over < 0.0:
                        drawn = True
                        break
                if drawn:
                    break
            # rounding may leave a small mass: the last atom with mass is drawn then
            draw[q, i, 0] = last_r
            draw[q, i, 1] = last_s


# ------------------------------------------------------------------ paths


@_kernel
def _gather(points, runs, held):
    """Copy the points (snapshots, n, d) of some runs (k,) to `held` (snapshots, d, k)."""
    for j in range(held.shape[0]):
        for a in range(runs.size):
            x = points[j, runs[a]]
            for c in range(held.shape[1]):
                held[j, c, a] = x[c]


@_kernel
def draw_paths(points, f, g, epsilon, active, log_weight, uniform, path):
    """Draw whole paths of the chain at each context by ancestral sampling.

    points (segments, n, d); f, g (segments − 1, n); uniform, path (n_query, n_draws, segments).  At
    query q only the points active[q] (k,) take part, with log weights log_weight[q].  From r the
    chain moves to s with probability proportional to Γ[r, s]·weight[s].
    """
    segments = points.shape[0]
    d = points.shape[2]
    k = active.shape[1]
    scale = 1.0 / epsilon
    held = np.empty((segments, d, k))
    step = np.empty(k)
    for q in range(active.shape[0]):
        _gather(points, active[q], held)
        for i in range(path.shape[1]):
            for j in range(segments):
                # invariant: path[q, i, :j] is drawn, and r is its last point
                if j == 0:
                    for a in range(k):
                        step[a] = log_weight[q, a]
                else:
                    r = path[q, i, j - 1]
                    step[:] = 0.0
                    _add_squares(points[j - 1], held[j], r, d, step)
                    for a in range(k):
                        step[a] = (g[j - 1, active[q, a]] - step[a]) * scale + log_weight[q, a]
                top = _max(step)
                for a in range(k):
                    step[a] = _exp(step[a] - top)
                total = 0.0
                for a in range(k):
                    total += step[a]
                left_over = uniform[q, i, j] * total
                chosen = 0
                for a in range(k):
                    if step[a] > 0.0:
                        chosen = a
                        left_over -= step[a]
                        if left_over < 0.0:
                            break
                path[q, i, j] = active[q, chosen]


@_kernel
def most_likely_paths(points, f, g, epsilon, active, log_weight, bandwidth, dims, path):
    """Most likely path of the chain at each context, by dynamic programming over the segments.

    A path through points r_1 … r_σ has the density Π ρ_j(r_j) · Π Γ_j[r_j, r_{j+1}]/(μ μ) with
    respect to volume.  ρ_j is the kernel estimate of the density of the active points in their
    first `dims` coordinates (the residuals), with this bandwidth and these log weights.  Γ/(μ μ) is
    the density of the bridge relative to independent snapshots.
    """
    segments = points.shape[0]
    d = points.shape[2]
    k = active.shape[1]
    scale = 1.0 / epsilon
    half = 0.5 / (bandwidth * bandwidth)
    held = np.empty((segments, d, k))
    value = np.empty(k)
    following = np.empty(k)
    weight = np.empty(k)
    row = np.empty(k)
    back = np.empty((segments, k), dtype=np.int64)
    for q in range(active.shape[0]):
        _gather(points, active[q], held)
        for a in range(k):
            weight[a] = np.exp(log_weight[q, a])
        for j in range(segments):
            # invariant: value[a] is the log density of the best path that ends in a at bin j − 1
            for b in range(k):
                s = active[q, b]
                row[:] = 0.0
                _add_squares(points[j], held[j], s, dims, row)
                for a in range(k):
                    row[a] = _exp(-half * row[a])
                density = _dot(row, weight)
                best = 0.0
                best_a = 0
                if j > 0:
                    row[:] = 0.0
                    _add_squares(points[j], held[j - 1], s, d, row)
                    for a in range(k):
                        row[a] = value[a] + (f[j - 1, active[q, a]] - row[a]) * scale
                    best = _max(row)
                    while best_a < k - 1 and row[best_a] < best:
                        best_a += 1
                    best += g[j - 1, s] * scale
                following[b] = best + np.log(density)
                back[j, b] = best_a
            value, following = following, value
        end = 0
        for a in range(1, k):
            if value[a] > value[end]:
                end = a
        for j in range(segments - 1, -1, -1):
            path[q, j] = active[q, end]
            end = back[j, end]
