"""The picture of generated over measured profiles."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.contexts import squared_distances, to_unit_range
from msbgen.core.errors import ArgumentError
from msbgen.core.machine import load_library
from msbgen.data.files import check_output, path_of, replace_file
from msbgen.data.profiles import Profiles

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DOTS_PER_INCH = 130
_MOST_COLUMNS = 20  # a wider PNG could not be opened


def plot_profiles(
    generated: Mapping[str, xr.Dataset],
    truth: xr.Dataset,
    contexts: ArrayLike,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
) -> None:
    """Draw generated over measured profiles as PNG; parameters as :func:`profile_figure`."""
    check_output(path_of(path), overwrite=overwrite)
    figure = profile_figure(generated, truth, contexts)
    with replace_file(path, overwrite=overwrite) as partial:
        figure.savefig(partial, format="png", dpi=_DOTS_PER_INCH)


def profile_figure(
    generated: Mapping[str, xr.Dataset], truth: xr.Dataset, contexts: ArrayLike
) -> Figure:
    """Generated over measured profiles: a column for each context, a row for each counter.

    `generated` has profiles by label, in the contexts of `truth`, in its order, without replicates.
    `contexts`, (n,), are rows of the measured runs `truth` to draw.  Measured runs are grey lines,
    with a coloured one over them for each entry of `generated`.
    ArgumentError: rows outside of `truth`, too many rows, datasets that do not match it, or
    matplotlib (extra ``plot``) is not installed.
    """
    figures = load_library("matplotlib.figure", "plot", "the picture")
    measured = Profiles.of(truth)
    made = {label: Profiles.of(dataset) for label, dataset in generated.items()}
    rows = _checked_rows(contexts, len(measured.contexts))
    for label, profiles in made.items():
        _check_beside(label, profiles, measured)
    names = list(measured.counters)
    figure = figures.Figure(figsize=(6 * len(rows), 2.1 * len(names) + 0.8), layout="constrained")
    axes = figure.subplots(len(names), len(rows), sharex="col", sharey="row", squeeze=False)
    for column, context in enumerate(rows):
        last = 0.0
        for row, name in enumerate(names):
            axis = axes[row, column]
            runs = measured.samples[row][context]
            axis.plot(_times(measured), runs.T, color="0.75", linewidth=0.8)
            for i, (label, profiles) in enumerate(made.items()):
                one = profiles.samples[row][context, 0]
                axis.plot(_times(profiles), one, color=f"C{i}", linewidth=1.4, label=label)
                last = max(last, _end(profiles, np.isfinite(one)))
            last = max(last, _end(measured, np.atleast_1d(np.isfinite(runs).any(axis=0))))
            axis.spines[["top", "right"]].set_visible(False)
            if column == 0:
                label = str(measured.counters[name].get("long_name", name))
                axis.set_ylabel(f"{label}\nper interval", fontsize=9, parse_math=False)
        title = measured.describe_context(int(context))
        # names with a dollar are not TeX
        axes[0, column].set_title(title, fontsize=10, parse_math=False)
        axes[-1, column].set_xlabel("time [s]")
        axes[-1, column].set_xlim(0, 1.02 * last)
    for axis in axes[:, 0]:
        axis.set_ylim(bottom=0)  # also fixes the top, so after all columns
    axes[0, 0].plot([], [], color="0.75", label=f"measured {measured.replicate or 'profile'}s")
    for text in axes[0, 0].legend(frameon=False, fontsize=8).get_texts():
        text.set_parse_math(False)
    figure.suptitle(
        f"{measured.task or 'task'}: generated over measured profiles", parse_math=False
    )
    return figure


def _times(profiles: Profiles) -> NDArray[np.float64]:
    """Ends of the sampling intervals [s]."""
    return profiles.interval * np.arange(1.0, profiles.n_times + 1)


def _end(profiles: Profiles, running: NDArray[np.bool_]) -> float:
    """Time at which the last sample ends [s]; 0 without samples."""
    return float(_times(profiles)[running].max(initial=0.0))


def _checked_rows(contexts: ArrayLike, n: int) -> NDArray[np.int64]:
    rows = np.atleast_1d(np.asarray(contexts))
    if rows.ndim != 1 or not 1 <= len(rows) <= _MOST_COLUMNS or rows.dtype.kind not in "iu":
        raise ArgumentError(
            f"contexts is {contexts}; 1 to {_MOST_COLUMNS} whole numbers are wanted."
        )
    if rows.min() < 0 or rows.max() >= n:
        raise ArgumentError(
            f"contexts is {rows.tolist()}; rows from 0 to {n - 1} of the truth are wanted."
        )
    return rows


def _check_beside(label: str, profiles: Profiles, truth: Profiles) -> None:
    if profiles.replicate:
        raise ArgumentError(
            f"'{label}' is a dataset of {profiles.replicate}s; one profile per context is wanted."
        )
    for what in ("counters", "resources"):
        names, wanted = list(getattr(profiles, what)), list(getattr(truth, what))
        if names != wanted:
            raise ArgumentError(
                f"'{label}' is a dataset with {what} {', '.join(names)}; those of the truth, "
                f"{', '.join(wanted)}, are wanted."
            )
    if not np.array_equal(profiles.contexts, truth.contexts):
        raise ArgumentError(
            f"'{label}' is a dataset of other contexts than the truth; the same, in the same "
            f"order, are wanted."
        )


def two_far_contexts(train: xr.Dataset, truth: xr.Dataset) -> NDArray[np.int64]:
    """Two rows of `truth`: the context farthest from all measured ones, then one far from both.

    Distances with every resource divided by its measured range.
    """
    known = Profiles.of(train).contexts
    measured = to_unit_range(known, known)
    unseen = to_unit_range(known, Profiles.of(truth).contexts)
    distance = squared_distances(unseen, measured).min(axis=1) + 1e-30
    first = int(distance.argmax())
    apart = squared_distances(unseen, unseen[[first]])[:, 0]
    second = int(np.minimum(distance / distance.max(), apart / max(apart.max(), 1e-30)).argmax())
    return np.unique([first, second])
