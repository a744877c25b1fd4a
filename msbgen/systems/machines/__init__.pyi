"""The public names of ``msbgen.machines`` for type checkers."""

from msbgen.systems.machines import queue as queue
from msbgen.systems.machines.dataset import make as make
from msbgen.systems.machines.dataset import read as read
from msbgen.systems.machines.dataset import relative_times as relative_times
from msbgen.systems.machines.dataset import write as write
from msbgen.systems.machines.evaluation import evaluate as evaluate
from msbgen.systems.machines.kriging import KrigingSettings as KrigingSettings
from msbgen.systems.machines.predictor import RelativePredictor as RelativePredictor
from msbgen.systems.machines.predictor import cross_predict as cross_predict
from msbgen.systems.machines.readers import from_profiles as from_profiles
from msbgen.systems.machines.readers import from_runtimes as from_runtimes
from msbgen.systems.machines.readers import read_table as read_table
