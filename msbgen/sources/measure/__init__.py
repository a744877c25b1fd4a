"""Measurements on real machines: sweeps of a program, and recordings of other tools."""

from msbgen.core.lazy import public_names

__getattr__, __dir__, __all__ = public_names(
    __name__,
    {
        "dataset": ("RUN_METADATA", "Run", "profile_dataset"),
        "readers.perf": ("parse_perf", "read_perf"),
        "readers.recording": ("Recording",),
        "readers.resample": ("resample",),
    },
)
