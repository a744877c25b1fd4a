"""Fit a bridge to measured profiles and generate the profiles of any context.

``fit_profiles(dataset, settings) -> ProfileModel``; ``model.generate(contexts) -> Dataset``.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls

from msbgen.bridge import SolverConfig, solve_bridge
from msbgen.condition import (
    Segment,
    conditional_mean,
    conditional_mode,
    conditional_sample,
    make_segment,
    scott_bandwidth,
    squared_distances,
    to_unit_range,
)
from msbgen.schema import (
    ProfileError,
    context_table,
    count_array,
    counter_attrs,
    duration_array,
    load_netcdf,
    make_profiles,
    resource_attrs,
    sampling_interval,
    save_netcdf,
    validate_profiles,
)

Floats = NDArray[np.float64]
Kind = Literal["max_likelihood", "mean", "sample"]
Progress = Callable[[int, int], None]

MODEL_SCHEMA = "msbgen-model/1"

_log = logging.getLogger("msbgen")


@dataclass(frozen=True)
class Settings:
    """How profiles are turned into a bridge.

    Attributes
    ----------
    epsilon : float
        Weight of the entropy, in squared units of the scaled coordinates.
    scaled_range : float
        Every component of an augmented state (counters and resources) is moved to
        [0, scaled_range], snapshot by snapshot.
    snapshot_interval : float
        Time between snapshots [s]; rounded to whole sampling intervals, at least one.
    bandwidth : float
        Kernel bandwidth in the context, as a multiple of Scott's rule over the known contexts.
    method : {"pairwise", "multimarginal"}
        Form of the solver (see :func:`msbgen.bridge.solve_bridge`).
    tol : float
        Largest L1 error of the marginals.
    hilbert_tol : float
        Stopping distance of the multimarginal form in Hilbert's metric.
    """

    epsilon: float = 0.1
    scaled_range: float = 0.1
    snapshot_interval: float = 0.05
    bandwidth: float = 1.0
    method: Literal["pairwise", "multimarginal"] = "pairwise"
    tol: float = 1e-9
    hilbert_tol: float = 1e-12

    def __post_init__(self) -> None:
        for name in ("epsilon", "scaled_range", "snapshot_interval", "bandwidth"):
            value = getattr(self, name)
            if not 0 < value < np.inf:
                raise ValueError(f"{name} is {value}; a positive number is wanted.")
        if self.method not in ("pairwise", "multimarginal"):
            raise ValueError(f"method is {self.method!r}; want 'pairwise' or 'multimarginal'.")


# The settings of the paper's authors: ε = 0.1, scaling to [0, 0.1] per snapshot, snapshots every
# 50 ms, Hilbert tolerance 1e-12, context coordinates part of the cost.
PAPER = Settings(method="multimarginal")
DEFAULT = Settings()
PRESETS: dict[str, Settings] = {"default": DEFAULT, "paper": PAPER}


@dataclass(frozen=True)
class Snapshot:
    """All states at one time.

    Attributes
    ----------
    row : int
        Sampling interval it was taken in.
    context : ndarray of int, (n,)
        Known context of each point, not decreasing.
    states : ndarray, (n, n_counters)
        Events per interval.
    """

    row: int
    context: NDArray[np.int64]
    states: Floats


@dataclass(frozen=True)
class ProfileModel:
    """A fitted bridge that answers for every context.

    Attributes
    ----------
    settings : Settings
    contexts : ndarray, (n_known, n_resources)
    duration : ndarray, (n_known, n_runs)
        Measured execution times [s], NaN where a run is missing.
    interval : float
        Sampling interval [s].
    snapshots : tuple of Snapshot
    potentials : tuple of (f, g)
        Dual potentials of each pair of neighbouring snapshots.
    status : str
        How the solver ended.
    marginal_error : float
        Largest L1 error of a marginal.
    resources, counters, attrs : dict
        Labels, as in the measured dataset.
    """

    settings: Settings
    contexts: Floats
    duration: Floats
    interval: float
    snapshots: tuple[Snapshot, ...]
    potentials: tuple[tuple[Floats, Floats], ...]
    status: str
    marginal_error: float
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
        rng: np.random.Generator | None = None,
        progress: Progress | None = None,
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
        rng : numpy.random.Generator
            Where the samples come from; equal generators give equal samples.
        progress : callable
            Called with (done, total) segments.

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
        query = self._checked_contexts(contexts)
        if kind not in get_args(Kind):
            raise ValueError(f"kind is {kind!r}; one of {', '.join(get_args(Kind))} is wanted.")
        if n_samples < 1:
            raise ValueError(f"n_samples is {n_samples}; at least 1 is wanted.")
        rng = np.random.default_rng() if rng is None else rng
        weights, ends = self._run_weights(query)
        if kind == "mean":
            duration = weights @ ends
        elif kind == "max_likelihood":
            duration = _weighted_quantile(ends, weights, np.full((len(query), 1), 0.5))[:, 0]
        else:
            duration = _weighted_quantile(ends, weights, rng.random((len(query), n_samples)))
        rates = self._rates(query, kind, n_samples, rng, progress)
        rows = np.arange(rates.shape[-2])
        share = _share_of_intervals(duration, self.interval, rows)
        share[share == 0] = np.nan
        counts = rates * share[..., None]
        counts, interval = self._resampled(counts, duration, times)
        dataset = make_profiles(
            counts,
            duration,
            query,
            interval=interval,
            resources=self.resources,
            counters=self.counters,
            replicate="sample",
            attrs={**self.attrs, **self._provenance(kind)},
        )
        return dataset.assign(extrapolated=_extrapolated(self.contexts, query))

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the model to one netCDF file (numbers and JSON; nothing is pickled).

        Raises
        ------
        FileExistsError
            `path` exists and `overwrite` is False.
        """
        sizes = [len(s.context) for s in self.snapshots]
        labels = {
            "settings": asdict(self.settings),
            "resources": self.resources,
            "counters": self.counters,
            "attrs": self.attrs,
        }
        dataset = xr.Dataset(
            {
                "contexts": (("known", "resource"), self.contexts),
                "duration": (("known", "run"), self.duration, {"units": "s"}),
                "snapshot_row": ("snapshot", [s.row for s in self.snapshots]),
                "snapshot_size": ("snapshot", sizes),
                "context": ("point", np.concatenate([s.context for s in self.snapshots])),
                "states": (
                    ("point", "counter"),
                    np.concatenate([s.states for s in self.snapshots]),
                ),
                "start_potential": ("start", np.concatenate([f for f, _ in self.potentials])),
                "end_potential": ("end", np.concatenate([g for _, g in self.potentials])),
            },
            attrs={
                "schema": MODEL_SCHEMA,
                "interval": self.interval,
                "status": self.status,
                "marginal_error": self.marginal_error,
                "labels": json.dumps(labels, default=_plain),
            },
        )
        save_netcdf(dataset, path, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ProfileModel:
        """Read a model that :meth:`save` wrote; it answers as the saved one did.

        Raises
        ------
        ProfileError
            The file cannot be read or is no model.
        """
        ds = load_netcdf(path)
        if ds.attrs.get("schema") != MODEL_SCHEMA:
            got = ds.attrs.get("schema")
            raise ProfileError(
                f"{Path(path).name}: attribute 'schema' is {got!r}; a model file says "
                f"'{MODEL_SCHEMA}'."
            )
        labels = json.loads(ds.attrs["labels"])
        stops = np.cumsum(ds["snapshot_size"].values)[:-1]
        snapshots = tuple(
            Snapshot(int(row), context, states)
            for row, context, states in zip(
                ds["snapshot_row"].values,
                np.split(ds["context"].values, stops),
                np.split(ds["states"].values, stops),
            )
        )
        sizes = ds["snapshot_size"].values
        f = np.split(ds["start_potential"].values, np.cumsum(sizes[:-1])[:-1])
        g = np.split(ds["end_potential"].values, np.cumsum(sizes[1:])[:-1])
        return cls(
            settings=Settings(**labels["settings"]),
            contexts=ds["contexts"].values,
            duration=ds["duration"].values,
            interval=float(ds.attrs["interval"]),
            snapshots=snapshots,
            potentials=tuple(zip(f, g)),
            status=str(ds.attrs["status"]),
            marginal_error=float(ds.attrs["marginal_error"]),
            resources=labels["resources"],
            counters=labels["counters"],
            attrs=labels["attrs"],
        )

    # ----------------------------------------------------------------- how it answers

    def _checked_contexts(self, contexts: ArrayLike) -> Floats:
        query = np.asarray(contexts, dtype=float)
        n = self.contexts.shape[1]
        if query.ndim != 2 or query.shape[1] != n or len(query) == 0:
            raise ValueError(
                f"contexts have shape {query.shape}; rows × {n} columns "
                f"({', '.join(self.resources)}) are wanted."
            )
        if not np.all(np.isfinite(query)):
            row = int(np.argmin(np.isfinite(query).all(axis=1)))
            raise ValueError(f"contexts are not finite at row {row}: {query[row].tolist()}.")
        return query

    def _in_bandwidths(self, contexts: Floats) -> Floats:
        known = to_unit_range(self.contexts, self.contexts)
        bandwidth = self.settings.bandwidth * scott_bandwidth(known)
        return to_unit_range(self.contexts, contexts) / bandwidth

    def _run_weights(self, query: Floats) -> tuple[Floats, Floats]:
        """Kernel weight of every measured run at each context, and the runs' durations."""
        exponent = -0.5 * squared_distances(
            self._in_bandwidths(query), self._in_bandwidths(self.contexts)
        )
        kernel = np.exp(exponent - exponent.max(axis=1, keepdims=True))
        present = np.isfinite(self.duration)
        weights = (kernel[:, :, None] * present).reshape(len(query), -1)[:, present.ravel()]
        return weights / weights.sum(axis=1, keepdims=True), self.duration[present]

    def _rates(
        self,
        query: Floats,
        kind: Kind,
        n_samples: int,
        rng: np.random.Generator,
        progress: Progress | None,
    ) -> NDArray[np.float32]:
        """Counts of a whole interval, (n_query[, n_samples], n_rows, n_counters).

        Rows between two snapshots take the bridge's displacement atoms; rows after the last
        snapshot, shorter than one snapshot interval, take its states.
        """
        n_rows = int(np.ceil(np.nanmax(self.duration) / self.interval))
        shape = (len(query), n_samples) if kind == "sample" else (len(query),)
        rates = np.empty((*shape, n_rows, len(self.counters)), dtype=np.float32)
        scaled = self._in_bandwidths(query)
        last = len(self.potentials) - 1

        def fill(segment: Segment, row: int, lam: float, generator: np.random.Generator) -> None:
            if kind == "mean":
                rates[..., row, :] = conditional_mean(segment, lam, scaled)[0]
            elif kind == "max_likelihood":
                rates[..., row, :] = conditional_mode(segment, lam, scaled)
            else:
                uniform = generator.random((*shape, 3))
                rates[..., row, :] = conditional_sample(segment, lam, scaled, uniform)

        # Segments are summed in threads, a few at a time.  Means are matrix products, which BLAS
        # spreads over the cores itself: threads around them would only get in each other's way.
        threads = os.cpu_count() or 1
        with ThreadPoolExecutor(threads) as pool:
            for first in range(0, last + 1, threads):
                some = range(first, min(first + threads, last + 1))
                jobs = []
                for j, segment in zip(some, pool.map(self._segment, some)):
                    start, end = self.snapshots[j].row, self.snapshots[j + 1].row
                    rows = range(start, n_rows if j == last else end)
                    for row, generator in zip(rows, rng.spawn(len(rows))):
                        jobs.append(
                            (segment, row, max((end - row) / (end - start), 0.0), generator)
                        )
                list((map if kind == "mean" else pool.map)(lambda job: fill(*job), jobs))
                if progress:
                    progress(some[-1] + 1, last + 1)
        return rates

    def _segment(self, j: int) -> Segment:
        first, second = self.snapshots[j], self.snapshots[j + 1]
        return make_segment(
            (self._points(first), self._points(second)),
            self.potentials[j],
            self.settings.epsilon,
            (first.states, second.states),
            (first.context, second.context),
            self._in_bandwidths(self.contexts),
        )

    def _points(self, snapshot: Snapshot) -> Floats:
        return _scaled_points(snapshot, self.contexts, self.settings)

    def _resampled(
        self, counts: NDArray[Any], duration: Floats, times: ArrayLike | float | None
    ) -> tuple[NDArray[Any], float]:
        """Move counts from the measured intervals to the intervals that end at `times`."""
        n_rows = int(np.isfinite(counts[..., 0]).sum(axis=-1).max())
        counts = counts[..., :n_rows, :]
        if times is None:
            return counts, self.interval
        ends = np.asarray(times, dtype=float)
        interval = float(ends.flat[0]) if ends.size else np.nan
        if not 0 < interval < np.inf:
            raise ValueError(f"times begin with {interval} s; a positive number is wanted.")
        if ends.ndim == 0:
            ends = interval * np.arange(1, np.ceil(duration.max() / interval * (1 - 1e-9)) + 1)
        if ends.ndim != 1 or not np.allclose(ends, interval * np.arange(1, ends.size + 1)):
            raise ValueError("times must be equally spaced and start one interval after 0.")
        if ends[-1] < duration.max() * (1 - 1e-9):
            raise ValueError(
                f"times end at {ends[-1]:g} s, a profile lasts {duration.max():g} s: add times."
            )
        return _rebinned(counts, duration, self.interval, ends), interval

    def _provenance(self, kind: Kind) -> dict[str, Any]:
        return {
            "source": f"generated by msbgen from {len(self.contexts)} measured contexts",
            "kind": kind,
            "settings": json.dumps(asdict(self.settings)),
            "epsilon": self.settings.epsilon,
            "scaling": f"components moved to [0, {self.settings.scaled_range:g}] per snapshot",
            "solver_status": self.status,
            "marginal_error": self.marginal_error,
        }


def fit_profiles(
    dataset: xr.Dataset,
    settings: Settings = DEFAULT,
    *,
    rng: np.random.Generator | None = None,
    progress: Progress | None = None,
) -> ProfileModel:
    """Solve the conditional bridge of a task's measured profiles (Algorithm 1, lines 1 to 9).

    Snapshot j holds the state of every run that still has a whole interval there; finished runs
    drop out, and a last interval that is only partly filled is no state.

    Parameters
    ----------
    dataset : xarray.Dataset
        Measured profiles, validated here.
    settings : Settings
        See :data:`PRESETS`.
    rng : numpy.random.Generator
        Random start of the multimarginal form; the answer does not depend on it beyond the
        tolerance.
    progress : callable
        Called with (done, total) pairs or sweeps.

    Returns
    -------
    ProfileModel

    Raises
    ------
    ProfileError
        The dataset breaks the contract, or its runs are too short for two snapshots.
    msbgen.bridge.NotConvergedError
        The solver did not reach its tolerance.
    """
    validate_profiles(dataset)
    snapshots = _snapshots(dataset, settings)
    table = context_table(dataset)
    bridge = solve_bridge(
        [_scaled_points(s, table, settings) for s in snapshots],
        epsilon=settings.epsilon,
        method=settings.method,
        config=SolverConfig(tol=settings.tol, hilbert_tol=settings.hilbert_tol),
        rng=rng,
        progress=progress,
    )
    error = float(bridge.marginal_error.max())
    _log.info("solved %d snapshots, largest marginal error %.1e", len(snapshots), error)
    return ProfileModel(
        settings=settings,
        contexts=table,
        duration=duration_array(dataset),
        interval=sampling_interval(dataset),
        snapshots=snapshots,
        potentials=bridge.potentials,
        status=str(bridge.status),
        marginal_error=error,
        resources=resource_attrs(dataset),
        counters=counter_attrs(dataset),
        attrs={k: v for k, v in dataset.attrs.items() if k in ("task", "platform")},
    )


def _snapshots(dataset: xr.Dataset, settings: Settings) -> tuple[Snapshot, ...]:
    counts, duration = count_array(dataset), duration_array(dataset)
    interval = sampling_interval(dataset)
    whole = np.floor(np.nan_to_num(duration) / interval * (1 + 1e-9)).astype(int)
    whole = np.minimum(whole, np.isfinite(counts[..., 0]).sum(axis=-1))
    longest = int(whole.max())
    if longest < 2:
        raise ProfileError(
            f"no run has two whole sampling intervals of {interval:g} s, which a bridge needs: "
            f"sample more often."
        )
    step = min(max(round(settings.snapshot_interval / interval), 1), longest - 1)
    snapshots = []
    for row in range(0, longest, step):
        context, run = np.nonzero(whole > row)
        snapshots.append(Snapshot(row, context, counts[context, run, row]))
    return tuple(snapshots)


def _scaled_points(snapshot: Snapshot, contexts: Floats, settings: Settings) -> Floats:
    """Augmented states (ξ, β), every component moved to [0, scaled_range]."""
    eta = np.hstack([snapshot.states, contexts[snapshot.context]])
    return settings.scaled_range * to_unit_range(eta, eta)


def _weighted_quantile(values: Floats, weights: Floats, levels: Floats) -> Floats:
    """Quantiles of weighted values: (n,), (n_query, n), (n_query, n_levels) -> levels' shape."""
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weights[:, order], axis=1)
    at = [np.searchsorted(c / c[-1], level) for c, level in zip(cumulative, levels)]
    return values[order][np.minimum(at, len(values) - 1)]


