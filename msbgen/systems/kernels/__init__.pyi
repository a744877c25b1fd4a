"""The public names of ``msbgen.kernels`` for type checkers."""

from msbgen.systems.kernels import choice as choice
from msbgen.systems.kernels.choice.configuration_model import (
    ConfigurationModel as ConfigurationModel,
)
from msbgen.systems.kernels.choice.costs import Costs as Costs
from msbgen.systems.kernels.choice.costs import costs_of as costs_of
from msbgen.systems.kernels.dataset import join as join
from msbgen.systems.kernels.dataset import make as make
from msbgen.systems.kernels.dataset import read as read
from msbgen.systems.kernels.dataset import write as write
from msbgen.systems.kernels.energy import EnergyCorrector as EnergyCorrector
from msbgen.systems.kernels.predictor.evaluation import evaluate as evaluate
from msbgen.systems.kernels.predictor.kernel_predictor import KernelPredictor as KernelPredictor
from msbgen.systems.kernels.predictor.networks import predict_network as predict_network
from msbgen.systems.kernels.readers import ColumnMap as ColumnMap
from msbgen.systems.kernels.readers import from_profiles as from_profiles
from msbgen.systems.kernels.readers import read_column_map as read_column_map
from msbgen.systems.kernels.readers import read_jetson as read_jetson
from msbgen.systems.kernels.readers import read_nv_dvfs as read_nv_dvfs
from msbgen.systems.kernels.readers import read_table as read_table
from msbgen.systems.kernels.readers import read_zeus as read_zeus
from msbgen.systems.kernels.variability import Variability as Variability
from msbgen.systems.kernels.variability import compare_groups as compare_groups
from msbgen.systems.kernels.variability import variability_rows as variability_rows
from msbgen.systems.kernels.workloads import make_workload as make_workload
from msbgen.systems.kernels.workloads import read_workload as read_workload
from msbgen.systems.kernels.workloads import write_workload as write_workload
