"""The picture of generated over measured profiles."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.contexts import squared_distances, to_unit_range
from msbgen.data.files import replace_file
from msbgen.data.schema import (
    context_table,
    counter_names,
    describe_context,
    replicate_dim,
)


def plot_profiles(
    generated: Mapping[str, xr.Dataset],
    truth: xr.Dataset,
    contexts: NDArray[np.int64],
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
) -> None:
    """Draw generated over measured profiles, a column a context and a row a counter, as PNG.

    Parameters
    ----------
    generated : mapping of label to profile dataset
        With the contexts of `truth`, in its order, and no replicates.
    truth : xarray.Dataset
        Measured runs.
    contexts : ndarray of int
        Rows to draw.
    path : path
    overwrite : bool

    Raises
    ------
    FileExistsError
        `path` exists and `overwrite` is False.
    ModuleNotFoundError
        matplotlib is not installed (extra ``plot``).
    """
    from matplotlib.figure import Figure

    names = counter_names(truth)
    dim = replicate_dim(truth)
    figure = Figure(figsize=(6 * len(contexts), 2.1 * len(names) + 0.8), layout="constrained")
    axes = figure.subplots(len(names), len(contexts), sharex="col", sharey="row", squeeze=False)
    for column, context in enumerate(contexts):
        here = truth.isel(context=context)
        last = 0.0
        for row, name in enumerate(names):
            axis = axes[row, column]
            runs = here[name].transpose("time", ...).values.reshape(here.sizes["time"], -1)
            axis.plot(here["time"], runs, color="0.75", linewidth=0.8)
            for i, (label, dataset) in enumerate(generated.items()):
                one = dataset[name].isel(context=context)
                axis.plot(dataset["time"], one, color=f"C{i}", linewidth=1.4, label=label)
                last = max(last, float(dataset["time"][one.notnull().values].max()))
            last = max(last, float(here["time"][np.isfinite(runs).any(axis=1)].max()))
            axis.spines[["top", "right"]].set_visible(False)
            if column == 0:
                label = str(truth[name].attrs.get("long_name", name))
                axis.set_ylabel(f"{label}\nper interval", fontsize=9)
        axes[0, column].set_title(describe_context(truth, int(context)), fontsize=10)
        axes[-1, column].set_xlabel("time [s]")
        axes[-1, column].set_xlim(0, 1.02 * last)
    for axis in axes[:, 0]:
        axis.set_ylim(bottom=0)  # fixes the top too, so not before all columns are drawn
    axes[0, 0].plot([], [], color="0.75", label=f"measured {dim or 'profile'}s")
    axes[0, 0].legend(frameon=False, fontsize=8)
    figure.suptitle(f"{truth.attrs.get('task', 'task')}: generated over measured profiles")
    with replace_file(path, overwrite=overwrite) as partial:
        figure.savefig(partial, format="png", dpi=130)


def two_far_contexts(train: xr.Dataset, truth: xr.Dataset) -> NDArray[np.int64]:
    """Rows of `truth` to look at: the context farthest from all measured, then far from both.

    Distances with every resource divided by its measured range.
    """
    known = to_unit_range(context_table(train), context_table(train))
    unseen = to_unit_range(context_table(train), context_table(truth))
    distance = squared_distances(unseen, known).min(axis=1) + 1e-30
    first = int(distance.argmax())
    apart = squared_distances(unseen, unseen[[first]])[:, 0]
    second = int(np.minimum(distance / distance.max(), apart / max(apart.max(), 1e-30)).argmax())
    return np.unique([first, second])
