"""Which context to run a program in: least energy within bounds that hold, from a few measured."""

from msbgen.data.belief import Belief, Fitted, Predictor
from msbgen.schedule.choose.chooser import Chooser
from msbgen.schedule.choose.decide import Choice, Limits, Outlook, choose, pareto_front

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
