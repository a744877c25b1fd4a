"""Which context to run a program in: least energy within bounds that hold, from a few measured."""

from msbgen.core.choice import Choice, Limits, Outlook, choose, pareto_front
from msbgen.kernels.choice.chooser import Chooser
from msbgen.kernels.choice.posterior import Belief, Fitted, Predictor

__all__ = [
    "Belief",
    "Choice",
    "Chooser",
    "Fitted",
    "Limits",
    "Outlook",
    "Predictor",
    "choose",
    "pareto_front",
]
