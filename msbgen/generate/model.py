"""Fit a law to measured profiles and generate the profiles of any context.

``fit_profiles(dataset, settings) -> ProfileModel``; ``model.generate(contexts) -> Dataset``.  The
labelled shell: it validates, calls a law on arrays (:mod:`msbgen.generate.progress_law`, or the
paper's :mod:`msbgen.generate.elapsed_law`) and puts coordinates on the answer.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self, get_args

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.contexts import Hull, to_unit_range
from msbgen.data.check import validate_profiles
from msbgen.data.schema import (
    check_units,
    checked_contexts,
    context_table,
    count_array,
    counter_attrs,
    counter_names,
    describe_context,
    duration_array,
    inherited_attrs,
    join_profiles,
    make_profiles,
    resource_attrs,
    sampling_interval,
)
from msbgen.data.store import load_netcdf, save_netcdf
from msbgen.errors import ProfileError
from msbgen.generate.clock import resample
from msbgen.generate.elapsed_law import ElapsedLaw, ElapsedSettings
from msbgen.generate.law import Kind
from msbgen.generate.progress_law import ProgressLaw, ProgressSettings
from msbgen.machine import OnProgress

Floats = NDArray[np.float64]

MODEL_SCHEMA = "msbgen-model/2"

_log = logging.getLogger("msbgen")

# The settings of the paper's authors: ε = 0.1, scaling to [0, 0.1] per snapshot, snapshots every
# 50 ms, Hilbert tolerance 1e-12, context coordinates part of the cost.
PAPER = ElapsedSettings()
DEFAULT = ProgressSettings()

Settings = ProgressSettings | ElapsedSettings
# Contexts this many measured ranges away are a mistake of units, not an extrapolation.
_FAR = 1e3
# The most measured contexts: the trend takes their number to the third power, minutes at 1,000.
_MOST_KNOWN = 1_000
# Counts in a block of contexts [bytes], and contexts that a law answers together.
_BLOCK_BYTES = 2**26
_TILE = 128

PRESETS: dict[str, Settings] = {"default": DEFAULT, "paper": PAPER}
_LAWS = {"progress": ProgressLaw, "elapsed": ElapsedLaw}


@dataclass(frozen=True, eq=False)
class ProfileModel:
    """A fitted law that answers for every context.

    Attributes
    ----------
    law : ProgressLaw or ElapsedLaw
        The fitted bridge, on arrays.
    resources, counters, attrs : dict
        Labels, as in the measured dataset.
    """

    law: ProgressLaw | ElapsedLaw
    resources: dict[str, dict[str, Any]]
    counters: dict[str, dict[str, Any]]
    attrs: dict[str, Any] = field(default_factory=dict)

    def generate(
        self,
        contexts: ArrayLike,
        *,
        kind: Kind = "max_likelihood",
        times: ArrayLike | float | None = None,
        n_samples: int = 10,
        rng: np.random.Generator | int | None = None,
        progress: OnProgress | None = None,
    ) -> xr.Dataset:
        """Generate the profiles of any contexts.

        Parameters
        ----------
        contexts : array_like, (n_query, n_resources)
            In the order and units of the measured resources; known contexts are allowed.
        kind : {"max_likelihood", "mean", "sample"}
            The most likely state at each time until the median duration (the paper's profile);
            the mean of the conditional law of the state until the mean duration; or `n_samples`
            random profiles a context.
        times : array_like, (n_times,), or float
            Ends of the output intervals [s], equally spaced from one interval on and long enough
            for every profile; or that interval alone [s], as often as needed.  By default the
            measured interval.
        n_samples : int
            Random profiles a context, for kind "sample".
        rng : numpy.random.Generator or int
            Where the samples come from, or its seed; equal ones give equal samples.
        progress : callable
            Called with (done, total) contexts.

        Returns
        -------
        xarray.Dataset
            A profile dataset with dims (context, time), or (context, sample, time), and a
            variable ``extrapolated``: 1 where the context lies outside the hull of the known
            ones.

        Raises
        ------
        ValueError
            Contexts or times of the wrong form; times too short.
        """
        return join_profiles(
            list(
                self.stream(
                    contexts,
                    kind=kind,
                    times=times,
                    n_samples=n_samples,
                    rng=rng,
                    progress=progress,
                )
            )
        )

    def stream(
        self,
        contexts: ArrayLike,
        *,
        kind: Kind = "max_likelihood",
        times: ArrayLike | float | None = None,
        n_samples: int = 10,
        rng: np.random.Generator | int | None = None,
        progress: OnProgress | None = None,
    ) -> Iterator[xr.Dataset]:
        """Generate the same as :meth:`generate`, block after block of contexts.

        For what would not fit into memory: one block, of about a hundred megabytes, is in
        memory at a time.  ``msbgen.write_blocks(model.stream(contexts), path)`` writes one file.

        Parameters and errors as :meth:`generate`, raised at once where it is no matter of the
        profiles' length.

        Yields
        ------
        xarray.Dataset
            The profiles of the next contexts, in the order of `contexts`, as long as the longest
            among them.
        """
        query = self.checked(contexts)
        if kind not in get_args(Kind):
            raise ValueError(f"kind is {kind!r}; one of {', '.join(get_args(Kind))} is wanted.")
        if n_samples != int(n_samples) or n_samples < 1:
            raise ValueError(f"n_samples is {n_samples}; a whole number ≥ 1 is wanted.")
        ends = None if times is None else _checked_times(times)
        n_samples = n_samples if kind == "sample" else 1
        rng = np.random.default_rng(rng)
        attrs = {
            **self.attrs,
            "source": f"generated by msbgen from {len(self.law.contexts)} measured contexts",
            "kind": kind,
            "settings": json.dumps(self.law.labels()["settings"]),
            **self.law.provenance(kind),
        }
        return (
            self._block(query, rows, kind, ends, n_samples, rng, attrs, progress)
            for rows in self._blocks(len(query), n_samples, ends)
        )

    def _blocks(self, n_query: int, n_samples: int, times: Floats | None) -> Iterator[slice]:
        """Contexts to be generated at a time: rows of about _BLOCK_BYTES, whole tiles of a law.

        They depend on the job alone, so that equal jobs give equal files on every machine.
        """
        interval = (
            self.law.interval if times is None else min(float(times.flat[0]), self.law.interval)
        )
        rows = np.ceil(float(np.nanmax(self.law.duration)) / interval)
        each = 8 * len(self.counters) * n_samples * rows
        step = max(int(_BLOCK_BYTES / each), 1)
        step -= step % _TILE if step > _TILE else 0
        return (slice(i, min(i + step, n_query)) for i in range(0, n_query, step))

    def _block(
        self,
        query: Floats,
        rows: slice,
        kind: Kind,
        times: Floats | None,
        n_samples: int,
        rng: np.random.Generator,
        attrs: Mapping[str, Any],
        progress: OnProgress | None,
    ) -> xr.Dataset:
        some = query[rows]

        def step(done: int, total: int) -> None:
            if progress:
                progress(rows.start + len(some) * done // total, len(query))

        counts, duration = self.law.profiles(
            some, kind, n_samples=n_samples, rng=rng, progress=step
        )
        counts, interval = self._resampled(counts, duration, times)
        return make_profiles(
            counts,
            duration,
            some,
            interval=interval,
            resources=self.resources,
            counters=self.counters,
            replicate="sample",
            attrs=attrs,
            extrapolated=self._hull.outside(some),
        )

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the model to one netCDF file (numbers and JSON; nothing is pickled).

        Raises
        ------
        FileExistsError
            `path` exists and `overwrite` is False.
        """
        save_netcdf(self._as_dataset(), path, overwrite=overwrite)

    def _as_dataset(self) -> xr.Dataset:
        labels = {
            "resources": self.resources,
            "counters": self.counters,
            "attrs": self.attrs,
            "law": self.law.labels(),
            "kind": next(kind for kind, law in _LAWS.items() if isinstance(self.law, law)),
        }
        return xr.Dataset(
            {
                "contexts": (("known", "resource"), self.law.contexts),
                "duration": (("known", "run"), self.law.duration, {"units": "s"}),
                **self.law.to_arrays(),
            },
            attrs={
                "schema": MODEL_SCHEMA,
                "interval": self.law.interval,
                "labels": json.dumps(labels, default=_plain),
            },
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that :meth:`save` wrote; it answers as the saved one did.

        Raises
        ------
        ProfileError
            The file cannot be read or is no model.
        """
        return cls._from_dataset(load_netcdf(path), Path(path).name)

    @classmethod
    def _from_dataset(cls, ds: xr.Dataset, source: str) -> Self:
        if ds.attrs.get("schema") != MODEL_SCHEMA:
            got = ds.attrs.get("schema")
            raise ProfileError(
                f"{source}: attribute 'schema' is {got!r}; a model file says '{MODEL_SCHEMA}'."
            )
        try:
            labels = json.loads(ds.attrs["labels"])
            arrays = {str(name): variable.values for name, variable in ds.data_vars.items()}
            law = _LAWS[labels["kind"]].from_arrays(
                arrays,
                arrays["contexts"],
                arrays["duration"],
                float(ds.attrs["interval"]),
                labels["law"],
            )
            return cls(law, labels["resources"], labels["counters"], labels["attrs"])
        except (KeyError, TypeError, ValueError) as error:
            raise ProfileError(
                f"{source}: the model is not whole ({error!r}); fit it again."
            ) from None

    @cached_property
    def _hull(self) -> Hull:
        return Hull.of(self.law.contexts)

    def checked(self, contexts: ArrayLike) -> Floats:
        """Contexts to answer for, (n_query, n_resources).

        Raises
        ------
        ValueError
            Another shape, levels that are no finite numbers or have no place in the coordinates of
            the model, or so far away that their units must be others.
        """
        query = checked_contexts(contexts, self.resources)
        check_units(query, self.resources)
        away = np.abs(to_unit_range(self.law.contexts, query)).max(axis=1)
        if np.any(away > _FAR):
            row = int(np.argmax(away))
            raise ValueError(
                f"contexts are {_FAR:g} times the measured range away at row {row}: "
                f"{query[row].tolist()}; check the units."
            )
        self.law.check(query)
        return query

    def _resampled(
        self, counts: NDArray[Any], duration: Floats, times: Floats | None
    ) -> tuple[NDArray[Any], float]:
        """Move counts from the measured intervals to the intervals that end at `times`."""
        n_rows = int(np.isfinite(counts[..., 0]).sum(axis=-1).max())
        counts = counts[..., :n_rows, :]
        if times is None:
            return counts, self.law.interval
        if times.ndim and times[-1] < duration.max() * (1 - 1e-9):
            raise ValueError(
                f"times end at {times[-1]:g} s, a profile lasts {duration.max():g} s: add times."
            )
        interval = float(times.flat[0])
        return resample(counts, duration, self.law.interval, interval), interval


def _checked_times(times: ArrayLike) -> Floats:
    """Ends of output intervals, (n_times,), or the interval alone, ()."""
    ends = np.asarray(times, dtype=float)
    interval = float(ends.flat[0]) if ends.size else np.nan
    if not 0 < interval < np.inf:
        raise ValueError(f"times begin with {interval} s; a positive number is wanted.")
    if ends.ndim > 1 or (
        ends.ndim == 1 and not np.allclose(ends, interval * np.arange(1, ends.size + 1))
    ):
        raise ValueError("times must be equally spaced and start one interval after 0.")
    return ends


def fit_profiles(
    dataset: xr.Dataset,
    settings: Settings = DEFAULT,
    *,
    rng: np.random.Generator | None = None,
    progress: OnProgress | None = None,
) -> ProfileModel:
    """Fit the law of a task's profiles to its measurements.

    Parameters
    ----------
    dataset : xarray.Dataset
        Measured profiles, validated here (a part of a file will do).
    settings : ProgressSettings or ElapsedSettings
        See :data:`PRESETS`.
    rng : numpy.random.Generator
        Random start of a solver that wants one.
    progress : callable
        Called with (done, total) pairs or sweeps.

    Returns
    -------
    ProfileModel

    Raises
    ------
    ProfileError
        The dataset breaks the contract, or its runs are too short.
    msbgen.bridge.solve.NotConvergedError
        The solver did not reach its tolerance.
    """
    if not isinstance(settings, (ProgressSettings, ElapsedSettings)):
        raise TypeError(f"settings is {settings!r}; e.g. msbgen.PRESETS['paper'] is wanted.")
    validate_profiles(dataset, part=True)
    measured = (
        count_array(dataset),
        duration_array(dataset),
        context_table(dataset),
        sampling_interval(dataset),
    )
    try:
        if isinstance(settings, ElapsedSettings):
            law = ElapsedLaw.fit(*measured, settings, rng=rng, progress=progress)
        else:
            if dataset.sizes["context"] > _MOST_KNOWN:
                raise ValueError(
                    f"{dataset.sizes['context']} contexts; fitting takes their number to the third "
                    f"power: keep at most {_MOST_KNOWN}, e.g. dataset.isel(context=slice(None, "
                    f"None, {-(-dataset.sizes['context'] // _MOST_KNOWN)}))."
                )
            clock = _clock(dataset, settings.clock)
            law = ProgressLaw.fit(*measured, clock, settings, progress=progress)
            _warn_of_lost_counts(dataset, law)
    except ValueError as error:
        raise ProfileError(f"{_place(dataset)}: {error}") from None
    return ProfileModel(
        law=law,
        resources=resource_attrs(dataset),
        counters=counter_attrs(dataset),
        attrs=inherited_attrs(dataset),
    )


def _place(dataset: xr.Dataset) -> str:
    """Where a dataset comes from: its file, if it was read from one."""
    source = dataset.encoding.get("source")
    return Path(source).name if source else str(dataset.attrs.get("task", "dataset"))


def _clock(dataset: xr.Dataset, name: str) -> int:
    """Index of the progress clock: 0 for wall time, 1 + k for counter k."""
    names = counter_names(dataset)
    wanted = name or str(dataset.attrs.get("progress", ""))
    if not wanted:
        return 1 + names.index("instructions") if "instructions" in names else 0
    if wanted == "time":
        return 0
    if wanted not in names:
        raise ValueError(
            f"the progress clock '{wanted}' is no counter; want time, {', '.join(names)}."
        )
    return 1 + names.index(wanted)


def _warn_of_lost_counts(dataset: xr.Dataset, law: ProgressLaw) -> None:
    for context, run in np.argwhere(np.isfinite(law.duration) & ~np.isfinite(law.total)):
        _log.warning(
            "run %d of %s lost counts: its total departs from the others'; it is left out.",
            run,
            describe_context(dataset, int(context)),
        )


def _plain(value: Any) -> Any:
    """Attributes as JSON knows them."""
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else str(value)