def _share_of_intervals(duration: Floats, interval: float, rows: NDArray[np.int64]) -> Floats:
    """Share of each sampling interval that a run of this duration fills: (...,) -> (..., rows)."""
    return np.clip(np.asarray(duration)[..., None] / interval - rows, 0.0, 1.0)


def _rebinned(counts: Floats, end: Floats, interval: float, times: Floats) -> Floats:
    """Counts per interval of the ends `times`, events spread evenly inside the old intervals."""
    shape = counts.shape
    flat = counts.reshape(-1, *shape[-2:])
    out = np.full((len(flat), len(times), shape[-1]), np.nan)
    new_edges = np.concatenate([[0.0], times])
    for profile, stop, target in zip(flat, end.ravel(), out):
        length = int(np.isfinite(profile[:, 0]).sum())
        edges = np.append(interval * np.arange(length), stop)
        rows = int(np.ceil(stop / times[0] * (1 - 1e-9)))
        for k in range(shape[-1]):
            cumulative = np.concatenate([[0.0], np.cumsum(profile[:length, k])])
            target[:rows, k] = np.diff(np.interp(new_edges[: rows + 1], edges, cumulative))
    return out.reshape(*shape[:-2], len(times), shape[-1])


def _extrapolated(known: Floats, query: Floats) -> xr.DataArray:
    """1 where a context lies outside the convex hull of the known ones."""
    low, high = known.min(axis=0), known.max(axis=0)
    slack = 1e-9 * np.maximum(np.abs(low), np.abs(high))
    outside = np.any((query < low - slack) | (query > high + slack), axis=1)
    known, query = to_unit_range(known, known), to_unit_range(known, query)
    corners = np.array(np.meshgrid(*[np.unique(c)[[0, -1]] for c in known.T])).reshape(
        known.shape[1], -1
    )
    if squared_distances(corners.T, known).min(axis=1).max() > 1e-18:
        # not every corner of the box was measured: β is inside if it is a convex combination
        lifted = np.vstack([known.T, np.ones(len(known))])
        for i in np.flatnonzero(~outside):
            outside[i] = nnls(lifted, np.append(query[i], 1.0))[1] > 1e-6
    return xr.DataArray(
        outside.astype(np.int8),
        dims="context",
        attrs={"long_name": "context lies outside the hull of the measured ones", "units": "1"},
    )


def _plain(value: Any) -> Any:
    """Attributes as JSON knows them."""
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else str(value)
