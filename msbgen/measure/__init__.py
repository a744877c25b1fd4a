"""Real machines: what tools recorded, and measuring by ourselves."""

from msbgen.measure.dataset import NOTES, Run, profile_dataset
from msbgen.measure.perf import parse_perf, read_perf
from msbgen.measure.recording import Recording
from msbgen.measure.resample import resample

__all__ = [
    "NOTES",
    "Recording",
    "Run",
    "parse_perf",
    "profile_dataset",
    "read_perf",
    "resample",
]
