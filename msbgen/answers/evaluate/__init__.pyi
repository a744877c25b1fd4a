"""The public names of ``msbgen.evaluate`` for type checkers."""

from msbgen.answers.evaluate.baselines import BASELINES as BASELINES
from msbgen.answers.evaluate.baselines import mean_profiles as mean_profiles
from msbgen.answers.evaluate.metrics import dtw_distance as dtw_distance
from msbgen.answers.evaluate.metrics import energy_distance as energy_distance
from msbgen.answers.evaluate.metrics import normalised_dtw as normalised_dtw
from msbgen.answers.evaluate.metrics import wasserstein_distance as wasserstein_distance
from msbgen.answers.evaluate.scores import METHODS as METHODS
from msbgen.answers.evaluate.scores import Method as Method
from msbgen.answers.evaluate.scores import improvement as improvement
from msbgen.answers.evaluate.scores import leave_contexts_out as leave_contexts_out
from msbgen.answers.evaluate.scores import score_methods as score_methods
from msbgen.answers.evaluate.scores import summarise as summarise
