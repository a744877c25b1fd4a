"""The public names of ``msbgen.evaluate`` for type checkers."""

from msbgen.evaluate.baselines import BASELINES as BASELINES
from msbgen.evaluate.baselines import mean_profiles as mean_profiles
from msbgen.evaluate.metrics import dtw_distance as dtw_distance
from msbgen.evaluate.metrics import energy_distance as energy_distance
from msbgen.evaluate.metrics import normalised_dtw as normalised_dtw
from msbgen.evaluate.metrics import wasserstein_distance as wasserstein_distance
from msbgen.evaluate.scores import METHODS as METHODS
from msbgen.evaluate.scores import Method as Method
from msbgen.evaluate.scores import improvement as improvement
from msbgen.evaluate.scores import leave_contexts_out as leave_contexts_out
from msbgen.evaluate.scores import score_methods as score_methods
from msbgen.evaluate.scores import summarise as summarise
