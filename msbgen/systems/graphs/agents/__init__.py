"""Choice of contexts for graphs that run one after another: search, rules, learning agents."""

from msbgen.systems.graphs.agents.actions import AgentPerCore, OneAgent
from msbgen.systems.graphs.agents.d3qn import D3QN, D3QNSettings
from msbgen.systems.graphs.agents.environments import gymnasium_environment, pettingzoo_environment
from msbgen.systems.graphs.agents.gates import Gate
from msbgen.systems.graphs.agents.rules import Rule, ThermalGovernor, all_fast, heft, powersave
from msbgen.systems.graphs.agents.search import FutureCost, Oracle, Search, offers_of
from msbgen.systems.graphs.agents.tabular import TabularQ
from msbgen.systems.graphs.agents.training import LearnedPolicy, Training, TrainingSettings, train
from msbgen.systems.graphs.agents.worlds import (
    Cost,
    Record,
    State,
    Step,
    World,
    plain_contexts,
    play_episodes,
)

__all__ = [
    "D3QN",
    "AgentPerCore",
    "Cost",
    "D3QNSettings",
    "FutureCost",
    "Gate",
    "LearnedPolicy",
    "OneAgent",
    "Oracle",
    "Record",
    "Rule",
    "Search",
    "State",
    "Step",
    "TabularQ",
    "ThermalGovernor",
    "Training",
    "TrainingSettings",
    "World",
    "all_fast",
    "gymnasium_environment",
    "heft",
    "offers_of",
    "pettingzoo_environment",
    "plain_contexts",
    "play_episodes",
    "powersave",
    "train",
]
