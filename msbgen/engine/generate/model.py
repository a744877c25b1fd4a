"""The fitted model of a task: a distribution with labels, which generates profiles of any context.

``model.generate(contexts) -> Dataset`` validates, calls a distribution on arrays
(:mod:`msbgen.engine.generate.distribution`), and adds coordinates to the result.
:mod:`msbgen.engine.generate.fit` makes models; :meth:`ProfileModel.save` and ``load`` keep them in
files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Annotated, Any, Self

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.draws import numbers_of
from msbgen.core.errors import ArgumentError
from msbgen.core.machine import OnProgress, physical_memory
from msbgen.core.parts import Kinds
from msbgen.core.records import Count, checks_arguments
from msbgen.core.words import number_of
from msbgen.data.build import join_profiles, make_profiles
from msbgen.data.check import validate_profiles
from msbgen.data.durations_only import WHOLE_RUN, without_interval
from msbgen.data.models import part_of, save_part
from msbgen.data.schema import (
    file_of,
    near_contexts,
    same_level,
)
from msbgen.data.store import load_netcdf
from msbgen.engine.faults.findings import Findings, StretchedRun
from msbgen.engine.generate.cliffs import Cliff, find_cliffs
from msbgen.engine.generate.distribution import Kind, ProfileDistribution
from msbgen.engine.generate.elapsed_distribution import ElapsedDistribution
from msbgen.engine.generate.progress import resample, to_wall_time, uniform_knots
from msbgen.engine.generate.progress_distribution import ProgressDistribution
from msbgen.engine.generate.streams import stream_key
from msbgen.engine.generate.word_columns import NUMBERS, WordColumns, outside_hull

Floats = NDArray[np.float64]

MODEL_SCHEMA = "msbgen-model/6"
# Attribute of models of generated profiles, and of what they generate.
FITTED_TO = "fitted_to"

# Largest share of memory that one context may take: several are generated at a time.
_MEMORY_SHARE = 0.05
# Largest number of intervals of a run of a model file.
_MOST_ROWS = 1e9
# Counts in a block of contexts [bytes], and contexts that a distribution generates together.
_BLOCK_BYTES = 2**26
_TILE = 128

# Attributes of a dataset or of one of its variables.
Attributes = dict[str, str | int | float | list[str | int | float]]


@dataclass(frozen=True, eq=False, repr=False)
class ProfileModel:
    """A fitted distribution with labels, which generates the profiles of every context.

    Attributes
    ----------
    distribution : ProfileDistribution
        The fitted distribution, on arrays.
    resources, counters, attrs : dict
        Labels, as in the measured dataset.
    findings : Findings
        Faults of the measurements, which were corrected before the fit.
    words : WordColumns
        Which resources have words as levels, with a column of the distribution for each word.
    """

    distribution: Annotated[
        ProfileDistribution, Kinds(progress=ProgressDistribution, elapsed=ElapsedDistribution)
    ]
    resources: dict[str, Attributes]
    counters: dict[str, Attributes]
    attrs: Attributes = field(default_factory=dict)
    findings: Findings = field(default_factory=Findings)
    words: WordColumns = NUMBERS

    @cached_property
    def contexts(self) -> Floats:
        """Known contexts, (n_known, n_resources)."""
        return self.words.decode(self.distribution.contexts)

    @property
    def origin(self) -> str:
        """What the model was fitted to, in words: ``125 measured contexts``."""
        what = self.attrs.get(FITTED_TO, "measured")
        return number_of(len(self.distribution.contexts), f"{what} context")

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} of {self.attrs.get('task', 'a task')}: "
            f"{number_of(len(self.distribution.contexts), 'context')} of "
            f"{', '.join(self.resources)}; "
            f"{', '.join(name for name in self.counters if name != WHOLE_RUN) or 'durations'}>"
        )

    @checks_arguments
    def generate(
        self,
        contexts: ArrayLike,
        *,
        kind: Kind = "max_likelihood",
        times: ArrayLike | float | None = None,
        n_samples: int = 10,
        as_known: bool = False,
        rng: np.random.Generator | int = 0,
        progress: OnProgress | None = None,
    ) -> xr.Dataset:
        """Generate the profiles of any contexts.

        Parameters
        ----------
        contexts : array_like, (n_query, n_resources)
            In the order and units of the measured resources; known contexts are allowed.
        kind : {"max_likelihood", "mean", "sample"}
            A profile near the most likely path: the mean of the runs, with weights that fall with
            their distance to it (the paper's preset: the most likely state at each time until
            the median duration); the mean profile, with the mean duration; or `n_samples` random
            profiles per context.
        times : array_like, (n_times,), or float
            Ends of the output intervals [s], equally spaced from one interval on and long enough
            for every profile; or the length of the interval alone [s].  By default the measured
            interval.
        n_samples : int
            Random profiles per context, for kind "sample".
        as_known : bool
            Samples of the context as if its mean duration were known.  By default each sample is
            longer or shorter by a draw of the error of that duration, as large as in contexts that
            were left out: the samples are spread like new runs of a context never measured.
        rng : numpy.random.Generator or int
            Generator of the samples or its seed; equal seeds give equal samples.  The samples of a
            context depend on the seed, the name of the task and its levels, not on its position or
            the other contexts.
        progress : callable
            Called with (done, total) contexts.

        Returns
        -------
        xarray.Dataset
            A profile dataset with dims (context, time), or (context, sample, time).  The variable
            ``extrapolated`` is 1 where the context lies outside the hull of the known ones, and
            ``cliff`` where it lies between two known levels across which a count changes so much
            that the change may be sudden (`cliffs`).

        Raises
        ------
        ArgumentError
            Contexts or times of the wrong form; times too short; profiles of one context that
            exceed the memory of this machine.
        NotConvergedError
            The solver of the bridge did not reach its tolerance (max_likelihood and sample).
        """
        blocks = self.stream(
            contexts, kind=kind, times=times, n_samples=n_samples, as_known=as_known, rng=rng,
            progress=progress,
        )  # fmt: skip
        return join_profiles(list(blocks))

    @checks_arguments
    def stream(
        self,
        contexts: ArrayLike,
        *,
        kind: Kind = "max_likelihood",
        times: ArrayLike | float | None = None,
        n_samples: Count = 10,
        as_known: bool = False,
        rng: np.random.Generator | int = 0,
        progress: OnProgress | None = None,
    ) -> Iterator[xr.Dataset]:
        """Generate the same profiles as :meth:`generate`, block after block of contexts.

        For more profiles than fit into memory: one block, of 64 MiB of counts, is in
        memory at a time.  ``msbgen.write_blocks(model.stream(contexts), path)`` writes one file.

        Parameters and errors as :meth:`generate`; errors are raised at once, except for times that
        are too short.

        Yields
        ------
        xarray.Dataset
            The profiles of the next contexts, in the order of `contexts`, as long as the longest
            among them.
        """
        query = self.checked(contexts)
        output_times = self.distribution.interval if times is None else _checked_times(times)
        n_samples = n_samples if kind == "sample" else 1
        each = self._bytes_per_context(n_samples, output_times)
        if each > _BLOCK_BYTES:  # a block of this size is always in memory
            most = max(_MEMORY_SHARE * physical_memory(), _BLOCK_BYTES)
            if each > most:
                raise ArgumentError(
                    f"one context is {each / 1e9:.3g} GB of counts; at most {most / 1e9:.3g} GB on "
                    f"this machine, which works on several, is wanted: ask for fewer samples, or a "
                    f"longer interval."
                )
        self.prepare(kind)
        key = stream_key(rng, str(self.attrs.get("task", "")))
        attrs = {
            **self.attrs,
            "source": f"generated by msbgen from {self.origin}",
            "kind": kind,
            "settings": json.dumps(asdict(self.distribution.settings)),
            **self.distribution.provenance(kind, as_known=as_known),
        }
        step = self.block_size(kind, n_samples=n_samples, times=output_times)
        blocks = (slice(i, min(i + step, len(query))) for i in range(0, len(query), step))
        return (
            self._block(query, rows, kind, output_times, n_samples, as_known, key, attrs, progress)
            for rows in blocks
        )

    def prepare(self, kind: Kind, progress: OnProgress | None = None) -> None:
        """Solve, once, what profiles of a kind need beyond the fit.

        `generate`, `stream` and `save` call it; call it before to show its progress, (done, total)
        pairs of the bridge.  "mean" needs nothing; the other kinds need the bridge, which takes a
        few seconds.

        Raises
        ------
        NotConvergedError
            The solver of the bridge did not reach its tolerance.
        """
        self.distribution.prepare(kind, progress)

    def block_size(
        self, kind: Kind, *, n_samples: int = 10, times: Floats | float | None = None
    ) -> int:
        """Number of contexts that :meth:`stream` yields at a time, equal on every machine."""
        output_times = self.distribution.interval if times is None else times
        each = self._bytes_per_context(n_samples if kind == "sample" else 1, output_times)
        step = max(int(_BLOCK_BYTES / each), 1)
        return step - (step % _TILE if step > _TILE else 0)

    def _bytes_per_context(self, n_samples: int, times: Floats | float) -> float:
        """Memory of the counts of one context [bytes], at the finer of both intervals."""
        interval = min(float(np.ravel(times)[0]), self.distribution.interval)
        rows = max(np.ceil(float(np.nanmax(self.distribution.duration)) / interval), np.size(times))
        return 8.0 * len(self.counters) * n_samples * rows

    def _block(
        self,
        query: Floats,
        rows: slice,
        kind: Kind,
        times: Floats | float,
        n_samples: int,
        as_known: bool,
        key: int,
        attrs: Mapping[str, Any],
        progress: OnProgress | None,
    ) -> xr.Dataset:
        some = query[rows]

        def step(done: int, total: int) -> None:
            if progress:
                progress(rows.start + len(some) * done // total, len(query))

        counts, duration = self.distribution.profiles(
            self.words.encode(some), kind, n_samples=n_samples, as_known=as_known, rng=key,
            progress=step,
        )  # fmt: skip
        counts, interval = self._resampled(counts, duration, times)
        made = make_profiles(
            counts,
            duration,
            some,
            interval=interval,
            resources=self.resources,
            counters=self.counters,
            replicate="sample",
            attrs=attrs,
            extrapolated=self.extrapolated(some),
            cliff=self.near_cliff(some),
        )
        return without_interval(made)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the model to one netCDF file (numbers and JSON; nothing is pickled).

        Raises
        ------
        FileExistsError
            `path` exists and `overwrite` is False.
        """
        self.prepare("sample")
        save_part(self, path, schema=MODEL_SCHEMA, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Model that :meth:`save` wrote; it generates the same profiles as the saved one.

        Raises
        ------
        ProfileError
            The file cannot be read or is no model.
        """
        return cls.of_file(load_netcdf(path))

    @classmethod
    def of_file(cls, content: xr.Dataset) -> Self:
        """Model of the content of its file; ProfileError where that is no model."""
        model = part_of(content, cls, schema=MODEL_SCHEMA, what="profiles")
        one = model._labelled(model.contexts[:1], np.full((1, 1), model.distribution.interval))
        validate_profiles(one, source=f"{file_of(content)}, attribute 'labels'", part=True)
        return model

    def problems(self) -> Iterator[tuple[str, object, str]]:
        """What is wrong with a stored model."""
        distribution, columns = (
            self.distribution,
            [max(len(codes), 1) for codes in self.words.codes],
        )
        if not len(distribution.contexts) or not np.isfinite(distribution.duration).any():
            yield "distribution.duration", "NaN", "a run's end"
            return
        rows = np.nanmax(distribution.duration) / distribution.interval
        if not rows < _MOST_ROWS:
            yield "distribution.duration", f"{rows:g} intervals", f"less than {_MOST_ROWS:g}"
        if len(columns) != len(self.resources) or sum(columns) != distribution.contexts.shape[1]:
            yield "words", columns, "columns of every resource"
        if len(self.counters) != distribution.n_counters:
            yield "counters", f"of {len(self.counters)}", str(distribution.n_counters)

    @cached_property
    def known(self) -> xr.Dataset:
        """Known contexts and their durations with all labels; one event of each counter a run."""
        return self._labelled(self.contexts, self.distribution.duration)

    def known_profiles(self, rows: ArrayLike | None = None) -> xr.Dataset:
        """Mean measured profiles of the known contexts, (context, 1, time), without the trend.

        Parameters
        ----------
        rows : array_like of int, optional
            Rows of `contexts`; by default all.

        Raises
        ------
        ArgumentError
            The model is of the paper's preset, which has no progress.

        Notes
        -----
        Phases within a sampling interval are resolved as in the fit.  An interval is as long as a
        bin of progress in the shortest run, or 1/4,000 of the longest one.
        """
        if not isinstance(self.distribution, ProgressDistribution):
            raise ArgumentError(
                "the model is of the paper's preset, which has no profiles by progress; fit one of "
                "the default preset."
            )
        kept = np.arange(len(self.contexts)) if rows is None else np.asarray(rows)
        centre = self.distribution.centre
        states = self.distribution.known_states()[kept]
        totals = np.array([np.nanmean(t if np.isfinite(t).any() else centre.total)
                           for t in centre.total[kept]])  # fmt: skip
        lasting = np.nanmean(self.distribution.duration[kept], axis=1)
        knots = uniform_knots(states.shape[1])
        interval = max(float(lasting.min()) / states.shape[1], float(lasting.max()) / 4000)
        counts, duration = to_wall_time(states, totals, interval, knots=knots, clock=centre.clock)
        return make_profiles(
            counts[:, None], duration[:, None], self.contexts[kept], interval=interval,
            resources=self.resources, counters=self.counters, attrs=self.attrs,
        )  # fmt: skip

    def _labelled(self, contexts: Floats, duration: Floats) -> xr.Dataset:
        return make_profiles(
            np.ones((*duration.shape, 1, len(self.counters))), duration, contexts,
            interval=self.distribution.interval, resources=self.resources,
            counters=self.counters, attrs=self.attrs,
        )  # fmt: skip

    @cached_property
    def _ended(self) -> NDArray[np.bool_]:
        """Known contexts with a complete run, (n_known,); also one that was slowed in part."""
        ended = np.asarray(np.isfinite(self.distribution.duration).any(axis=1))
        for fault in self.findings:
            if isinstance(fault, StretchedRun):
                ended |= same_level(self.contexts, np.array(fault.levels[0])).all(axis=1)
        return ended

    def extrapolated(self, query: Floats) -> NDArray[np.bool_]:
        """Contexts (n_query, n_resources) outside the hull of those with a complete run.

        True also for known contexts of which every run was cut.
        """
        cut = self.contexts[~self._ended]
        query = self.checked(query)
        all_cut = np.asarray(same_level(query[:, None], cut).all(axis=2)).any(axis=1)
        return outside_hull(self.contexts[self._ended], query, self.words) | all_cut

    @cached_property
    def cliffs(self) -> tuple[Cliff, ...]:
        """Gaps between known levels in which a count may change suddenly; none without a trend."""
        if self.distribution.name != ProgressDistribution.name:
            return ()
        centre = self.distribution.centre
        if centre.clock == 0:
            return ()
        floor = centre.trend.offset * centre.trend.mean.shape[1]

        def totals(contexts: Floats) -> Floats:
            columns = self.words.encode(contexts)
            return centre.amounts(columns, centre.log_weights(columns)).sum(axis=1) + floor

        codes = self.words.codes or ((),) * len(self.resources)
        return find_cliffs(self.contexts, totals, [r for r, own in enumerate(codes) if not own])

    def near_cliff(self, query: Floats) -> NDArray[np.bool_]:
        """Contexts (n_query, n_resources) in one of the `cliffs`, (n_query,)."""
        inside = [cliff.contains(query) for cliff in self.cliffs]
        return np.any([np.zeros(len(query), dtype=bool), *inside], axis=0)

    def describe_cliffs(self) -> list[str]:
        """Sentence for each of the `cliffs`."""
        names, counters = list(self.resources), list(self.counters)
        clock = self.distribution.centre.clock if self.cliffs else 0
        quantities = ["duration", *counters[: clock - 1], *counters[clock:]]
        return [
            f"{quantities[cliff.quantity]} changes by a factor of {cliff.ratio:.2g} between "
            f"{names[cliff.resource]} {cliff.lower:g} and {cliff.upper:g}, and it is not known "
            f"where: measure a level between (msbgen plan)"
            for cliff in self.cliffs
        ]

    def checked(self, contexts: ArrayLike) -> Floats:
        """Valid contexts as an array, (n_query, n_resources); errors as `near_contexts`."""
        return near_contexts(contexts, self.contexts, self.resources)

    def columns(self, contexts: ArrayLike) -> Floats:
        """Valid contexts as the distribution takes them, with a column for each word."""
        return self.words.encode(self.checked(contexts))

    def _resampled(
        self, counts: NDArray[Any], duration: Floats, times: Floats | float
    ) -> tuple[NDArray[Any], float]:
        """Counts and length of the intervals that end at `times`."""
        n_rows = int(np.isfinite(counts[..., 0]).sum(axis=-1).max())
        counts, interval = counts[..., :n_rows, :], float(np.ravel(times)[0])
        if interval == self.distribution.interval and np.ndim(times) == 0:
            return counts, interval
        if np.ndim(times) and np.ravel(times)[-1] < duration.max() * (1 - 1e-9):
            raise ArgumentError(
                f"times end at {np.ravel(times)[-1]:g} s; {duration.max():g} s, which a profile "
                f"lasts, or more is wanted."
            )
        return resample(counts, duration, self.distribution.interval, interval), interval


def is_model(content: xr.Dataset) -> bool:
    """Whether the content of a file is a model, of this version or another."""
    return str(content.attrs.get("schema")).startswith(MODEL_SCHEMA.partition("/")[0] + "/")


def _checked_times(times: ArrayLike) -> Floats | float:
    """Ends of output intervals, (n_times,), or the interval alone."""
    ends = numbers_of(times, "times")
    interval = float(ends.flat[0]) if ends.size else np.nan
    if not 0 < interval < np.inf:
        raise ArgumentError(f"times begin with {interval} s; a positive number is wanted.")
    if ends.ndim == 0:
        return interval
    if ends.ndim > 1 or not np.allclose(ends, interval * np.arange(1, ends.size + 1)):
        raise ArgumentError(
            f"times of shape {ends.shape} are no multiples 1, 2, … of {interval:g} s; equally "
            f"spaced ones that start one interval after 0 are wanted."
        )
    return ends
