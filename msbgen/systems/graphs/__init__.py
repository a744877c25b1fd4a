"""Task graphs: datasets, devices, a simulator, predictions, and contexts to run them in."""

from msbgen.core.lazy import public_names

__getattr__, __dir__, __all__ = public_names(
    __name__,
    {
        "dataset": ("make", "with_profiles", "with_times"),
        "devices": ("Device", "device_contexts", "read_device", "shipped_device"),
        "families.catalogue": ("family_graph",),
        "predictor.network_predictor": ("NetworkPredictor", "load_predictor"),
        "predictor.predictor": ("GraphPredictor",),
        "readers": ("read",),
        "runs": ("join_runs", "make_runs", "read_runs", "write_runs"),
        "writers": ("write",),
    },
    ("agents", "simulator"),
)
