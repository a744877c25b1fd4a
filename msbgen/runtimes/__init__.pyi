"""The public names of ``msbgen.runtimes`` for type checkers."""

from msbgen.runtimes.dataset import make as make
from msbgen.runtimes.dataset import read as read
from msbgen.runtimes.dataset import run_table as run_table
from msbgen.runtimes.dataset import write as write
from msbgen.runtimes.evaluation import evaluate as evaluate
from msbgen.runtimes.fitting import fit as fit
from msbgen.runtimes.predictor import RuntimePredictor as RuntimePredictor
from msbgen.runtimes.storage import load as load
from msbgen.runtimes.storage import save as save
from msbgen.runtimes.towers import TowerSettings as TowerSettings
