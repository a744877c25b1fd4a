"""Contexts for graphs that run one after another: search, rules, and agents that learn."""

from msbgen.schedule.agents.actions import AgentPerCore, OneAgent
from msbgen.schedule.agents.d3qn import D3QN, D3QNSettings
from msbgen.schedule.agents.environments import gymnasium_environment, pettingzoo_environment
from msbgen.schedule.agents.gates import Gate
from msbgen.schedule.agents.rules import Rule, StepDown, all_fast, heft, powersave
from msbgen.schedule.agents.search import Heat, Search, Truthful, choose_context
from msbgen.schedule.agents.tabular import TabularQ
from msbgen.schedule.agents.training import Learned, Training, TrainingSettings, train
from msbgen.schedule.agents.worlds import (
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
    "Gate",
    "Heat",
    "Learned",
    "OneAgent",
    "Record",
    "Rule",
    "Search",
    "State",
    "Step",
    "StepDown",
    "TabularQ",
    "Training",
    "TrainingSettings",
    "Truthful",
    "World",
    "all_fast",
    "choose_context",
    "gymnasium_environment",
    "heft",
    "pettingzoo_environment",
    "plain_contexts",
    "play_episodes",
    "powersave",
    "train",
]
