"""Profile datasets of which a part was not measured."""

import numpy as np

from conftest import synthetic_task
from msbgen.data.schema import COMPLETE, counter_names

GRID = np.array([(w, f) for w in (2.0, 4.0, 8.0) for f in (1.0, 1.5, 2.0)])


def whole(n_runs=4):
    """Nine contexts."""
    return synthetic_task(GRID, n_runs=n_runs)


def in_groups(dataset):
    """Requests in the runs with even numbers, misses in the others."""
    dataset["cache_requests"][:, 1::2] = np.nan
    dataset["cache_misses"][:, 0::2] = np.nan
    return dataset


def cut(dataset, places, share=0.5):
    """Some runs (context, run) ended early."""
    interval = dataset.attrs["interval"]
    complete = np.ones(dataset["duration"].shape, dtype=np.int8)
    for c, r in places:
        kept = int(share * float(dataset["duration"][c, r]) / interval)
        dataset["duration"][c, r] = kept * interval
        for name in counter_names(dataset):
            dataset[name][c, r, kept:] = np.nan
        complete[c, r] = 0
    return dataset.assign({COMPLETE: (("context", "run"), complete, {"units": "1"})})


def with_gaps(dataset, kind, every=17):
    """Every so many samples of every run missing, but for the last ones."""
    for name in counter_names(dataset):
        counts = dataset[name].values
        for t in range(every // 2, counts.shape[2] - 1, every):
            inside = np.isfinite(counts[:, :, t + 1])
            if kind == "carried":
                counts[:, :, t + 1] += np.where(inside, counts[:, :, t], 0.0)
            counts[:, :, t] = np.where(inside, np.nan, counts[:, :, t])
        dataset[name].attrs["gaps"] = kind
    return dataset
