"""The public names for type checkers; at run time ``__init__.py`` finds them."""

from msbgen.bounds.calibration import Calibration as Calibration
from msbgen.bounds.model import Answer as Answer
from msbgen.bounds.model import CalibratedModel as CalibratedModel
from msbgen.bounds.model import calibrate_model as calibrate_model
from msbgen.bridge.solve import Bridge as Bridge
from msbgen.bridge.solve import Cloud as Cloud
from msbgen.bridge.solve import NotConvergedError as NotConvergedError
from msbgen.bridge.solve import SolverConfig as SolverConfig
from msbgen.bridge.solve import Status as Status
from msbgen.bridge.solve import solve_bridge as solve_bridge
from msbgen.data.check import validate_profiles as validate_profiles
from msbgen.data.costs import Costs as Costs
from msbgen.data.costs import costs_of as costs_of
from msbgen.data.devices import Device as Device
from msbgen.data.devices import device_contexts as device_contexts
from msbgen.data.devices import read_device as read_device
from msbgen.data.devices import shipped_device as shipped_device
from msbgen.data.energy import add_energy as add_energy
from msbgen.data.energy import power_over_time as power_over_time
from msbgen.data.energy import scale_energy as scale_energy
from msbgen.data.energy import total_energy as total_energy
from msbgen.data.graphs.families import family_graph as family_graph
from msbgen.data.graphs.readers import read_graph as read_graph
from msbgen.data.graphs.runs import join_graph_runs as join_graph_runs
from msbgen.data.graphs.runs import make_graph_runs as make_graph_runs
from msbgen.data.graphs.runs import read_graph_runs as read_graph_runs
from msbgen.data.graphs.runs import write_graph_runs as write_graph_runs
from msbgen.data.graphs.schema import make_graph as make_graph
from msbgen.data.graphs.schema import with_profiles as with_profiles
from msbgen.data.graphs.schema import with_times as with_times
from msbgen.data.graphs.writers import write_graph as write_graph
from msbgen.data.kernels import join_kernels as join_kernels
from msbgen.data.kernels import make_kernels as make_kernels
from msbgen.data.kernels import read_kernels as read_kernels
from msbgen.data.kernels import write_kernels as write_kernels
from msbgen.data.kernels_readers import ColumnMap as ColumnMap
from msbgen.data.kernels_readers import kernels_from_profiles as kernels_from_profiles
from msbgen.data.kernels_readers import read_column_map as read_column_map
from msbgen.data.kernels_readers import read_jetson as read_jetson
from msbgen.data.kernels_readers import read_kernels_table as read_kernels_table
from msbgen.data.kernels_readers import read_nv_dvfs as read_nv_dvfs
from msbgen.data.kernels_readers import read_zeus as read_zeus
from msbgen.data.relative import make_relative as make_relative
from msbgen.data.relative import read_relative as read_relative
from msbgen.data.relative import relative_times as relative_times
from msbgen.data.relative import write_relative as write_relative
from msbgen.data.relative_readers import read_relative_table as read_relative_table
from msbgen.data.relative_readers import relative_from_profiles as relative_from_profiles
from msbgen.data.relative_readers import relative_from_runtimes as relative_from_runtimes
from msbgen.data.runtimes import make_runtimes as make_runtimes
from msbgen.data.runtimes import read_runtimes as read_runtimes
from msbgen.data.runtimes import run_table as run_table
from msbgen.data.runtimes import write_runtimes as write_runtimes
from msbgen.data.schema import all_contexts as all_contexts
from msbgen.data.schema import context_table as context_table
from msbgen.data.schema import make_profiles as make_profiles
from msbgen.data.shipped import shipped_file as shipped_file
from msbgen.data.store import read_profiles as read_profiles
from msbgen.data.store import write_blocks as write_blocks
from msbgen.data.store import write_profiles as write_profiles
from msbgen.data.variability import Variability as Variability
from msbgen.data.variability import compare_groups as compare_groups
from msbgen.data.variability import variability_rows as variability_rows
from msbgen.data.workloads import make_workload as make_workload
from msbgen.data.workloads import read_workload as read_workload
from msbgen.data.workloads import write_workload as write_workload
from msbgen.errors import ArgumentError as ArgumentError
from msbgen.errors import MeasurementError as MeasurementError
from msbgen.errors import ProfileError as ProfileError
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
from msbgen.generate.elapsed_law import ElapsedSettings as ElapsedSettings
from msbgen.generate.law import Kind as Kind
from msbgen.generate.model import DEFAULT as DEFAULT
from msbgen.generate.model import PAPER as PAPER
from msbgen.generate.model import PRESETS as PRESETS
from msbgen.generate.model import ProfileModel as ProfileModel
from msbgen.generate.model import fit_profiles as fit_profiles
from msbgen.generate.progress_law import ProgressSettings as ProgressSettings
from msbgen.machine import OnProgress as OnProgress
from msbgen.plan.plan import Plan as Plan
from msbgen.plan.plan import plan_contexts as plan_contexts
from msbgen.predict.graph.predictor import GraphPredictor as GraphPredictor
from msbgen.predict.graph.storage import load_graph_model as load_graph_model
from msbgen.predict.graph.storage import save_graph_model as save_graph_model
from msbgen.predict.kernels.configurations import ConfigurationModel as ConfigurationModel
from msbgen.predict.kernels.energy import EnergyMender as EnergyMender
from msbgen.predict.kernels.evaluation import evaluate_kernels as evaluate_kernels
from msbgen.predict.kernels.networks import predict_network as predict_network
from msbgen.predict.kernels.predictor import KernelPredictor as KernelPredictor
from msbgen.predict.kernels.storage import load_kernels as load_kernels
from msbgen.predict.kernels.storage import save_kernels as save_kernels
from msbgen.predict.relative.boosting import BoostingSettings as BoostingSettings
from msbgen.predict.relative.evaluation import evaluate_relative as evaluate_relative
from msbgen.predict.relative.kriging import KrigingSettings as KrigingSettings
from msbgen.predict.relative.predictor import RelativePredictor as RelativePredictor
from msbgen.predict.relative.predictor import cross_predict as cross_predict
from msbgen.predict.relative.randomised import TreesSettings as TreesSettings
from msbgen.predict.relative.storage import load_relative as load_relative
from msbgen.predict.relative.storage import save_relative as save_relative
from msbgen.predict.runtimes.completion import RuntimePredictor as RuntimePredictor
from msbgen.predict.runtimes.evaluation import evaluate_runtimes as evaluate_runtimes
from msbgen.predict.runtimes.evaluation import fit_runtimes as fit_runtimes
from msbgen.predict.runtimes.storage import load_predictor as load_predictor
from msbgen.predict.runtimes.storage import save_predictor as save_predictor
from msbgen.predict.runtimes.towers import TowerSettings as TowerSettings

