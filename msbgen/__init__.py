"""Generative profiles for every resource context from measurements in a few.

The public names; each is imported from its module when it is first used, so that importing the
package, and the command line's ``--help``, cost nothing.
"""

from importlib import import_module

_MODULES = {
    "baselines": ("BASELINES", "mean_profiles"),
    "bridge": ("Bridge", "NotConvergedError", "SolverConfig", "Status", "solve_bridge"),
    "bounds": ("Calibration",),
    "calibrate": ("CalibratedModel", "calibrate_model"),
    "elapsed": ("ElapsedSettings",),
    "evaluate": ("METHODS", "improvement", "leave_contexts_out", "score_methods", "summarise"),
    "files": ("ProfileError",),
    "generate": ("DEFAULT", "PAPER", "PRESETS", "ProfileModel", "fit_profiles"),
    "metrics": ("dtw_distance", "energy_distance", "normalised_dtw", "wasserstein_distance"),
    "plan": ("Plan", "plan_contexts"),
    "schema": (
        "all_contexts",
        "make_profiles",
        "read_profiles",
        "validate_profiles",
        "write_blocks",
        "write_profiles",
    ),
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
