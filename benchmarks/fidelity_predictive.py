"""Samples of contexts never measured, beside new runs there: do their ranges hold them?

Of 100 samples the 2.5 and 97.5 % quantiles are a range.  Its width is compared with the narrowest
range that holds as many runs: that of samples of a known context, stretched by one common factor.
"""

from typing import Any

import numpy as np
from fidelity_scores import draw_contexts, without
from numpy.typing import NDArray
from tables import PROFILES

import msbgen
from msbgen.data.schema import duration_array
from msbgen.sources.platform import platform_contexts, read_trace, replay_trace

Floats = NDArray[np.float64]

DESIGNS = {"27 x 3": ("grid:3x3x3", 3), "125 x 10": ("grid:5x5x5", 10)}
TESTED, RUNS, SAMPLES = 80, 10, 100
_FACTORS = np.geomspace(0.3, 40.0, 80)


def predictive(trace: str) -> dict[str, dict[str, float]]:
    """Shares of new runs within the ranges of samples, and relative widths, by design."""
    recorded, found = read_trace(PROFILES / "traces" / f"{trace}.nc"), {}
    for name, (grid, runs) in DESIGNS.items():
        known = platform_contexts(grid)
        tested = draw_contexts(trace, without(platform_contexts("all"), known), TESTED)
        model = msbgen.fit_profiles(replay_trace(recorded, known, runs, rng=8))
        truth = duration_array(replay_trace(recorded, tested, RUNS, rng=9))

        def drawn(*, as_known: bool, model: Any = model, tested: Floats = tested) -> Floats:
            made = model.generate(
                tested, kind="sample", n_samples=SAMPLES, rng=1, as_known=as_known
            )
            return np.log(duration_array(made))

        samples, as_known = drawn(as_known=False), drawn(as_known=True)
        held = _held(samples, truth)
        middle = as_known.mean(axis=1, keepdims=True)
        stretched = (middle + factor * (as_known - middle) for factor in _FACTORS)
        narrowest = next((_width(s) for s in stretched if _held(s, truth) >= held), np.nan)
        found[name] = {
            "held": held,
            "held as known": _held(as_known, truth),
            "relative width": _width(samples) / narrowest,
        }
    return found


def _range(samples: Floats) -> Floats:
    return np.quantile(samples, [0.025, 0.975], axis=1)


def _held(samples: Floats, truth: Floats) -> float:
    """Share of the runs (q, runs) within the ranges of log samples (q, n)."""
    low, high = _range(samples)[..., None]
    return float(((np.log(truth) >= low) & (np.log(truth) <= high)).mean())


def _width(samples: Floats) -> float:
    return float(np.diff(_range(samples), axis=0).mean())
