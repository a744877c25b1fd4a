"""Predict runtimes that were not measured: any workload on any platform, alone or beside others."""

from msbgen.core.lazy import public_names

__getattr__, __dir__, __all__ = public_names(
    __name__,
    {
        "dataset": ("make", "read", "run_table", "write"),
        "evaluation": ("evaluate",),
        "fitting": ("fit",),
        "predictor": ("RuntimePredictor",),
        "towers": ("TowerSettings",),
    },
)
