"""A session: one process that times every kernel and network, in random order.

A sweep runs ``python -m msbgen.systems.kernels.measure.session CAMPAIGN``.  Environment variables
have the context and the path of the recording.
"""

import json
import os
import sys
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from msbgen.core.errors import ProfileError
from msbgen.data.files import replace_file
from msbgen.systems.kernels.kinds import work_of
from msbgen.systems.kernels.measure.architectures import images
from msbgen.systems.kernels.measure.campaign import Campaign
from msbgen.systems.kernels.measure.operations import Operation, prepare
from msbgen.systems.kernels.measure.plan import MeasurementPlan, make_plan, open_network
from msbgen.systems.kernels.measure.timing import Clock, Effort, groups_of, time_in_turn
from msbgen.systems.kernels.measure.torch_import import load_torch

# Environment variables with the context, as JSON, and the file to write.
CONTEXT, RECORDING = "MSBGEN_KERNELS_CONTEXT", "MSBGEN_KERNELS_RECORDING"
# Most kernels that are timed in turn, and most memory of them together [B].  Between two calls of
# a kernel about as much data passes through the caches as in a network of medium size.
_MANY, _MOST = 24, 16e6
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class Session:
    """Times that a session measured.

    `plan` is the digest of the plan. `kernels` has the median time [s] of each kernel of it,
    `passes` the time [s] of every pass of each network. `torch` is a version, `date` that of the
    start in UTC.
    """

    plan: str
    kernels: list[float]
    passes: list[list[float]]
    torch: str
    date: str


def run_session(
    campaign: Campaign,
    plan: MeasurementPlan,
    context: Mapping[str, float],
    clock: Clock,
    entropy: int,
) -> Session:
    """Time all kernels and networks in this process.

    The context has ``threads`` and optionally ``cpu_quota`` [percent of a core]; the clock returns
    the time [s]. The campaign's seed and the entropy are the seed of every order.
    """
    torch, date = load_torch(), datetime.now(UTC).date().isoformat()
    threads = int(context["threads"])
    torch.set_num_threads(threads)
    torch.manual_seed(campaign.seed)
    rng = np.random.default_rng([campaign.seed, entropy])
    burst = campaign.burst(threads, context.get("cpu_quota"))
    with torch.inference_mode():
        # kernels or networks first, at random, so that warming up does not favour either
        parts: list[Callable[[], list[Any]]] = [
            lambda: _kernels(plan, campaign.effort(burst), clock, rng),
            lambda: _passes(plan, campaign, burst, clock, rng),
        ]
        first = int(rng.integers(2))
        done = {k: parts[k]() for k in (first, 1 - first)}
    return Session(plan.digest, done[0], done[1], torch.__version__, date)


def _kernels(
    plan: MeasurementPlan, effort: Effort, clock: Clock, rng: np.random.Generator
) -> list[float]:
    medians = np.full(len(plan.points), np.nan)
    sizes = [work_of(point).touched for point in plan.points]
    for group in groups_of(sizes, _MOST, _MANY, rng):
        ready = [prepare(plan.points[i]) for i in group]
        for i, times in zip(group, time_in_turn(ready, effort, clock, rng)):
            medians[i] = np.median(times)
    return medians.tolist()


def _passes(
    plan: MeasurementPlan, campaign: Campaign, burst: float, clock: Clock, rng: np.random.Generator
) -> list[list[float]]:
    networks = {name: open_network(name, campaign.folder) for name in campaign.networks}

    def ready(network: str, batch: int, side: int) -> Operation:
        run, x = networks[network], images(batch, side)
        # a pass that is not timed brings the network into the caches
        return Operation(refresh=lambda: run(x), call=lambda: run(x))

    timed = [ready(one.network, one.batch, one.side) for one in plan.passes]
    effort = Effort(campaign.passes, 1, campaign.patience * campaign.passes, burst)
    return [times.tolist() for times in time_in_turn(timed, effort, clock, rng)]


def main(text: str) -> None:
    """Run the session for which this process was started."""
    campaign = Campaign.from_json(text)
    path, context = Path(os.environ[RECORDING]), json.loads(os.environ[CONTEXT])
    for name in _THREADS:  # threads are a part of the context
        os.environ.pop(name, None)
    # as many cores as threads, because a thread that moves loses its caches
    cores = sorted(os.sched_getaffinity(0))[-int(context["threads"]) :]
    os.sched_setaffinity(0, cores)
    entropy = zlib.crc32(path.stem.encode())
    session = run_session(campaign, make_plan(campaign), context, time.perf_counter, entropy)
    write_session(session, path)


def write_session(session: Session, path: Path) -> None:
    """Write a recording; after an error no file is left."""
    with replace_file(path, overwrite=True) as partial:
        partial.write_text(json.dumps(asdict(session)), encoding="utf-8")


def read_session(path: Path, plan: MeasurementPlan) -> Session:
    """Recording of a session; :class:`ProfileError` if it is none, or one of another plan."""
    try:
        session = Session(**json.loads(path.read_text(encoding="utf-8")))
        if _matches(session, plan):
            return session
    except (OSError, ValueError, TypeError, RecursionError):
        pass  # missing, incomplete or another file
    raise ProfileError(f"{path.name}: is no recording of this plan; run the session again.")


def _matches(session: Session, plan: MeasurementPlan) -> bool:
    times = [session.kernels, *session.passes]
    return (
        session.plan == plan.digest
        and len(session.kernels) == len(plan.points)
        and len(session.passes) == len(plan.passes)
        and all(0 < value < float("inf") for row in times for value in row)
        and all(session.passes)
    )


if __name__ == "__main__":
    main(sys.argv[1])
