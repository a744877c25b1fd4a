"""Choose a context for a program from few measurements: predict all contexts, then choose.

:class:`Chooser` does both.  :func:`choose` makes the choice alone, from any offers.
"""

from msbgen.core.choice import Choice, Limits, Offers, choose, pareto_front
from msbgen.systems.kernels.choice.chooser import Chooser
from msbgen.systems.kernels.choice.posterior import FittedPredictor, Predictor, ProgramPosterior

__all__ = [
    "Choice",
    "Chooser",
    "FittedPredictor",
    "Limits",
    "Offers",
    "Predictor",
    "ProgramPosterior",
    "choose",
    "pareto_front",
]
