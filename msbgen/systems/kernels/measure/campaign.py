"""Settings of a campaign of kernels and networks: a TOML file whose keys all have defaults.

::

    networks = ["resnet18", "squeezenet", "mine:build"]  # by default all that ship
    images = [[1, 224], [4, 112]]                        # batch and side
    random = 1.0       # random kernels for each kernel of a network
    threads = [1, 2]
    quotas = [50, 100] # percent of a core; by default none
    sessions = 5       # processes for each configuration, in random order (seed = 0)

See :class:`Campaign` for the others.
"""

from __future__ import annotations

import difflib
import json
import os
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from msbgen.core.durations import parse_seconds
from msbgen.core.errors import ArgumentError
from msbgen.core.records import (
    Listed,
    Name,
    Parsed,
    Within,
    check_fields,
    fits,
    record,
)
from msbgen.data.toml import read_toml
from msbgen.sources.measure.sweep.spec import ResourceSpec, Spec
from msbgen.systems.kernels.measure.architectures import ARCHITECTURES
from msbgen.systems.kernels.measure.timing import Effort

# Batch and side [pixels] of images; networks halve them five times.
Images = tuple[Annotated[int, Within(1, 4096)], Annotated[int, Within(32, 4096)]]
_EXAMPLES = ", as 2s, 500ms or 5min"
Pause = Annotated[float, Parsed(parse_seconds, "a time of 0 s or more" + _EXAMPLES), Within(0, 1e7)]
Times = Annotated[int, Within(1, 1_000_000)]
NoneOrMore = Annotated[int, Within(0, 1_000_000)]
# Period of a quota [s], and periods that a timing lasts under one.
_PERIOD, _PERIODS = 0.002, 5
# What a session runs.
_SESSION = "msbgen.systems.kernels.measure.session"
# The allocator keeps its memory, so that kernels fault no pages; nor does a network after its first
# passes.
_ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**34),
    "MALLOC_TOP_PAD_": str(2**26),
}


@dataclass(frozen=True)
class Campaign:
    """Settings of a campaign."""

    # Names of networks that ship, or ``module:function``.  The function returns a callable of
    # images.
    networks: Annotated[tuple[Name, ...], Listed(distinct=True)] = tuple(ARCHITECTURES)
    # Batch and side of the images to trace and time each network with.
    images: Annotated[tuple[Images, ...], Listed(distinct=True)] = ((1, 224), (4, 112))
    # Number of random kernels for each kernel of a network.
    random: Annotated[float, Within(0, 1e6, below=True)] = 1.0
    threads: Annotated[tuple[int, ...], Within(1, 4096), Listed(distinct=True)] = (1,)
    # Percent of one core; empty for none.
    quotas: Annotated[tuple[float, ...], Within(0.1, 1e6), Listed(distinct=True, empty=True)] = ()
    # Processes for each configuration.
    sessions: Times = 5
    # For each kernel in a session, see :class:`msbgen.kernels.measure.timing.Effort`.
    repetitions: Times = 15
    warmups: NoneOrMore = 2
    patience: Annotated[
        float, Parsed(parse_seconds, "a time of 0.001 s or more" + _EXAMPLES), Within(1e-3, 1e7)
    ] = 2.0
    # Timed passes of each network in a session.
    passes: Times = 9
    # Name of this machine in the dataset, and folder of the modules of networks.
    node: str = ""
    folder: str = "."
    # Seed of random kernels and of every order.
    seed: NoneOrMore = 0
    # Cores of the sessions; by default the last available ones.
    cores: Annotated[tuple[int, ...], Within(0, 65535), Listed(distinct=True, empty=True)] = ()
    # Pause before each session, and its longest duration [s].
    cooldown: Pause = 0.0
    timeout: Annotated[
        float, Parsed(parse_seconds, "a time of 0.01 s or more" + _EXAMPLES), Within(0.01, 1e7)
    ] = 3600.0
    # Number of retries of a failed session.
    retries: NoneOrMore = 1

    def __post_init__(self) -> None:
        check_fields(self)
        for name in self.networks:
            module, colon, function = name.partition(":")
            if name not in ARCHITECTURES and not (colon and module and function):
                near = difflib.get_close_matches(name, ARCHITECTURES, 1)
                hint = f"did you mean '{near[0]}'?" if near else f"{', '.join(ARCHITECTURES)} are."
                raise ArgumentError(f"network '{name}' is not known, nor 'module:function'; {hint}")

    def effort(self, burst: float) -> Effort:
        """Effort of timing kernels."""
        return Effort(self.repetitions, self.warmups, self.patience, burst)

    def burst(self, threads: int, quota: float | None) -> float:
        """Least duration of a timing under a quota [s]; 0 if it does not limit the threads."""
        return 0.0 if quota is None or quota >= 100 * threads else _PERIODS * _PERIOD

    def to_json(self) -> str:
        """All settings as one line."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Campaign:
        """Campaign from the line of :meth:`to_json`."""
        content: dict[str, Any] = json.loads(text)
        settings = {k: tuple(v) if isinstance(v, list) else v for k, v in content.items()}
        settings["images"] = tuple((batch, side) for batch, side in content["images"])
        return replace(cls(), **settings)

    def spec(self) -> Spec:
        """Sweep whose runs are the sessions."""
        resources = [ResourceSpec("threads", "threads", tuple(map(float, sorted(self.threads))))]
        if self.quotas:
            resources.append(
                ResourceSpec("cpu_quota", "quota", tuple(sorted(self.quotas)), _PERIOD)
            )
        available = sorted(os.sched_getaffinity(0))
        return Spec(
            command=(sys.executable, "-m", _SESSION, self.to_json()),
            resources=tuple(resources), task="kernels", folder=self.folder,
            environment={**_ALLOCATOR, **_path()}, interval=_PERIOD, runs=self.sessions, warmups=0,
            retries=self.retries, seed=self.seed,
            cores=self.cores or tuple(available[-max(self.threads) :]), cooldown=self.cooldown,
            timeout=self.timeout,
        )  # fmt: skip


def _path() -> dict[str, str]:
    """Environment in which sessions find this package."""
    package = str(Path(__file__).resolve().parents[4])
    return {"PYTHONPATH": os.pathsep.join([package, *filter(None, [os.getenv("PYTHONPATH")])])}


def read_campaign(path: str | os.PathLike[str]) -> Campaign:
    """Campaign from a TOML file; :class:`ProfileError` names an unknown key or an invalid value."""
    path, content = read_toml(path)
    for key in ("threads", "quotas"):  # in any order
        if isinstance(content.get(key), list) and fits(tuple[float, ...], content[key]):
            content[key] = sorted(content[key])
    return record(Campaign, content, path.name, folder=str(path.resolve().parent))
