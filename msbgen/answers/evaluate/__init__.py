"""Distances between profiles, interpolation baselines, and scores of methods."""

from msbgen.core.lazy import public_names

__getattr__, __dir__, __all__ = public_names(
    __name__,
    {
        "baselines": ("BASELINES", "mean_profiles"),
        "metrics": ("dtw_distance", "energy_distance", "normalised_dtw", "wasserstein_distance"),
        "scores": (
            "METHODS",
            "Method",
            "improvement",
            "leave_contexts_out",
            "score_methods",
            "summarise",
        ),
    },
)
