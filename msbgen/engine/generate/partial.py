"""Expected totals of runs that were cut, and means where a counter was not measured."""

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import MeasurementError
from msbgen.engine.trend.coordinates import names_for_all
from msbgen.engine.trend.fit import Trend, fit_trend

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def expected_totals(
    counts: Floats, duration: Floats, contexts: Floats, clock: int, complete: Bools
) -> Floats:
    """Expected total of the progress counter in cut runs, (n_known, n_runs); NaN elsewhere.

    The median of the other runs of the context, or, where every run was cut, the prediction of a
    trend of these medians over the contexts.  Arguments as the fields of
    :class:`~msbgen.engine.generate.measurements.Measurements`; MeasurementError where no run went
    on to its end.
    """
    present = np.isfinite(duration)
    out = np.full(duration.shape, np.nan)
    if (complete | ~present).all():
        return out
    total = duration if clock == 0 else np.nansum(counts[..., clock - 1], axis=2)
    known = complete & present & (total > 0)
    ended = known.any(axis=1)
    if not ended.any():
        raise MeasurementError(
            "no run went on to its end: how long the task takes is not known; measure one run "
            "without a timeout."
        )
    usual = np.full(len(total), np.nan)
    for c in np.flatnonzero(ended):
        usual[c] = np.median(total[c, known[c]])
    if not ended.all():
        trend = fit_trend(
            contexts[ended],
            usual[ended, None, None],
            weights=known[ended].sum(axis=1),
            coordinates=names_for_all(contexts[ended], contexts),
            find_caps=False,
        )
        usual[~ended] = trend.predict(contexts[~ended])[:, 0, 0]
    cut = present & ~complete
    out[cut] = np.broadcast_to(usual[:, None], out.shape)[cut]
    return out


def fill_means(means: Floats, trend: Trend, contexts: Floats | None = None) -> Floats:
    """Mean amounts (n_known, bins, k), with a trend's prediction where no run measured them.

    The prediction is scaled, quantity by quantity, by the ratio of measured to predicted amounts in
    the other bins of the context.  The contexts are those of the trend unless others are given.
    """
    missing = np.isnan(means)
    if not missing.any():
        return means
    predicted = trend.predict(trend.contexts if contexts is None else contexts)
    measured, fitted = (
        np.where(missing, 0.0, a).sum(axis=1, keepdims=True) for a in (means, predicted)
    )
    both = (measured > 0) & (fitted > 0)
    level = np.divide(measured, fitted, out=np.ones_like(measured), where=both)
    return np.where(missing, predicted * level, means)
