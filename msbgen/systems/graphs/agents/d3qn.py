"""D3QN: a double, duelling network of action values, with options in branches.

With branches b of options (one of contexts, or one per core), the value of a joint action is

    Q(s, a) = V(s) + Σ_b [A_b(s, a_b) − mean over options of A_b(s, ·)],

the duelling network (Wang et al., 2016) with values that add up over agents (Sunehag et al., 2018),
so that the best joint action has the best option of each branch.  The target is double (van Hasselt
et al., 2016): the network chooses the next action, a slow copy of it gives the value.

    y = r + γ (1 − done) Q⁻(s', argmax_a Q(s', a))
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from msbgen.core.machine import load_library
from msbgen.core.records import Count, Positive, ShareOrNone, check_fields
from msbgen.systems.graphs.agents.replay import Transitions

if TYPE_CHECKING:
    from torch import Tensor
else:
    Tensor = Any

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class D3QNSettings:
    """Size and training of the network."""

    # Of the two hidden layers.
    width: Count = 64
    # Learning rate (Adam), and γ.
    rate: Positive = 1e-3
    discount: ShareOrNone = 0.9
    # Transitions of a step.
    batch: Count = 64
    # Share of the network in each update of the slow copy.
    follow: Positive = 0.01

    def __post_init__(self) -> None:
        check_fields(self)


class D3QN:
    """An agent with a double, duelling deep Q-network; needs the extra ``[graph]``.

    `observed` is the size of an observation; `branches` are the numbers of options of each branch.
    ArgumentError: the extra is not installed.
    """

    def __init__(
        self,
        observed: int,
        branches: Sequence[int],
        settings: D3QNSettings = D3QNSettings(),
        *,
        seed: int = 0,
    ):
        torch = self._torch = load_library("torch", "graph", "agents with networks")
        self.branches, self.settings = tuple(branches), settings
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            nn, width = torch.nn, settings.width
            body = nn.Sequential(
                nn.Linear(observed, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
            )
            self.network = nn.ModuleDict(
                {
                    "body": body,
                    "value": nn.Linear(width, 1),
                    "advantage": nn.Linear(width, sum(branches)),
                }
            )
        self.slow = deepcopy(self.network).requires_grad_(False)
        self._optimiser = torch.optim.Adam(self.network.parameters(), lr=settings.rate)

    def advantages(self, observation: NDArray[Any]) -> list[Floats]:
        """Advantages of the options of each branch, (n, options) each."""
        with self._torch.no_grad():
            _, parts = self._heads(self.network, self._tensor(observation))
        return [part.numpy().astype(float) for part in parts]

    def best(self, observation: NDArray[Any]) -> Indices:
        """The best option of each branch, (branches,)."""
        return np.array([int(part[0].argmax()) for part in self.advantages(observation[None])])

    def values(self, observation: NDArray[Any], action: Indices) -> Floats:
        """Values of joint actions (n, branches), (n,)."""
        with self._torch.no_grad():
            values = self._value(
                self.network, self._tensor(observation), self._torch.from_numpy(action)
            )
        return values.numpy().astype(float)

    def targets(self, batch: Transitions) -> Floats:
        """Target values of a batch, (n,)."""
        with self._torch.no_grad():
            return self._targets(batch).numpy().astype(float)

    def learn(self, batch: Transitions) -> float:
        """Take a gradient step on a batch; returns the mean Huber loss before it."""
        torch = self._torch
        target = self._targets(batch)
        value = self._value(
            self.network, self._tensor(batch.observation), torch.from_numpy(batch.action)
        )
        loss = torch.nn.functional.smooth_l1_loss(value, target)
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self._optimiser.step()
        with torch.no_grad():
            slow, fast = list(self.slow.parameters()), list(self.network.parameters())
            torch._foreach_lerp_(slow, fast, self.settings.follow)
        return float(loss.detach())

    def _targets(self, batch: Transitions) -> Tensor:
        torch = self._torch
        with torch.no_grad():
            following = self._tensor(batch.following)
            _, parts = self._heads(self.network, following)
            action = torch.stack([part.argmax(dim=1) for part in parts], dim=1)
            value = self._value(self.slow, following, action)
            discount = self.settings.discount * (1.0 - self._tensor(batch.done))
            return self._tensor(batch.reward) + discount * value

    def _heads(self, network: Any, observation: Tensor) -> tuple[Tensor, list[Tensor]]:
        hidden = network["body"](observation)
        parts = network["advantage"](hidden).split(self.branches, dim=1)
        return network["value"](hidden)[:, 0], list(parts)

    def _value(self, network: Any, observation: Tensor, action: Tensor) -> Tensor:
        total, parts = self._heads(network, observation)
        for i, part in enumerate(parts):
            chosen = part.gather(1, action[:, i : i + 1])[:, 0]
            total = total + chosen - part.mean(dim=1)
        return total

    def _tensor(self, values: NDArray[Any]) -> Tensor:
        return self._torch.from_numpy(np.asarray(values, dtype=np.float32))
