"""Generative profiles for every resource context from measurements in a few.

The public names; each is imported from its module when it is first used, so that importing the
package, and the command line's ``--help``, cost nothing.  Type checkers read ``__init__.pyi``.
"""

from importlib import import_module

_MODULES = {
    "bounds.calibration": ("Calibration",),
    "bounds.model": ("Answer", "CalibratedModel", "calibrate_model"),
    "bridge.solve": (
        "Bridge",
        "Cloud",
        "NotConvergedError",
        "SolverConfig",
        "Status",
        "solve_bridge",
    ),
    "data.check": ("validate_profiles",),
    "data.costs": ("Costs", "costs_of"),
    "data.devices": ("Device", "device_contexts", "read_device", "shipped_device"),
    "data.energy": ("add_energy", "power_over_time", "scale_energy", "total_energy"),
    "data.graphs.families": ("family_graph",),
    "data.graphs.readers": ("read_graph",),
    "data.graphs.runs": (
        "join_graph_runs",
        "make_graph_runs",
        "read_graph_runs",
        "write_graph_runs",
    ),
    "data.graphs.schema": ("make_graph", "with_profiles", "with_times"),
    "data.graphs.writers": ("write_graph",),
    "data.kernels": ("join_kernels", "make_kernels", "read_kernels", "write_kernels"),
    "data.kernels_readers": (
        "ColumnMap",
        "kernels_from_profiles",
        "read_column_map",
        "read_jetson",
        "read_kernels_table",
        "read_nv_dvfs",
        "read_zeus",
    ),
    "data.relative": ("make_relative", "read_relative", "relative_times", "write_relative"),
    "data.relative_readers": (
        "read_relative_table",
        "relative_from_profiles",
        "relative_from_runtimes",
    ),
    "data.runtimes": ("make_runtimes", "read_runtimes", "run_table", "write_runtimes"),
    "data.schema": ("all_contexts", "context_table", "make_profiles"),
    "data.shipped": ("shipped_file",),
    "data.store": ("read_profiles", "write_blocks", "write_profiles"),
    "data.variability": ("Variability", "compare_groups", "variability_rows"),
    "data.workloads": ("make_workload", "read_workload", "write_workload"),
    "errors": ("ArgumentError", "MeasurementError", "ProfileError"),
    "evaluate.baselines": ("BASELINES", "mean_profiles"),
    "evaluate.metrics": (
        "dtw_distance",
        "energy_distance",
        "normalised_dtw",
        "wasserstein_distance",
    ),
    "evaluate.scores": (
        "METHODS",
        "Method",
        "improvement",
        "leave_contexts_out",
        "score_methods",
        "summarise",
    ),
    "generate.elapsed_law": ("ElapsedSettings",),
    "generate.law": ("Kind",),
    "generate.model": ("DEFAULT", "PAPER", "PRESETS", "ProfileModel", "fit_profiles"),
    "generate.progress_law": ("ProgressSettings",),
    "machine": ("OnProgress",),
    "plan.plan": ("Plan", "plan_contexts"),
    "predict.graph.predictor": ("GraphPredictor",),
    "predict.graph.storage": ("load_graph_model", "save_graph_model"),
    "predict.kernels.energy": ("EnergyMender",),
    "predict.kernels.configurations": ("ConfigurationModel",),
    "predict.kernels.predictor": ("KernelPredictor",),
    "predict.kernels.storage": ("load_kernels", "save_kernels"),
    "predict.kernels.networks": ("predict_network",),
    "predict.kernels.evaluation": ("evaluate_kernels",),
    "predict.relative.boosting": ("BoostingSettings",),
    "predict.relative.kriging": ("KrigingSettings",),
    "predict.runtimes.completion": ("RuntimePredictor",),
    "predict.runtimes.evaluation": ("evaluate_runtimes", "fit_runtimes"),
    "predict.relative.randomised": ("TreesSettings",),
    "predict.relative.predictor": ("RelativePredictor", "cross_predict"),
    "predict.relative.evaluation": ("evaluate_relative",),
    "predict.relative.storage": ("load_relative", "save_relative"),
    "predict.runtimes.storage": ("load_predictor", "save_predictor"),
    "predict.runtimes.towers": ("TowerSettings",),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'msbgen' has no attribute {name!r}")
    value = getattr(import_module(f"msbgen.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
