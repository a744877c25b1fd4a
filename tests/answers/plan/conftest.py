"""A real program, measured a little."""

from pathlib import Path

import numpy as np
import pytest

from msbgen.answers.plan.plan import plan_contexts
from msbgen.engine.generate.fit import fit_profiles
from msbgen.engine.generate.progress_distribution import ProgressSettings
from msbgen.sources.platform import PlatformConfig, read_trace, replay_trace

TRACES = Path(__file__).resolve().parents[3] / "profiles" / "traces"


@pytest.fixture(scope="session")
def gzip():
    """Its trace, and a model of 40 of 4,560 contexts, one run each but for two in ten of them."""
    plan = plan_contexts(PlatformConfig().levels, 40)
    runs = np.where(np.arange(40) < 10, 2, 1)
    trace = read_trace(TRACES / "gzip.nc")
    return trace, fit_profiles(replay_trace(trace, plan.contexts, runs), ProgressSettings(bins=50))
