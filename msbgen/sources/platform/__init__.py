"""The virtual platform: traces of real programs, simulated caches, bandwidth and clock."""

from msbgen.core.lazy import public_names

__getattr__, __dir__, __all__ = public_names(
    __name__,
    {
        "beside": ("replay_beside",),
        "config": ("RESOURCES", "PlatformConfig", "platform_contexts"),
        "record": ("RecordError", "check_recording_needs", "record_trace"),
        "replay": ("replay_trace",),
        "stream": ("StreamError", "read_stream", "validate_stream", "write_stream"),
        "trace": ("TraceError", "make_trace", "read_trace", "validate_trace", "write_trace"),
    },
)
