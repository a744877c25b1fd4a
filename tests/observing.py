"""Random runs of workloads on platforms, some beside others."""

from msbgen.systems.runtimes.runs import Observations


def drawn_runs(rng, n=30, shape=(5, 4), slots=2):
    """Random runs; the first third of them is alone, the others have up to `slots` neighbours."""
    beside = rng.integers(-1, shape[0], (n, slots))
    beside[: n // 3] = -1
    return Observations(
        rng.integers(shape[0], size=n), rng.integers(shape[1], size=n), beside, shape
    )
