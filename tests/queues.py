"""The scheduler in plain Python, slow: every list is scanned at every event.

It shares nothing with the package.  Jobs are (submission, nodes, times, estimates, allowed), the
latter three by machine; `allowed` are the machines that the placement may choose.
"""

import math

import numpy as np


class Oracle:
    """Queues, nodes and running jobs of several machines."""

    def __init__(self, jobs, sizes, placement, one, drawn=()):
        self.jobs = jobs
        self.sizes = sizes
        self.free = list(sizes)
        self.placement, self.one, self.drawn = placement, one, drawn
        self.waiting = []  # jobs in order of submission
        self.running = []  # (true end, estimated end, job, machine)
        self.machine = {}  # of jobs that have theirs
        self.start = {}
        self.turns = {}
        self.promises = {}  # the first promise to each job that ever waited as head

    def play(self):
        order = sorted(range(len(self.jobs)), key=lambda j: self.jobs[j][0])
        while order or self.running:
            ends = min((r[0] for r in self.running), default=math.inf)
            comes = self.jobs[order[0]][0] if order else math.inf
            if ends <= comes:
                self.now = ends
                touched = {r[3] for r in self.running if r[0] == ends}
                for _, _, job, machine in [r for r in self.running if r[0] == ends]:
                    self.free[machine] += self.jobs[job][1]
                self.running = [r for r in self.running if r[0] != ends]
            else:
                self.now = comes
                job = order.pop(0)
                touched = set()
                if not self.late():
                    self.machine[job] = self.choose(job)
                    touched = {self.machine[job]}
                self.waiting.append(job)
            if self.one:
                self.serve(self.waiting)
            else:
                for machine in sorted(touched):
                    self.serve([j for j in self.waiting if self.machine[j] == machine])
        return self.start, self.machine

    def late(self):
        """Whether machines are chosen when jobs start."""
        return self.one and self.placement in ("round_robin", "greedy")

    # ---- where

    def turn(self, job):
        allowed = tuple(self.jobs[job][4])
        return allowed[self.turns.get(allowed, 0) % len(allowed)]

    def take_turn(self, job):
        allowed = tuple(self.jobs[job][4])
        machine = self.turn(job)
        self.turns[allowed] = self.turns.get(allowed, 0) + 1
        return machine

    def choose(self, job):
        _, nodes, _, estimates, allowed = self.jobs[job]
        if self.placement == "round_robin":
            return self.take_turn(job)
        if self.placement == "random":
            return allowed[int(self.drawn[job] * len(allowed))]
        if self.placement == "greedy":
            return self.fastest(job)
        scores = []
        for machine in allowed:
            t = estimates[machine]
            score = self.wait(machine, nodes) + t
            if self.placement == "aware":
                score *= math.sqrt(t)
            scores.append((score, machine))
        return min(scores)[1]

    def fastest(self, job):
        _, nodes, _, estimates, allowed = self.jobs[job]
        roomy = [m for m in allowed if self.free[m] >= nodes]
        return min(roomy or allowed, key=lambda m: (estimates[m], m))

    def left(self, machine):
        """Estimated seconds left and nodes of what runs on a machine, the shortest first."""
        return sorted(
            (max(end, self.now) - self.now, self.jobs[job][1])
            for _, end, job, m in self.running
            if m == machine
        )

    def wait(self, machine, nodes):
        queued = [self.jobs[j] for j in self.waiting if self.machine[j] == machine]
        wanted = sum(q[1] for q in queued) + nodes
        there = self.free[machine]
        if there >= wanted:
            return 0.0
        work = sum(q[1] * q[3][machine] for q in queued)
        work += sum(n * left for left, n in self.left(machine))
        mean = work / self.sizes[machine]
        for left, n in self.left(machine):
            there += n
            if there >= wanted:
                return min(left, mean)
        return mean

    # ---- when

    def begin(self, job, machine):
        _, nodes, times, estimates, _ = self.jobs[job]
        assert self.free[machine] >= nodes
        self.free[machine] -= nodes
        self.waiting.remove(job)
        self.start[job] = self.now
        self.machine[job] = machine
        self.running.append(
            (self.now + times[machine], self.now + estimates[machine], job, machine)
        )

    def serve(self, queue):
        """Algorithm 1 on the jobs of one queue."""
        queue = list(queue)
        while queue:
            head = queue[0]
            if self.late() and self.placement == "greedy":
                machine = self.fastest(head)
            else:
                if head not in self.machine:
                    self.machine[head] = self.take_turn(head)
                machine = self.machine[head]
            if self.free[machine] < self.jobs[head][1]:
                break
            self.begin(head, machine)
            queue.pop(0)
        else:
            return
        promise, extra = self.reserve(head, machine)
        self.promises.setdefault(head, promise)
        for job in queue[1:]:
            _, nodes, _, estimates, allowed = self.jobs[job]

            def may(m, nodes=nodes, estimates=estimates, extra=extra):
                over = self.now + estimates[m] <= promise
                return self.free[m] >= nodes and (m != machine or over or nodes <= extra)

            if self.late() and self.placement == "greedy":
                possible = [m for m in allowed if may(m)]
            elif self.late():
                possible = [m for m in [self.turn(job)] if may(m)]
            else:
                possible = [m for m in [self.machine[job]] if may(m)]
            if not possible:
                continue
            if self.late() and self.placement == "round_robin":
                self.take_turn(job)
            chosen = min(possible, key=lambda m: (estimates[m], m))
            if chosen == machine and self.now + estimates[machine] > promise:
                extra -= nodes
            self.begin(job, chosen)

    def reserve(self, job, machine):
        """When a job can start on a machine by the estimates, and the nodes that it leaves then."""
        wanted = self.jobs[job][1]
        ends = sorted({max(r[1], self.now) for r in self.running if r[3] == machine})
        for moment in ends:
            there = self.free[machine] + sum(
                self.jobs[r[2]][1]
                for r in self.running
                if r[3] == machine and max(r[1], self.now) <= moment
            )
            if there >= wanted:
                return moment, there - wanted
        raise AssertionError("a job that never fits")


