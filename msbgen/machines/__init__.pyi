"""The public names of ``msbgen.machines`` for type checkers."""

from msbgen.machines import queue as queue
from msbgen.machines.dataset import make_relative as make_relative
from msbgen.machines.dataset import read_relative as read_relative
from msbgen.machines.dataset import relative_times as relative_times
from msbgen.machines.dataset import write_relative as write_relative
from msbgen.machines.evaluation import evaluate_relative as evaluate_relative
from msbgen.machines.kriging import KrigingSettings as KrigingSettings
from msbgen.machines.predictor import RelativePredictor as RelativePredictor
from msbgen.machines.predictor import cross_predict as cross_predict
from msbgen.machines.readers import read_relative_table as read_relative_table
from msbgen.machines.readers import relative_from_profiles as relative_from_profiles
from msbgen.machines.readers import relative_from_runtimes as relative_from_runtimes
from msbgen.machines.storage import load_relative as load_relative
from msbgen.machines.storage import save_relative as save_relative
