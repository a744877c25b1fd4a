"""The public names of ``msbgen.machines`` for type checkers."""

from msbgen.machines import queue as queue
from msbgen.machines.dataset import make as make
from msbgen.machines.dataset import read as read
from msbgen.machines.dataset import relative_times as relative_times
from msbgen.machines.dataset import write as write
from msbgen.machines.evaluation import evaluate as evaluate
from msbgen.machines.kriging import KrigingSettings as KrigingSettings
from msbgen.machines.predictor import RelativePredictor as RelativePredictor
from msbgen.machines.predictor import cross_predict as cross_predict
from msbgen.machines.readers import from_profiles as from_profiles
from msbgen.machines.readers import from_runtimes as from_runtimes
from msbgen.machines.readers import read_table as read_table
from msbgen.machines.storage import load as load
from msbgen.machines.storage import save as save
