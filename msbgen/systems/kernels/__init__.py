"""Kernels and networks over clocks: datasets, runtime and power, the choice of a clock."""

from msbgen.core.lazy import public_names

__getattr__, __dir__, __all__ = public_names(
    __name__,
    {
        "choice.configuration_model": ("ConfigurationModel",),
        "choice.costs": ("Costs", "costs_of"),
        "dataset": ("join", "make", "read", "write"),
        "energy": ("EnergyCorrector",),
        "predictor.evaluation": ("evaluate",),
        "predictor.networks": ("predict_network",),
        "predictor.kernel_predictor": ("KernelPredictor",),
        "readers": (
            "ColumnMap",
            "from_profiles",
            "read_column_map",
            "read_jetson",
            "read_table",
            "read_nv_dvfs",
            "read_zeus",
        ),
        "variability": ("Variability", "compare_groups", "variability_rows"),
        "workloads": ("make_workload", "read_workload", "write_workload"),
    },
    ("choice",),
)
