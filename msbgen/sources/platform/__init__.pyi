"""The public names of ``msbgen.platform`` for type checkers."""

from msbgen.sources.platform.beside import replay_beside as replay_beside
from msbgen.sources.platform.config import RESOURCES as RESOURCES
from msbgen.sources.platform.config import PlatformConfig as PlatformConfig
from msbgen.sources.platform.config import platform_contexts as platform_contexts
from msbgen.sources.platform.record import RecordError as RecordError
from msbgen.sources.platform.record import check_recording_needs as check_recording_needs
from msbgen.sources.platform.record import record_trace as record_trace
from msbgen.sources.platform.replay import replay_trace as replay_trace
from msbgen.sources.platform.stream import StreamError as StreamError
from msbgen.sources.platform.stream import read_stream as read_stream
from msbgen.sources.platform.stream import validate_stream as validate_stream
from msbgen.sources.platform.stream import write_stream as write_stream
from msbgen.sources.platform.trace import TraceError as TraceError
from msbgen.sources.platform.trace import make_trace as make_trace
from msbgen.sources.platform.trace import read_trace as read_trace
from msbgen.sources.platform.trace import validate_trace as validate_trace
from msbgen.sources.platform.trace import write_trace as write_trace
