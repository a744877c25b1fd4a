"""Programs whose times and energies follow a known law, and a predictor fitted to them."""

import numpy as np

from msbgen.systems.kernels.choice import ProgramPosterior
from msbgen.systems.kernels.choice.costs import Costs


class Gaussian:
    """Log times and powers of programs are jointly Gaussian, the scale of time free."""

    def __init__(self, ridge=1e-4):
        self.ridge = ridge

    def fit(self, others):
        rows = np.log(np.hstack([others.time, others.power]))
        rows = rows[np.isfinite(rows).all(axis=1)]
        n = rows.shape[1] // 2
        scale = np.repeat([1.0, 0.0], n)
        covariance = np.cov(rows, rowvar=False, bias=True) + self.ridge * np.eye(2 * n)
        return Conditioned(rows.mean(axis=0), covariance + 100 * np.outer(scale, scale))


class Conditioned:
    def __init__(self, mean, covariance):
        self.mean, self.covariance = mean, covariance

    def posterior(self, time, power):
        logs = np.log(np.hstack([time, power]))
        at = np.flatnonzero(np.isfinite(logs))
        gain = np.linalg.solve(self.covariance[np.ix_(at, at)], self.covariance[at]).T
        mean = self.mean + gain @ (logs - self.mean)[at]
        return ProgramPosterior(mean, self.covariance - gain @ self.covariance[at])


CLOCKS = np.array([0.5, 0.8, 1.1, 1.4, 1.7, 2.0])  # [GHz]


def programs(count, *, seed=0, noise=0.01, prefix="p"):
    """Programs in six clocks: a share of time that scales, power with a cube of the clock."""
    rng = np.random.default_rng(seed)
    seconds = np.exp(rng.normal(0, 1, (count, 1)))
    bound = rng.uniform(0.0, 0.6, (count, 1))
    time = seconds * (bound + (1 - bound) * 2.0 / CLOCKS)
    watts = rng.uniform(2, 4, (count, 1)) + (1 - 0.5 * bound) * CLOCKS**3
    time = time * np.exp(noise * rng.standard_normal(time.shape))
    names = tuple(f"{prefix}{i}" for i in range(count))
    energy = time * watts * np.exp(noise * rng.standard_normal(time.shape))
    return Costs(names, names, ("clock",), ("GHz",), CLOCKS[:, None], time, energy)
