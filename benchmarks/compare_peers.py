"""Other tests of the runs of two versions: by context, pooled, and of change points."""

import warnings
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]

_LEVEL, _RESAMPLES = 0.05, 999


def alarms_by_context(old: Floats, new: Floats) -> dict[str, bool | None]:
    """Whether a test of each context alarms, by Holm's procedure; None for single runs."""
    if old.shape[1] < 2:
        return {"Welch": None, "Mann–Whitney": None}
    logs = np.log(old), np.log(new)
    welch = stats.ttest_ind(*logs, axis=1, equal_var=False).pvalue
    ranks = stats.mannwhitneyu(*logs, axis=1, method="exact").pvalue
    # Holm's first step is Bonferroni's: some context alarms if the smallest p-value does
    return {
        name: bool(np.min(p) * len(old) < _LEVEL)
        for name, p in (("Welch", welch), ("Mann–Whitney", ranks))
    }


def bootstrap_alarm(old: Floats, new: Floats, rng: np.random.Generator) -> bool:
    """Whether the percentile interval of the ratio excludes 1: runs are resampled, or contexts."""
    n, runs = old.shape
    if runs == 1:
        drawn = np.log(new / old)[rng.integers(n, size=(_RESAMPLES, n)), 0].mean(axis=1)
    else:
        means = []
        for values in (old, new):
            index = rng.integers(runs, size=(_RESAMPLES, n, runs))
            means.append(np.log(values[np.arange(n)[:, None], index].mean(axis=2)).mean(axis=1))
        drawn = means[1] - means[0]
    low, high = np.quantile(drawn, [_LEVEL / 2, 1 - _LEVEL / 2])
    return not low <= 0 <= high


def mixed_alarm(old: Floats, new: Floats) -> bool:
    """Whether the version matters in a mixed model: log time, with an intercept by context."""
    from statsmodels.regression.mixed_linear_model import MixedLM

    logs = np.log(np.concatenate([old, new], axis=1))
    context, run = np.indices(logs.shape)
    design = np.column_stack([np.ones(logs.size), run.ravel() >= old.shape[1]]).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = MixedLM(logs.ravel(), design, context.ravel()).fit()
    return bool(np.asarray(fitted.pvalues)[1] < _LEVEL)


def change_points(series: Floats, rng: np.random.Generator) -> list[float]:
    """Change points of a series (n,), as shares of its length.

    E-divisive (Matteson and James, J. Am. Stat. Assoc. 109, 2014): segments are halved where the
    energy statistic is largest, as long as permutations within them reject.
    """
    edges, n = [0, len(series)], len(series)
    while True:
        segments = [series[a:b] for a, b in pairwise(edges)]
        best = [_best_split(segment) for segment in segments]
        largest = max(size for size, _ in best)
        exceeded = 0
        for _ in range(99):
            drawn = max(_best_split(rng.permutation(segment))[0] for segment in segments)
            exceeded += drawn >= largest
        if largest == 0 or (exceeded + 1) / 100 > _LEVEL:
            return [edge / n for edge in edges[1:-1]]
        k = int(np.argmax([size for size, _ in best]))
        edges = sorted([*edges, edges[k] + best[k][1]])


def _best_split(series: Floats, least: int = 3) -> tuple[float, int]:
    """Largest scaled energy statistic of two parts of a series, and the length of the first."""
    n = len(series)
    if n < 2 * least:
        return 0.0, 0
    apart = np.zeros((n + 1, n + 1))
    apart[1:, 1:] = np.abs(series[:, None] - series[None]).cumsum(axis=0).cumsum(axis=1)
    t = np.arange(least, n - least + 1)
    left, cross = apart[t, t], apart[t, n] - apart[t, t]
    right = apart[n, n] - 2 * apart[t, n] + apart[t, t]
    m = n - t
    statistic = 2 * cross / (t * m) - left / (t * (t - 1)) - right / (m * (m - 1))
    scaled = t * m / n * statistic
    return float(scaled.max()), int(t[scaled.argmax()])
