"""Kernels of decisions: allocators and global EDF.

Kernels are serial and release the GIL: callers run them from threads over independent work.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir  # numba's own compiler, always with it
from numba import config, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from msbgen.core.compiled import cached


def _kernel(function: Callable[..., Any]) -> Any:
    """Compile lazily, cache on disk where a place for the cache can be found."""
    # contraction (fused multiply-add) is a freedom of fast mathematics that keeps inf and NaN
    options = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
    return cached(njit, function, options)


# ------------------------------------------------------------------ allocators

# The shared resources are counted in units above each core's minimum.  One of them is the last axis
# ("columns"), the others are flattened into "rows".  `value` (phases, rows, 2 pad) is the value of
# so many units in a phase.  Column x is at pad + x; other places are -inf; the pad is the number of
# columns rounded up to whole lanes.  `lattice` (3, n) has the stride of each resource in the rows,
# the units to allocate, and the most units that reach another level.
# `held` (cores + 1, n) are the units of each core and, last, the remaining ones.
# Each array argument costs a reference count, more than a step: kernels take only what they use.

STRIDE, SPARE, MOST = 0, 1, 2
EQUAL, DNA, OPTIMUM = 0, 1, 2

LANES = 16  # columns that are merged at a time


@intrinsic
def _lanes_raise_row(context, out, k, first, a, i, b, j, at, n):
    """Compiled :func:`_plain_raise_row`, the lanes kept in a register."""

    def generate(context, builder, signature, arguments):
        lanes = ir.VectorType(ir.FloatType(), LANES)
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        blank = ir.Constant(lanes, ir.Undefined)

        def place(array, row, column):
            struct = context.make_array(signature.args[array])(context, builder, arguments[array])
            stride = cgutils.unpack_tuple(builder, struct.strides, 2)[0]
            width = builder.sdiv(stride, ir.Constant(stride.type, 4))
            return builder.gep(struct.data, [builder.add(builder.mul(row, width), column)])

        def load(pointer):
            loaded = builder.load(builder.bitcast(pointer, lanes.as_pointer()))
            loaded.align = 4
            return loaded

        _, k, first, _, i, _, j, at, n = arguments
        target, single, row = place(0, k, first), place(3, i, at), place(5, j, first)
        best = cgutils.alloca_once_value(builder, load(target))
        with cgutils.for_range(builder, n) as loop:
            worth = builder.load(builder.gep(single, [loop.index]))
            worth = builder.insert_element(blank, worth, ir.Constant(ir.IntType(32), 0))
            worth = builder.shuffle_vector(worth, blank, zeros)
            both = builder.fadd(load(builder.gep(row, [builder.neg(loop.index)])), worth)
            old = builder.load(best)
            builder.store(builder.select(builder.fcmp_ordered(">", both, old), both, old), best)
        stored = builder.store(builder.load(best), builder.bitcast(target, lanes.as_pointer()))
        stored.align = 4
        return context.get_dummy_value()

    index = types.intp
    return types.void(out, index, index, a, index, b, index, index, index), generate


def _plain_raise_row(out, k, first, a, i, b, j, at, n):
    """Raise out[k], the lanes y from `first` on, to a[i, at + x] + b[j, y - x], for all x < n."""
    for x in range(n):
        lanes = out[k, first : first + LANES]
        np.maximum(lanes, a[i, at + x] + b[j, first - x : first - x + LANES], out=lanes)


_raise_row = _plain_raise_row if config.DISABLE_JIT else _lanes_raise_row  # pyright: ignore


@_kernel
def merge(a, b, triples, columns, out):
    """Best sum of two: out[k, l] = max over i + j = k, x + y = l of a[i, x] + b[j, y].

    Lanes of `out` beyond its columns are left with what follows from the others.
    """
    pad = out.shape[1] // 2
    out[:] = -np.inf
    for t in range(triples.shape[0]):
        for lane in range(0, pad, LANES):
            n = min(columns, lane + LANES)
            i, j, k = triples[t, 0], triples[t, 1], triples[t, 2]
            _raise_row(out, k, pad + lane, a, i, b, j, pad, n)  # pyright: ignore


@_kernel
def _split(a, b, lattice, row, column):
    """Rows and column of `a` in the best sum of a and b at (row, column); the rest is b's."""
    pad = a.shape[1] // 2
    best, best_i, best_x = -np.inf, 0, 0
    for i in range(a.shape[0]):
        inside = True
        for d in range(lattice.shape[1] - 1):
            inside &= _digit(lattice, d, i) <= _digit(lattice, d, row)
        if inside:
            for x in range(column + 1):
                both = a[i, pad + x] + b[row - i, pad + column - x]
                if both > best:
                    best = both
                    best_i, best_x = i, x
    return best_i, best_x


