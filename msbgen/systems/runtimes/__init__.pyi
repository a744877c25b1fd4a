"""The public names of ``msbgen.runtimes`` for type checkers."""

from msbgen.systems.runtimes.dataset import make as make
from msbgen.systems.runtimes.dataset import read as read
from msbgen.systems.runtimes.dataset import run_table as run_table
from msbgen.systems.runtimes.dataset import write as write
from msbgen.systems.runtimes.evaluation import evaluate as evaluate
from msbgen.systems.runtimes.fitting import fit as fit
from msbgen.systems.runtimes.predictor import RuntimePredictor as RuntimePredictor
from msbgen.systems.runtimes.towers import TowerSettings as TowerSettings
