"""Real machines: what tools recorded, and measuring by ourselves."""

from msbgen.measure.dataset import NOTES, Run, profile_dataset
from msbgen.measure.readers.perf import parse_perf, read_perf
from msbgen.measure.readers.recording import Recording
from msbgen.measure.readers.resample import resample

__all__ = [
    "NOTES",
    "Recording",
    "Run",
    "parse_perf",
    "profile_dataset",
    "read_perf",
    "resample",
]
