"""The virtual platform: traces of real programs, simulated caches, bandwidth and clock."""

from msbgen.core.lazy import public_names

__getattr__, __dir__, __all__ = public_names(
    __name__,
    {
        "config": ("RESOURCES", "PlatformConfig", "platform_contexts"),
        "record": ("RecordError", "check_recording_needs", "record_trace"),
        "replay": ("replay_trace",),
        "trace": ("TraceError", "make_trace", "read_trace", "validate_trace", "write_trace"),
    },
)
