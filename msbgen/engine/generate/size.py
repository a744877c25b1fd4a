"""Expected size of a file of generated profiles."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from msbgen.data.profiles import Profiles
from msbgen.engine.generate.distribution import Kind
from msbgen.engine.generate.model import ProfileModel

# A file takes at least a third of the size of its counts after compression; this is below that.
_PACKED_SHARE = 0.25


def expected_size(
    profiles: Profiles,
    n_contexts: int,
    *,
    kind: Kind = "max_likelihood",
    times: float | None = None,
    n_samples: int = 10,
) -> float:
    """Least size of a file of generated profiles on disk [bytes], without a fit.

    `profiles` are the measured ones; other arguments as :meth:`ProfileModel.generate`, `times`
    an output interval [s].
    """
    samples = n_samples if kind == "sample" else 1
    interval = profiles.interval if times is None else times
    rows = float(np.nanmean(profiles.duration)) / interval
    return _PACKED_SHARE * 4.0 * samples * len(profiles.counters) * rows * n_contexts


def most_rows(model: ProfileModel, contexts: ArrayLike, times: float | None = None) -> int:
    """Largest number of intervals of a profile of these contexts, of any kind.

    To allocate arrays before profiles are generated; arguments as :meth:`ProfileModel.generate`.
    """
    longest = model.distribution.longest(model.columns(contexts))
    return int(np.ceil(longest / (model.distribution.interval if times is None else times))) + 1
