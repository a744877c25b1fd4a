"""Which machine runs a program best, from one run on one of them; queues of jobs."""

from msbgen.core.lazy import public_names

__getattr__, __dir__, __all__ = public_names(
    __name__,
    {
        "dataset": ("make", "read", "relative_times", "write"),
        "evaluation": ("evaluate",),
        "kriging": ("KrigingSettings",),
        "predictor": ("RelativePredictor", "cross_predict"),
        "readers": ("read_table", "from_profiles", "from_runtimes"),
    },
    ("queue",),
)
