"""The virtual platform: real programs' traces, simulated caches, bandwidth and clock."""

from msbgen.platform.config import RESOURCES, PlatformConfig, platform_contexts
from msbgen.platform.record import RecordError, check_recording_needs, record_trace
from msbgen.platform.replay import replay
from msbgen.platform.trace import (
    TraceError,
    make_trace,
    read_trace,
    validate_trace,
    write_trace,
)

__all__ = [
    "RESOURCES",
    "PlatformConfig",
    "RecordError",
    "TraceError",
    "check_recording_needs",
    "make_trace",
    "platform_contexts",
    "read_trace",
    "record_trace",
    "replay",
    "validate_trace",
    "write_trace",
]