@_kernel
def _digit(lattice, d, row):
    """Units of resource d in a row."""
    return (row // lattice[STRIDE, d]) % (lattice[SPARE, d] + 1)


@_kernel
def _optimum(phases, busy, value, lattice, triples, work, place):
    """Rows and columns of the best allocation of all units, into ``place`` (cores, 2).

    Left and right half of the cores are folded by `merge`; only the best sum of the two halves
    at all units is wanted.  ``work`` (cores, rows, 2 pad) keeps the partial sums.
    """
    last = lattice.shape[1] - 1
    full_row, full_column = np.int64(0), lattice[SPARE, last]  # literals are types of their own
    for d in range(last):
        full_row += lattice[SPARE, d] * lattice[STRIDE, d]
    if busy == 1:
        place[0, 0], place[0, 1] = full_row, full_column
        return
    half = (busy + 1) // 2
    for side in range(2):
        first, stop = (0, half) if side == 0 else (half, busy)
        for s in range(first + 1, stop):
            # invariant: work[s - 1] is the best sum of the cores from first to s - 1
            rest = value[phases[first]] if s == first + 1 else work[s - 1]
            merge(rest, value[phases[s]], triples, full_column + 1, work[s])
    left = value[phases[0]] if half == 1 else work[half - 1]
    right = value[phases[half]] if busy - half == 1 else work[busy - 1]
    row, column = _split(left, right, lattice, full_row, full_column)
    for side in range(2):
        first, stop = (0, half) if side == 0 else (half, busy)
        if side == 1:
            row, column = full_row - row, full_column - column
        at_row, at_column = row, column
        for s in range(stop - 1, first, -1):
            rest = value[phases[first]] if s == first + 1 else work[s - 1]
            i, x = _split(rest, value[phases[s]], lattice, at_row, at_column)
            place[s, 0], place[s, 1] = at_row - i, at_column - x
            at_row, at_column = i, x
        place[first, 0], place[first, 1] = at_row, at_column


@_kernel
def _hold(phases, busy, value, lattice, held, place):
    """Units of each core from places; units without a gain go to the core with the fewest."""
    last = lattice.shape[1] - 1
    for s in range(busy):
        row, column = place[s, 0], place[s, 1]
        here = value[phases[s], row, value.shape[2] // 2 + column]
        for d in range(last + 1):
            stride = lattice[STRIDE, d]
            held[s, d] = column if d == last else _digit(lattice, d, row)
            while held[s, d] > 0:
                less_row, less = (row, column - 1) if d == last else (row - stride, column)
                if value[phases[s], less_row, value.shape[2] // 2 + less] < here:
                    break
                row, column = less_row, less
                held[s, d] -= 1
            held[-1, d] -= held[s, d]
    for d in range(last + 1):
        while held[-1, d] > 0:
            s = _least_holder(lattice, held, busy, d)
            if s < 0:
                break
            held[s, d] += 1
            held[-1, d] -= 1


@_kernel
def _least_holder(lattice, held, busy, d):
    """The core with the fewest units of a resource that can use more; -1 where none can."""
    found = -1
    for s in range(busy):
        if held[s, d] < lattice[MOST, d] and (found < 0 or held[s, d] < held[found, d]):
            found = s
    return found


@_kernel
def _greedy(phases, busy, value, lattice, held, gain, place):
    """Allocate one unit at a time to the core that gains most (DNA).

    ``gain`` (cores, n) is the gain by a unit of each resource, ``place`` (cores, 2) the place of a
    core in its table: row, and column within the pad.
    """
    last = lattice.shape[1] - 1
    cores = held.shape[0] - 1
    for s in range(busy):
        place[s, 0], place[s, 1] = 0, value.shape[2] // 2
    first, stop = 0, busy
    while True:
        # invariant: only the gains of the cores from first to before stop are out of date
        for s in range(first, stop):
            phase, row, column = phases[s], place[s, 0], place[s, 1]
            here = value[phase, row, column]
            for d in range(last + 1):
                gain[s, d] = -1.0
                if held[s, d] < lattice[MOST, d]:
                    if d == last:
                        gain[s, d] = value[phase, row, column + 1] - here
                    else:
                        gain[s, d] = value[phase, row + lattice[STRIDE, d], column] - here
        best, best_s, best_d = 0.0, -1, -1
        for d in range(last + 1):
            if held[cores, d] > 0:
                for s in range(busy):
                    if gain[s, d] > best:
                        best, best_s, best_d = gain[s, d], s, d
        if best_s < 0:
            # no unit brings a gain
            for d in range(last + 1):
                if best_s < 0 and held[cores, d] > 0:
                    best_s, best_d = _least_holder(lattice, held, busy, d), d
            if best_s < 0:
                return
        held[best_s, best_d] += 1
        held[cores, best_d] -= 1
        if best_d == last:
            place[best_s, 1] += 1
        else:
            place[best_s, 0] += lattice[STRIDE, best_d]
        first, stop = best_s, best_s + 1


@_kernel
def _row(lattice, held, s):
    """Row of the units of core s."""
    row = 0
    for d in range(lattice.shape[1] - 1):
        row += held[s, d] * lattice[STRIDE, d]
    return row


@_kernel
def _look_up(phases, busy, context, lattice, held, idle, contexts):
    """Contexts of the units held, and that of an idle core for the others."""
    for s in range(contexts.size):
        contexts[s] = idle
    for s in range(busy):
        contexts[s] = context[phases[s], _row(lattice, held, s), held[s, -1]]


@_kernel
def _release(lattice, busy, held):
    """Make all units available again."""
    for d in range(lattice.shape[1]):
        held[-1, d] = lattice[SPARE, d]
        for s in range(busy):
            held[s, d] = 0


@_kernel
def _share(lattice, busy, held):
    """Allocate the same to every core, whether it runs a task or not."""
    for d in range(lattice.shape[1]):
        for s in range(busy):
            held[s, d] = min(lattice[SPARE, d] // (held.shape[0] - 1), lattice[MOST, d])


@_kernel
def allocate(method, phases, busy, table, work, contexts):
    """Contexts of all cores for the phases of the tasks that run on the first `busy` of them.

    ``table`` is (value, context of each place, lattice, triples of rows that add up, idle
    context), ``work`` (partial sums, held, gain, place).
    """
    _release(table[2], busy, work[1])
    if busy > 0:
        if method == DNA:
            _greedy(phases, busy, table[0], table[2], work[1], work[2], work[3])
        elif method == OPTIMUM:
            _optimum(phases, busy, table[0], table[2], table[3], work[0], work[3])
            _hold(phases, busy, table[0], table[2], work[1], work[3])
        else:
            _share(table[2], busy, work[1])
    _look_up(phases, busy, table[1], table[2], work[1], table[4], contexts)


@_kernel
def find_phase(ends, first, stop, progress):
    """The phase, from `first` to before `stop`, in which progress lies."""
    phase = first
    while phase < stop - 1 and progress >= ends[phase]:
        phase += 1
    return phase


@_kernel
def decide(method, tasks, progress, busy, phase_table, table, work, contexts):
    """Contexts of all cores; ``phase_table`` is (ends, first phase of each task, phases)."""
    ends, first, phases = phase_table
    for s in range(busy):
        task = tasks[s]
        phases[s] = find_phase(ends, first[task], first[task + 1], progress[s])
    allocate(method, phases, busy, table, work, contexts)


# ------------------------------------------------------------------ global EDF

LATE = 1e-9  # a job is late where its response exceeds its deadline by this share
ROUNDING = 1e-9  # instants this share of a tick apart are one


@_kernel
def _time_to_end(seconds, stretch, share, limit):
    """Time until a job ends if nothing changes; inf where it is more than `limit`."""
    left = seconds[stretch] * (1.0 - share)
    for b in range(stretch + 1, seconds.size):
        if left > limit:
            return np.inf
        left += seconds[b]
    return left if left <= limit else np.inf


@_kernel
def _advance(seconds, power, stretch, share, time):
    """Stretch and share of it after `time`, and the energy spent."""
    energy = 0.0
    while stretch < seconds.size:
        left = seconds[stretch] * (1.0 - share)
        if time < left:
            energy += time * power[stretch]
            share += time / seconds[stretch]
            break
        energy += left * power[stretch]
        time -= left
        stretch += 1
        share = 0.0
    return stretch, share, energy


@_kernel
def simulate_edf(tasks, truth, phase_table, allocator, rules, results, log):
    """Simulate global EDF of periodic tasks on execution data, until every job has ended.

    Parameters
    ----------
    tasks : period (n,), profile (n,), table (n,), first job (n + 1,), run of each job (jobs,)
    truth : seconds (profiles, runs, contexts, stretches), power (profiles, contexts, stretches)
    phase_table : ends (phases,), first phase of each table (tables + 1,), phases (cores,)
    allocator : method, table, work and contexts of :func:`allocate`
    rules : timer [s], whether to stop at the first late job
    results : completion (jobs,), energy (n,), counters (3,): decisions, late jobs, 1 to stop
    log : time (size,), job (size, cores), context (size, cores): the first decisions
    """
    period, profile, table_of, first_job, run = tasks
    seconds, power = truth
    ends, first_phase, phases = phase_table
    method, table, work, contexts = allocator
    timer, stop = rules
    completion, energy, counters = results
    log_time, log_job, log_context = log
    n, cores = period.size, contexts.size
    n_stretches = seconds.shape[3]
    released = np.zeros(n, dtype=np.int64)
    done = np.zeros(n, dtype=np.int64)
    stretch = np.zeros(n, dtype=np.int64)
    share = np.zeros(n)
    running = np.full(cores, -1, dtype=np.int64)
    chosen = np.full(cores, -1, dtype=np.int64)
    finish = np.empty(cores)
    left = first_job[n]
    busy = np.int64(0)
    now = 0.0
    ticked = True
    ended = False
    while left > 0 and counters[2] == 0:
        next_release = np.inf
        for i in range(n):
            # invariant: exactly the jobs with a release <= now have been released
            jobs = first_job[i + 1] - first_job[i]
            while released[i] < jobs and released[i] * period[i] <= now:
                released[i] += 1
            if released[i] < jobs:
                next_release = min(next_release, released[i] * period[i])
        # the earliest deadlines run; ties go to the first task; jobs of a task run in sequence
        n_chosen = np.int64(0)
        for i in range(n):
            if released[i] > done[i]:
                deadline = (done[i] + 1) * period[i]
                s = n_chosen
                while s > 0 and (done[chosen[s - 1]] + 1) * period[chosen[s - 1]] > deadline:
                    s -= 1
                if s < cores:
                    for k in range(min(n_chosen, cores - 1), s, -1):
                        chosen[k] = chosen[k - 1]
                    chosen[s] = i
                    n_chosen = min(n_chosen + 1, cores)
        switched = ended or n_chosen != busy
        for s in range(n_chosen):
            found = False
            for k in range(busy):
                found |= running[k] == chosen[s]
            switched |= not found
        if switched:
            busy = _seat(running, busy, chosen, n_chosen)
        entered = switched
        for s in range(busy if switched or ticked else 0):
            i = running[s]
            progress = (stretch[i] + share[i]) / n_stretches
            p = table_of[i]
            phase = find_phase(ends, first_phase[p], first_phase[p + 1], progress)
            entered |= phase != phases[s]
            phases[s] = phase
        if entered and busy > 0:
            allocate(method, phases, busy, table, work, contexts)
            if counters[0] < log_time.size:
                log_time[counters[0]] = now
                for s in range(cores):
                    log_context[counters[0], s] = contexts[s]
                    i = running[s]
                    log_job[counters[0], s] = first_job[i] + done[i] if s < busy else -1
            counters[0] += 1
        if busy == 0:
            now = next_release
            ticked, ended = False, False
            continue
        tick = (np.floor(now / timer + ROUNDING) + 1.0) * timer
        until = min(next_release, tick)
        step = until - now
        for s in range(busy):
            i = running[s]
            row = seconds[profile[i], run[first_job[i] + done[i]], contexts[s]]
            finish[s] = _time_to_end(row, stretch[i], share[i], step + ROUNDING * timer)
            if finish[s] < until - now:
                step = min(step, finish[s])
        end = until if step == until - now else now + step
        ended = False
        for s in range(busy):
            i = running[s]
            job = first_job[i] + done[i]
            p, c = profile[i], contexts[s]
            row = seconds[p, run[job], c]
            at, part, spent = _advance(row, power[p, c], stretch[i], share[i], step)
            energy[i] += spent
            stretch[i], share[i] = at, part
            if finish[s] <= step + ROUNDING * timer or at == n_stretches:
                completion[job] = end
                if end - done[i] * period[i] > period[i] * (1.0 + LATE):
                    counters[1] += 1
                    if stop:
                        return
                done[i] += 1
                ended = True
                stretch[i], share[i] = 0, 0.0
                left -= 1
        now = end
        ticked = end >= tick - ROUNDING * timer  # a release may lie a rounding before it


@_kernel
def _seat(running, busy, chosen, n_chosen):
    """Put the chosen tasks on the first cores, those that run already before the others."""
    kept = 0
    for s in range(busy):
        for k in range(n_chosen):
            if running[s] == chosen[k]:
                running[kept] = running[s]
                kept += 1
                break
    for k in range(n_chosen):
        found = False
        for s in range(kept):
            found |= running[s] == chosen[k]
        if not found:
            running[kept] = chosen[k]
            kept += 1
    return kept
