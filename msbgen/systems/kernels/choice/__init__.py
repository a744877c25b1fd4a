"""Choose a context for a program from few measurements: predict all contexts, then choose.

:class:`Chooser` does both.  :func:`choose` makes the choice alone, from any predictions.
"""

from msbgen.core.constrained_choice import Choice, ContextPredictions, Limits, choose, pareto_front
from msbgen.systems.kernels.choice.chooser import Chooser
from msbgen.systems.kernels.choice.posterior import FittedPredictor, Predictor, ProgramPosterior

__all__ = [
    "Choice",
    "Chooser",
    "ContextPredictions",
    "FittedPredictor",
    "Limits",
    "Predictor",
    "ProgramPosterior",
    "choose",
    "pareto_front",
]
