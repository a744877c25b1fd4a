"""Jobs replayed on their traces, interval by interval, beside the scheduler's simulation.

In the simulation a job is as fast as one of its runs was at this progress in the current context.
Here jobs are replayed on their traces while the allocation changes: core cycles, hits, misses,
stalls of each core's regulator, timer interrupts and preemptions. Only the allocator is shared. In
both, caches hold what they would hold with the current ways from the start.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit
from tables import PROFILES, TASKS

from msbgen import platform
from msbgen.sources.platform._kernels import correlated_noise
from msbgen.sources.platform.config import PlatformConfig
from msbgen.sources.platform.replay import _prepare
from msbgen.systems.realtime.allocate import Allocator
from msbgen.systems.realtime.tasksets import TaskSet

TIMER = 0.005


@njit(nogil=True, cache=True)
def advance(now, until, lengths, misses, job, core, preempted):
    """Run a job until a time or its end, with stops by the core's regulator and interrupts.

    ``job`` is (interval, share of it that is left). ``core`` is (period, end of this period, grant,
    left of the grant, next tick, time between ticks, cost of a tick, blocked until, next
    preemption). ``preempted`` (n, 2) holds arrivals and lengths.
    """
    t = now
    while job[0] < lengths.size and t < until:
        i = int(job[0])
        left = job[1] * lengths[i]
        rate = misses[i] / lengths[i]
        running = t >= core[7]
        end = t + left
        spent = np.inf
        stop = core[7]
        if running:
            stop = end
            if rate > 0.0:
                spent = t + core[3] / rate
                stop = min(end, spent)
        p = int(core[8])
        then = min(stop, core[1], core[4], preempted[p, 0], until)
        if running:
            left = 0.0 if then == end else left - (then - t)
            core[3] = 0.0 if then == spent else max(0.0, core[3] - rate * (then - t))
        t = then
        job[1] = left / lengths[i]
        if t == core[1]:
            core[3] = core[2]
            core[1] += core[0]
        if t == core[4]:
            core[7] = max(core[7], t + core[6])
            core[4] += core[5]
        if t == preempted[p, 0]:
            core[7] = max(core[7], t + preempted[p, 1])
            core[8] += 1
        if running and t == spent and core[3] == 0.0:
            core[7] = max(core[7], core[1])
        if left <= 0.0:
            job[0] += 1
            job[1] = 1.0
    return t


class Programs:
    """Prepared traces of the tasks, and the jobs that replay them."""

    def __init__(self, tasks: Sequence[str] = TASKS) -> None:
        self.config = PlatformConfig()
        self.of = {
            task: _prepare(platform.read_trace(PROFILES / "traces" / f"{task}.nc"), self.config)
            for task in tasks
        }
        self.ends = {task: np.cumsum(p.instructions) for task, p in self.of.items()}


class Job:
    """One job on its trace."""

    def __init__(self, programs: Programs, task: str, rng: np.random.Generator):
        config, program = programs.config, programs.of[task]
        self.program, self.config, self.ends = program, config, programs.ends[task]
        self.colouring = int(rng.integers(program.histogram.shape[0]))
        speed = 1 + config.speed_noise * rng.standard_normal()
        self.memory = 1 + config.memory_noise * rng.standard_normal()
        noise = np.empty(len(program.cycles))
        draws = rng.standard_normal(int(program.steps.sum()))
        correlated_noise(draws, program.steps, config.phase_noise, config.phase_correlation, noise)
        self.cycles = program.cycles * speed * (1 + noise)
        self.offset = config.start_offset * rng.random()
        self.state = np.array([0.0, 1.0])
        self.context: tuple[float, ...] = ()
        self.lengths = self.misses = np.empty(0)

    def put(self, context: tuple[float, ...]) -> None:
        if context != self.context:
            ways, _, frequency = context
            events, hits, misses = self.program.table(int(ways), self.colouring, self.config)
            core = self.cycles / (frequency * 1e9)
            self.lengths = core + hits + self.memory * misses + self.program.fixed
            self.misses = np.ascontiguousarray(events[:, 2])
            self.context = context

    @property
    def done(self) -> float:
        i = min(int(self.state[0]), len(self.ends) - 1)
        before = self.ends[i - 1] if i else 0.0
        share = 1 - self.state[1] if self.state[0] < len(self.ends) else 1.0
        return float((before + share * (self.ends[i] - before)) / self.ends[-1])


def replay_set(
    task_set: TaskSet,
    allocator: Allocator,
    programs: Programs,
    tables: dict[str, Any],
    *,
    horizon: float,
    seed: int,
) -> np.ndarray:
    """Response over deadline of every job, in order of tasks and releases."""
    rng = np.random.default_rng(seed)
    config = programs.config
    period = [task.period for task in task_set.tasks]
    n, m = len(period), task_set.cores
    jobs_of = [int(np.ceil(horizon / p * (1 - 1e-12))) for p in period]
    finished: list[list[float]] = [[] for _ in range(n)]
    released, current = [0] * n, [None] * n
    cores = []
    for _ in range(m):
        step = config.regulator_period
        tick = 1 / config.tick_rate
        cores.append(
            np.array([step, step * rng.random(), 1, 1, tick * rng.random(), tick,
                      config.tick_time, 0.0, 0.0])
        )  # fmt: skip
    arrivals = []
    for _ in range(m):
        gaps = rng.exponential(1 / config.preemption_rate, 400)
        lengths = rng.exponential(config.preemption_time, 400)
        arrivals.append(np.stack([np.append(np.cumsum(gaps)[:-1], np.inf), lengths], axis=1))
    seat: list[int] = [-1] * m
    seen: dict[int, int] = {}
    ends = {name: t["end"].values for name, t in tables.items()}
    now, tick_number = 0.0, 0
    while any(len(f) < k for f, k in zip(finished, jobs_of)):
        for i in range(n):
            while released[i] < jobs_of[i] and released[i] * period[i] <= now + 1e-12:
                released[i] += 1
        ready = [i for i in range(n) if released[i] > len(finished[i])]
        ready.sort(key=lambda i: ((len(finished[i]) + 1) * period[i], i))
        chosen = ready[:m]
        fresh = [i for i in chosen if current[i] is None]
        for i in fresh:
            current[i] = Job(programs, task_set.tasks[i].profile, rng)
        switched = bool(fresh) or set(chosen) != {i for i in seat if i >= 0}
        if switched:
            seat = [i if i in chosen else -1 for i in seat]
            for i in chosen:
                if i not in seat:
                    seat[seat.index(-1)] = i
        running = [(c, i) for c, i in enumerate(seat) if i >= 0]
        for c, i in running:
            if i in fresh:
                cores[c][7] = max(cores[c][7], now + current[i].offset)
        ticked = now >= tick_number * TIMER - 1e-12
        while tick_number * TIMER <= now + 1e-12:
            tick_number += 1
        if running and (switched or ticked):
            names = [task_set.tasks[i].profile for _, i in running]
            done = [min(current[i].done, 1.0) for _, i in running]
            phase = {
                i: int(np.searchsorted(ends[name], share, side="right"))
                for (_, i), name, share in zip(running, names, done)
            }
            if switched or phase != seen:
                seen = phase
                for (c, i), context in zip(running, allocator.decide(names, done).tolist()):
                    current[i].put(tuple(context))
                    grant = context[1] * 1e6 / config.line_size * config.regulator_period
                    cores[c][3] = max(0.0, cores[c][3] + grant - cores[c][2])
                    cores[c][2] = grant
        following = [released[i] * period[i] for i in range(n) if released[i] < jobs_of[i]]
        until = min([*following, tick_number * TIMER if running else np.inf])
        # all advance to the first end of a job; jobs that would pass it are set back
        before = [(cores[c].copy(), current[i].state.copy()) for c, i in running]
        reached = []
        for c, i in running:
            job = current[i]
            reached.append(
                advance(now, until, job.lengths, job.misses, job.state, cores[c], arrivals[c])
            )
        ended = [k for k, (_, i) in enumerate(running)
                 if current[i].state[0] >= len(current[i].lengths)]  # fmt: skip
        if ended:
            until = min(reached[k] for k in ended)
            for (c, i), (core, state), time in zip(running, before, reached):
                if time > until:
                    cores[c][:], current[i].state[:] = core, state
                    job = current[i]
                    advance(now, until, job.lengths, job.misses, job.state, cores[c], arrivals[c])
        for c in range(m):  # regulators and timers of idle cores go on
            core = cores[c]
            if seat[c] < 0:
                core[1] += core[0] * max(0, np.ceil((until - core[1]) / core[0]))
                core[4] += core[5] * max(0, np.ceil((until - core[4]) / core[5]))
                core[3] = core[2]
                while arrivals[c][int(core[8]), 0] < until:
                    core[8] += 1
        for _, i in running:
            if current[i].state[0] >= len(current[i].lengths):
                finished[i].append(until)
                current[i] = None
        now = until
    ratio = [[(end - k * p) / p for k, end in enumerate(f)] for f, p in zip(finished, period)]
    return np.concatenate([np.array(r) for r in ratio])
