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
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from msbgen.core.errors import ProfileError, quoted
from msbgen.data.toml import amount, check_keys, read_toml
from msbgen.sources.measure.sweep.spec import ResourceSpec, Spec, SpecTable
from msbgen.systems.kernels.measure.architectures import ARCHITECTURES
from msbgen.systems.kernels.measure.timing import Effort

# Networks halve their images five times; larger sides are no images [pixels].
_LEAST_SIDE, _MOST_SIDE, _MOST_BATCH = 32, 4096, 4096
_MOST_THREADS = 4096
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
    networks: tuple[str, ...] = tuple(ARCHITECTURES)
    # Batch and side of the images to trace and time each network with.
    images: tuple[tuple[int, int], ...] = ((1, 224), (4, 112))
    # Number of random kernels for each kernel of a network.
    random: float = 1.0
    threads: tuple[int, ...] = (1,)
    # Percent of one core; empty for none.
    quotas: tuple[float, ...] = ()
    # Processes for each configuration.
    sessions: int = 5
    # For each kernel in a session, see :class:`msbgen.kernels.measure.timing.Effort`.
    repetitions: int = 15
    warmups: int = 2
    patience: float = 2.0
    # Timed passes of each network in a session.
    passes: int = 9
    # Name of this machine in the dataset, and folder of the modules of networks.
    node: str = ""
    folder: str = "."
    # Seed of random kernels and of every order.
    seed: int = 0
    # Cores of the sessions; by default the last available ones.
    cores: tuple[int, ...] = ()
    # Pause before each session, and its longest duration [s].
    cooldown: float = 0.0
    timeout: float = 3600.0
    # Number of retries of a failed session.
    retries: int = 1

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
    at = path.name
    check_keys(content, [k for k in Campaign.__dataclass_fields__ if k != "folder"], (), at)
    read, default = SpecTable(content, at), Campaign()
    return Campaign(
        networks=_networks(read.names("networks", default.networks), at),
        images=_images(content.get("images", default.images), at),
        random=_least(content, "random", default.random, 0.0, at),
        threads=tuple(_distinct(content, "threads", default.threads, 1, _MOST_THREADS, at)),
        quotas=tuple(_distinct(content, "quotas", default.quotas, 0.1, 1e6, at)),
        sessions=read.whole("sessions", default.sessions, least=1),
        repetitions=read.whole("repetitions", default.repetitions, least=1),
        warmups=read.whole("warmups", default.warmups),
        patience=read.seconds("patience", default.patience, least=1e-3),
        passes=read.whole("passes", default.passes, least=1),
        node=read.text("node", "x") if "node" in content else "",
        folder=str(path.resolve().parent),
        seed=read.whole("seed", default.seed),
        cores=read.cores("cores"),
        cooldown=read.seconds("cooldown", default.cooldown),
        timeout=read.seconds("timeout", default.timeout, least=0.01),
        retries=read.whole("retries", default.retries),
    )


def _networks(names: Sequence[str], at: str) -> tuple[str, ...]:
    for name in names:
        module, colon, function = name.partition(":")
        if colon and module and function:
            continue
        if name not in ARCHITECTURES:
            near = difflib.get_close_matches(name, ARCHITECTURES, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"{', '.join(ARCHITECTURES)} are."
            raise ProfileError(
                f"{at}: network '{name}' is not known, nor 'module:function'; {hint}"
            )
    return tuple(names)


def _images(value: Any, at: str) -> tuple[tuple[int, int], ...]:
    wanted = (
        f"pairs of batch (1 to {_MOST_BATCH}) and side ({_LEAST_SIDE} to {_MOST_SIDE}), each once"
    )
    pairs = list(value) if isinstance(value, (list, tuple)) else []
    good = bool(pairs) and all(
        isinstance(pair, (list, tuple))
        and len(pair) == 2
        and all(type(number) is int for number in pair)
        and 1 <= pair[0] <= _MOST_BATCH
        and _LEAST_SIDE <= pair[1] <= _MOST_SIDE
        for pair in pairs
    )
    if not good or len({tuple(pair) for pair in pairs}) < len(pairs):
        raise ProfileError(f"{at}: 'images' is {quoted(value)}; {wanted}, are wanted.")
    return tuple((batch, side) for batch, side in pairs)


def _least(content: dict[str, Any], key: str, default: float, least: float, at: str) -> float:
    value = amount(content.get(key, default), key, at)
    if not least <= value < 1e6:
        raise ProfileError(f"{at}: '{key}' is {value:g}; a number ≥ {least:g} is wanted.")
    return value


def _distinct(
    content: dict[str, Any], key: str, default: Sequence[Any], least: float, most: float, at: str
) -> list[Any]:
    value = content.get(key, list(default))
    kinds = (int,) if isinstance(least, int) else (int, float)
    good = isinstance(value, list) and all(
        type(number) in kinds and least <= number <= most for number in value
    )
    if not good or len(set(value)) < len(value) or (key in content and not value):
        what = "whole numbers" if kinds == (int,) else "numbers"
        raise ProfileError(
            f"{at}: '{key}' is {quoted(value)}; distinct {what} ≥ {least:g} are wanted."
        )
    return sorted(value)
