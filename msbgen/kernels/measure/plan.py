"""Everything that a session measures: networks with images, and kernels; the same in each."""

from __future__ import annotations

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
from msbgen.kernels.kinds import Point
from msbgen.kernels.measure.architectures import ARCHITECTURES
from msbgen.kernels.measure.campaign import Campaign
from msbgen.kernels.measure.network import Network, images
from msbgen.kernels.measure.points import draw_points
from msbgen.kernels.measure.torches import load_torch
from msbgen.kernels.measure.trace import Trace, trace


@dataclass(frozen=True)
class Pass:
    """A network with its images.

    Attributes
    ----------
    network : str
    batch, side : int
    """

    network: str
    batch: int
    side: int

    @property
    def name(self) -> str:
        """What its workload is called."""
        return f"{self.network.replace(':', '.')}-{self.batch}x{self.side}"


@dataclass(frozen=True)
class Plan:
    """What is measured.

    Attributes
    ----------
    passes : tuple of Pass
    traces : tuple of Trace
        What each launches.
    points : tuple of Point
        Kernels, those of networks first.
    drawn : int
        How many of them, at the end, were drawn at random.
    """

    passes: tuple[Pass, ...]
    traces: tuple[Trace, ...]
    points: tuple[Point, ...]
    drawn: int

    @cached_property
    def digest(self) -> str:
        """What tells it from every other plan."""
        names = [one.name for one in self.passes]
        whole = [names, [[point.kind, *point.values] for point in self.points]]
        return hashlib.blake2b(json.dumps(whole).encode(), digest_size=16).hexdigest()


def make_plan(campaign: Campaign) -> Plan:
    """Trace the networks of a campaign and draw kernels like theirs.

    Raises
    ------
    ProfileError
        A network of the user's that cannot be had, or run with these images.
    ArgumentError
        torch is not installed.
    """
    passes = tuple(
        Pass(network, batch, side)
        for network in campaign.networks
        for batch, side in campaign.images
    )
    traces = tuple(_traced(one, campaign.folder) for one in passes)
    seen = list(dict.fromkeys(point for one in traces for point in one.launches))
    drawn = draw_points(seen, campaign.random, np.random.default_rng(campaign.seed))
    return Plan(passes, traces, (*seen, *drawn), len(drawn))


def _traced(one: Pass, folder: str) -> Trace:
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
    """A network that ships, or what ``module:function`` of the user's returns.

    Raises
    ------
    ProfileError
        No such module or function.
    """
    if name in ARCHITECTURES:
        return Network(name, device)
    module, _, function = name.partition(":")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        build = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ProfileError(
            f"network '{name}' cannot be had ({error}); 'module:function' of a module beside the "
            f"spec is wanted."
        ) from None
    with load_torch().device(device):
        network = build()
    if hasattr(network, "eval"):
        network.eval()
    return network
