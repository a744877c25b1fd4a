"""The conditional multi-marginal Schrödinger bridge, on arrays."""

from msbgen.core.lazy import public_names

__getattr__, __dir__, __all__ = public_names(
    __name__,
    {
        "solution": ("Bridge", "Cloud", "Status"),
        "solve": ("NotConvergedError", "SolverConfig", "solve_bridge"),
    },
)