def instance(seed, most=30):
    """Arrays of random jobs and machines; every other instance in whole numbers, full of ties."""
    rng = np.random.default_rng(seed)
    m, n = int(rng.integers(1, 5)), int(rng.integers(1, most))
    sizes = rng.integers(1, 9, m)
    nodes = rng.integers(1, sizes.max() + 1, n)
    runtime = rng.lognormal(1, 1.2, (n, m))
    estimate = runtime * rng.lognormal(0, rng.choice([0.0, 0.3, 1.0]), (n, m))
    submission = rng.exponential(rng.choice([0.0, 0.01, 0.3, 2.0]), n).cumsum()
    if seed % 2:
        runtime, estimate = np.ceil(runtime), np.ceil(estimate)
        submission = np.floor(submission)
    submission = rng.permutation(submission)
    lacks = rng.random((n, m)) < 0.15
    lacks[~(~lacks & (nodes[:, None] <= sizes)).any(axis=1)] = False
    runtime[lacks] = estimate[lacks] = np.nan
    suits = rng.random((n, m)) < 0.6
    suits[~(suits & ~lacks & (nodes[:, None] <= sizes)).any(axis=1)] = True
    return submission, nodes, runtime, estimate, suits, sizes


def play(submission, nodes, runtime, estimate, suits, sizes, *, placement, queue, drawn=()):
    """Oracle that has played, of arrays."""
    fits = ~np.isnan(runtime) & (nodes[:, None] <= sizes)
    allowed = fits & suits if placement == "user" else fits
    jobs = [
        (*job, np.flatnonzero(where).tolist())
        for *job, where in zip(
            submission.tolist(), nodes.tolist(), runtime.tolist(), estimate.tolist(), allowed
        )
    ]
    name = "round_robin" if placement == "user" else placement
    oracle = Oracle(jobs, sizes.tolist(), name, queue == "one", drawn)
    oracle.play()
    return oracle
