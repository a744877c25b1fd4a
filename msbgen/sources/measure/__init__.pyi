"""The public names of ``msbgen.measure`` for type checkers."""

from msbgen.sources.measure.dataset import RUN_METADATA as RUN_METADATA
from msbgen.sources.measure.dataset import Run as Run
from msbgen.sources.measure.dataset import profile_dataset as profile_dataset
from msbgen.sources.measure.readers.perf import parse_perf as parse_perf
from msbgen.sources.measure.readers.perf import read_perf as read_perf
from msbgen.sources.measure.readers.recording import Recording as Recording
from msbgen.sources.measure.readers.resample import resample as resample
