"""Networks with images and kernels to measure, the same in every session."""

import hashlib
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np

from msbgen.core.errors import ProfileError
from msbgen.systems.kernels.kinds import Point
from msbgen.systems.kernels.measure.architectures import ARCHITECTURES, Network, images
from msbgen.systems.kernels.measure.campaign import Campaign
from msbgen.systems.kernels.measure.sampling import draw_points
from msbgen.systems.kernels.measure.torch_import import load_torch
from msbgen.systems.kernels.measure.trace import Trace, trace


@dataclass(frozen=True)
class NetworkPass:
    """A network with the size of its images: batch and side [pixels]."""

    network: str
    batch: int
    side: int

    @property
    def name(self) -> str:
        """Name of its workload."""
        return f"{self.network.replace(':', '.')}-{self.batch}x{self.side}"


@dataclass(frozen=True)
class MeasurementPlan:
    """Networks and kernels to measure.

    Each of the `passes` has a trace of its launches. The `points` are the kernels of networks, then
    `drawn` random ones.
    """

    passes: tuple[NetworkPass, ...]
    traces: tuple[Trace, ...]
    points: tuple[Point, ...]
    drawn: int

    @cached_property
    def digest(self) -> str:
        """Hash of all names and parameters."""
        names = [one.name for one in self.passes]
        whole = [names, [[point.kind, *point.values] for point in self.points]]
        return hashlib.blake2b(json.dumps(whole).encode(), digest_size=16).hexdigest()


def make_plan(campaign: Campaign) -> MeasurementPlan:
    """Trace the networks of a campaign and draw kernels like theirs.

    A network of the user's that cannot be imported, or run with these images, raises
    :class:`ProfileError`.
    """
    passes = tuple(
        NetworkPass(network, batch, side)
        for network in campaign.networks
        for batch, side in campaign.images
    )
    traces = tuple(_traced(one, campaign.folder) for one in passes)
    seen = list(dict.fromkeys(point for one in traces for point in one.launches))
    drawn = draw_points(seen, campaign.random, np.random.default_rng(campaign.seed))
    return MeasurementPlan(passes, traces, (*seen, *drawn), len(drawn))


def _traced(one: NetworkPass, folder: str) -> Trace:
    run, x = open_network(one.network, folder, "meta"), images(one.batch, one.side, "meta")
    try:
        with load_torch().inference_mode():
            run(x)  # weights are made in the first pass
            return trace(lambda: run(x))
    except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ProfileError(
            f"network '{one.network}' does not run with {one.batch} images of {one.side} × "
            f"{one.side} pixels ({reason}); larger images, or another network, are wanted."
        ) from None


def open_network(name: str, folder: str, device: str = "cpu") -> Callable[[Any], Any]:
    """A network that ships, or the result of the user's ``module:function``."""
    if name in ARCHITECTURES:
        return Network(name, device)
    module, _, function = name.partition(":")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        build = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ProfileError(
            f"network '{name}' cannot be imported ({error}); 'module:function' of a module beside "
            f"the spec is wanted."
        ) from None
    with load_torch().device(device):
        network = build()
    if hasattr(network, "eval"):
        network.eval()
    return network