__all__ = [
    "BASELINES",
    "DEFAULT",
    "METHODS",
    "PAPER",
    "PRESETS",
    "Answer",
    "ArgumentError",
    "BoostingSettings",
    "Bridge",
    "CalibratedModel",
    "Calibration",
    "Cloud",
    "ColumnMap",
    "ConfigurationModel",
    "Costs",
    "Device",
    "ElapsedSettings",
    "EnergyMender",
    "GraphPredictor",
    "KernelPredictor",
    "Kind",
    "KrigingSettings",
    "MeasurementError",
    "Method",
    "NotConvergedError",
    "OnProgress",
    "Plan",
    "ProfileError",
    "ProfileModel",
    "ProgressSettings",
    "RelativePredictor",
    "RuntimePredictor",
    "SolverConfig",
    "Status",
    "TowerSettings",
    "TreesSettings",
    "Variability",
    "add_energy",
    "all_contexts",
    "calibrate_model",
    "compare_groups",
    "context_table",
    "costs_of",
    "cross_predict",
    "device_contexts",
    "dtw_distance",
    "energy_distance",
    "evaluate_kernels",
    "evaluate_relative",
    "evaluate_runtimes",
    "family_graph",
    "fit_profiles",
    "fit_runtimes",
    "improvement",
    "join_graph_runs",
    "join_kernels",
    "kernels_from_profiles",
    "leave_contexts_out",
    "load_graph_model",
    "load_kernels",
    "load_predictor",
    "load_relative",
    "make_graph",
    "make_graph_runs",
    "make_kernels",
    "make_profiles",
    "make_relative",
    "make_runtimes",
    "make_workload",
    "mean_profiles",
    "normalised_dtw",
    "plan_contexts",
    "power_over_time",
    "predict_network",
    "read_column_map",
    "read_device",
    "read_graph",
    "read_graph_runs",
    "read_jetson",
    "read_kernels",
    "read_kernels_table",
    "read_nv_dvfs",
    "read_profiles",
    "read_relative",
    "read_relative_table",
    "read_runtimes",
    "read_workload",
    "read_zeus",
    "relative_from_profiles",
    "relative_from_runtimes",
    "relative_times",
    "run_table",
    "save_graph_model",
    "save_kernels",
    "save_predictor",
    "save_relative",
    "scale_energy",
    "score_methods",
    "shipped_device",
    "shipped_file",
    "solve_bridge",
    "summarise",
    "total_energy",
    "validate_profiles",
    "variability_rows",
    "wasserstein_distance",
    "with_profiles",
    "with_times",
    "write_blocks",
    "write_graph",
    "write_graph_runs",
    "write_kernels",
    "write_profiles",
    "write_relative",
    "write_runtimes",
    "write_workload",
]
