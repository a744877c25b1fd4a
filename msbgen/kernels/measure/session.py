"""One session: a process of its own that times every kernel and network once, in random order.

``python -m msbgen.kernels.measure.session CAMPAIGN`` is what a sweep runs; where the recording goes
and what the context is stands in the environment.
"""

from __future__ import annotations

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
from msbgen.kernels.kinds import work_of
from msbgen.kernels.measure.campaign import Campaign
from msbgen.kernels.measure.network import images
from msbgen.kernels.measure.operations import Operation, prepare
from msbgen.kernels.measure.plan import Plan, make_plan, open_network
from msbgen.kernels.measure.timing import Clock, Effort, groups_of, time_in_turn
from msbgen.kernels.measure.torches import load_torch

# Variables by which a session learns its context and the file to write.
CONTEXT, RECORDING = "MSBGEN_KERNELS_CONTEXT", "MSBGEN_KERNELS_RECORDING"
# Kernels that are timed in turn, and their memory together [B]: between two calls of a kernel as
# much else passes through the caches as in a network of middling size.
_MANY, _MOST = 24, 16e6
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class Session:
    """What a session measured.

    Attributes
    ----------
    plan : str
        Digest of what was measured.
    kernels : list of float
        Median time of each kernel of the plan [s].
    passes : list of list of float
        Time of every pass of each network [s].
    torch : str
        Its version.
    date : str
        Of its beginning, in UTC.
    """

    plan: str
    kernels: list[float]
    passes: list[list[float]]
    torch: str
    date: str


def run_session(
    campaign: Campaign, plan: Plan, context: Mapping[str, float], clock: Clock, entropy: int
) -> Session:
    """Time everything in this process.

    Parameters
    ----------
    campaign : Campaign
    plan : Plan
    context : mapping of str to float
        ``threads``, and ``cpu_quota`` [percent of a core] where there is one.
    clock : callable
        Tells the time [s].
    entropy : int
        Beside the campaign's seed, of every order.
    """
    torch, date = load_torch(), datetime.now(UTC).date().isoformat()
    threads = int(context["threads"])
    torch.set_num_threads(threads)
    torch.manual_seed(campaign.seed)
    rng = np.random.default_rng([campaign.seed, entropy])
    burst = campaign.burst(threads, context.get("cpu_quota"))
    with torch.inference_mode():
        # networks before or after kernels: what warms up meanwhile must not look like either
        parts: list[Callable[[], list[Any]]] = [
            lambda: _kernels(plan, campaign.effort(burst), clock, rng),
            lambda: _passes(plan, campaign, burst, clock, rng),
        ]
        first = int(rng.integers(2))
        done = {k: parts[k]() for k in (first, 1 - first)}
    return Session(plan.digest, done[0], done[1], torch.__version__, date)


def _kernels(plan: Plan, effort: Effort, clock: Clock, rng: np.random.Generator) -> list[float]:
    medians = np.full(len(plan.points), np.nan)
    sizes = [work_of(point).touched for point in plan.points]
    for group in groups_of(sizes, _MOST, _MANY, rng):
        ready = [prepare(plan.points[i]) for i in group]
        for i, times in zip(group, time_in_turn(ready, effort, clock, rng)):
            medians[i] = np.median(times)
    return medians.tolist()


def _passes(
    plan: Plan, campaign: Campaign, burst: float, clock: Clock, rng: np.random.Generator
) -> list[list[float]]:
    networks = {name: open_network(name, campaign.folder) for name in campaign.networks}

    def ready(network: str, batch: int, side: int) -> Operation:
        run, x = networks[network], images(batch, side)
        # what was timed before left nothing of this network in the caches: a pass brings it there
        return Operation(refresh=lambda: run(x), call=lambda: run(x))

    timed = [ready(one.network, one.batch, one.side) for one in plan.passes]
    effort = Effort(campaign.passes, 1, campaign.patience * campaign.passes, burst)
    return [times.tolist() for times in time_in_turn(timed, effort, clock, rng)]


def main(text: str) -> None:
    """Make the session of a campaign that this process was started for."""
    campaign = Campaign.from_json(text)
    path, context = Path(os.environ[RECORDING]), json.loads(os.environ[CONTEXT])
    for name in _THREADS:  # threads are a part of the context
        os.environ.pop(name, None)
    # no more cores than threads: a thread that moves leaves its caches behind
    cores = sorted(os.sched_getaffinity(0))[-int(context["threads"]) :]
    os.sched_setaffinity(0, cores)
    entropy = zlib.crc32(path.stem.encode())
    session = run_session(campaign, make_plan(campaign), context, time.perf_counter, entropy)
    write_session(session, path)


def write_session(session: Session, path: Path) -> None:
    """Write a recording, whole or not at all."""
    with replace_file(path, overwrite=True) as partial:
        partial.write_text(json.dumps(asdict(session)), encoding="utf-8")


def read_session(path: Path, plan: Plan) -> Session:
    """Read the recording of a session of a plan.

    Raises
    ------
    ProfileError
        No recording, or one of another plan.
    """
    try:
        session = Session(**json.loads(path.read_text(encoding="utf-8")))
        if _is_of(session, plan):
            return session
    except (OSError, ValueError, TypeError, RecursionError):
        pass  # nothing, half of it, or something else: none of them is a recording
    raise ProfileError(
        f"{path.name}: is no recording of what is to be measured now; make the session again."
    )


def _is_of(session: Session, plan: Plan) -> bool:
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
