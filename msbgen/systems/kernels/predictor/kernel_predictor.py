"""Runtime and power of kernels: one model for each kind, and intervals from left-out kernels.

``fit → calibrate → predict, predict_interval``.  Every kind has a model of runtime
(:mod:`~msbgen.systems.kernels.predictor.runtime`) and, where power was measured, a model of power
(:mod:`~msbgen.systems.kernels.predictor.power`).  Energy is their product.

Source: Abdelhafez et al., *MIRAGE: machine learning-based modeling of identical replicas of the
Jetson AGX embedded platform*, SEC 2021.  Its boosting of raw parameters is a peer in the
benchmarks.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.arrays import POSITIVE, SHARE, Stored, finite_predictions
from msbgen.core.conformal import group_folds
from msbgen.core.contexts import Hull
from msbgen.core.errors import ArgumentError, MeasurementError, quoted
from msbgen.core.machine import OnProgress
from msbgen.data.schema import counter_names, near_contexts, resource_names
from msbgen.systems.kernels import dataset
from msbgen.systems.kernels.dataset import validate as validate_kernels
from msbgen.systems.kernels.predictor.intervals import Scores, half_width
from msbgen.systems.kernels.predictor.law_and_residual import ModelParts
from msbgen.systems.kernels.predictor.power import PowerModel, fit_power
from msbgen.systems.kernels.predictor.runtime import RuntimeModel, fit_runtime
from msbgen.systems.kernels.predictor.shapes import (
    ShapeColumns,
    Shapes,
    distinct_columns,
    shapes_of,
    unknown_kinds,
)
from msbgen.systems.learn.parameters import Predictor

_log = logging.getLogger("msbgen")

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.int64]

# Fewest measurements of a kind to fit a model to.
FEWEST = 4
# With more columns the hull is a box, as the number of facets grows exponentially.
_MOST_HULL = 3
# Without numpy's warnings: a prediction that is not finite is refused.
_SILENT = np.errstate(over="ignore", invalid="ignore", divide="ignore")


@dataclass(frozen=True, eq=False)
class KindModel:
    """Fitted model of one kind.

    `power` is None where it was not measured. The points `known` (n, d) of the hull are
    logarithms of distinct measured kernels, in the `columns` (d,) of their shapes. `given`
    (n_parameters,) is the share of the measurements that have each parameter.
    """

    runtime: RuntimeModel
    power: PowerModel | None
    known: Annotated[Floats, Stored(("kernel", "column"))]
    columns: Annotated[Indices, Stored(("column",), dtype="i8")]
    given: Annotated[Floats, Stored(("parameter",), SHARE)]

    def misfits(
        self, kind: str, parameters: tuple[str, ...], n_resources: int
    ) -> Iterator[tuple[str, object, str]]:
        """What does not fit a kind with these parameters, and so many resources."""
        if not len(self.known):
            yield "known", "empty", "one row or more"
        if len(self.given) != len(parameters):
            yield "given", f"of {len(self.given)}", str(len(parameters))
            return
        columns = ShapeColumns.of(kind, dict(zip(parameters, self.given.tolist())))
        if self.columns.max(initial=0) >= columns.logs:
            yield "columns", int(self.columns.max()), f"less than {columns.logs}"
        for name, model in (("runtime", self.runtime), ("power", self.power)):
            for path, got, wanted in model.misfits(columns, n_resources) if model else ():
                yield f"{name}.{path}", got, wanted

    def outside(self, shapes: Shapes) -> Bools:
        """Whether each kernel lies outside the hull of the measured ones, (n,)."""
        logs = shapes.logs()[:, self.columns]
        if len(self.columns) == 0:
            return np.zeros(len(logs), dtype=bool)
        if len(self.columns) <= _MOST_HULL and len(self.known) > len(self.columns):
            return Hull.of(self.known).outside(logs)
        return _outside_box(logs, self.known.min(axis=0), self.known.max(axis=0))


class KernelPredictor(Predictor):
    """Predicts runtime and power of kernels that were not measured, in any configuration.

    It follows the conventions of scikit-learn: parameters are only stored, and names of fitted
    attributes end in ``_``.

    Parameters
    ----------
    parts : ModelParts or None
        Parts of the model of a kind; None for all.
    random_state : int
        Seed of all random numbers; equal seeds give bitwise equal results.

    Attributes
    ----------
    kinds_ : dict of str to KindModel
    resources_, parameters_ : tuple of str
    units_ : dict of str to str
    levels_ : dict of str to list of float
        Measured levels of every resource.
    scores_ : Scores
        Empty before :meth:`calibrate`.

    Examples
    --------
    >>> import numpy as np
    >>> from msbgen.systems.kernels import make
    >>> rows = np.repeat([64.0, 128, 256, 384, 512, 1024], 3)
    >>> clock = np.tile([400.0, 700, 1000], 6)  # [MHz]
    >>> runs = make(
    ...     ["gemm"] * 18, 1e-5 + rows**3 / clock / 1e8, resources={"clock": clock},
    ...     parameters={"rows": rows, "columns": rows}, units={"clock": "MHz"},
    ... )
    >>> predictor = KernelPredictor().fit(runs)
    >>> new = runs.isel(measurement=[3]).assign_coords(clock=("measurement", [850.0]))
    >>> new["clock"].attrs.update(runs["clock"].attrs)
    >>> seconds = predictor.predict(new)
    >>> bool(abs(seconds[0] / (1e-5 + 128**3 / 850 / 1e8) - 1) < 0.01)
    True
    """

    schema = "msbgen-kernel-model/3"
    of = "kernels"

    kinds_: dict[str, KindModel]
    resources_: tuple[str, ...]
    parameters_: tuple[str, ...]
    units_: dict[str, str]
    levels_: dict[str, list[float]]
    scores_: Scores

    def __init__(self, *, parts: ModelParts | None = None, random_state: int = 0) -> None:
        self.parts = parts
        self.random_state = random_state

    def problems(self) -> Iterator[tuple[str, object, str]]:
        """What is wrong with a stored predictor."""
        if missing := {*self.parameters_, *self.resources_} - {*self.units_}:
            yield "units_", f"without that of {quoted(min(missing))}", "a unit of each"
        if tuple(self.levels_) != self.resources_:
            yield "levels_", f"of {', '.join(self.levels_)}", ", ".join(self.resources_)
        for name, levels in self.levels_.items():
            if not levels or not all(POSITIVE[0] <= level <= POSITIVE[1] for level in levels):
                yield "levels_", f"{levels} of {quoted(name)}", "a list of positive numbers"
        for i, (kind, model) in enumerate(self.kinds_.items()):
            fits = model.misfits(kind, self.parameters_, len(self.resources_))
            for path, got, wanted in fits:
                yield f"kinds_.{i}.{path}", got, wanted

    # --------------------------------------------------------------- fitting

    def fit(self, runs: xr.Dataset, *, progress: OnProgress | None = None) -> Self:
        """Fit to measurements of kernels.

        Parameters
        ----------
        runs : xarray.Dataset
            ``msbgen-kernels/1`` (:mod:`msbgen.kernels.dataset`).
        progress : callable
            Called with (done, total) kinds.

        Raises
        ------
        ProfileError
            The dataset does not follow the schema.
        ArgumentError
            A kernel that cannot exist, as a matrix without rows.
        MeasurementError
            No kind has enough measurements; a resource that is not positive.
        """
        validate_kernels(runs)
        for kind in unknown_kinds(runs):
            _log.warning(
                "the operations of kind '%s' are unknown: kernels are compared by the product of "
                "their parameters; use a kind of the page of kernels with all its parameters.",
                kind,
            )
        self._fit(runs, progress)
        kinds = np.unique(runs["kind"].values.astype(str)).tolist()
        if few := [kind for kind in kinds if kind not in self.kinds_]:
            _log.warning(
                "kinds with fewer than %d measurements are not in the model: %s; measure them "
                "more often, or choose a context by 'msbgen kernels choose', which takes fewer.",
                FEWEST, ", ".join(map(quoted, few)),
            )  # fmt: skip
        return self

    def _fit(self, runs: xr.Dataset, progress: OnProgress | None = None) -> Self:
        self.resources_ = tuple(resource_names(runs))
        self.parameters_ = tuple(dataset.parameter_names(runs))
        self.units_ = {
            n: u for n, u in dataset.units_of(runs).items() if n not in counter_names(runs)
        }
        self.levels_ = {
            n: np.unique(runs[n].values.astype(float)).tolist() for n in self.resources_
        }
        words, table = runs["kind"].values.astype(str), dataset.parameter_table(runs)
        shapes, configurations = shapes_of(runs), self._configurations(runs)
        kernel = dataset.kernels_of(runs).of
        power = dataset.powers_of(runs) if dataset.has_power(runs) else np.full(len(kernel), np.nan)
        self.kinds_ = {}
        kinds = list(dict.fromkeys(words.tolist()))
        parts = self.parts or ModelParts()
        for done, kind in enumerate(kinds):
            rows = np.flatnonzero(words == kind)
            if progress:
                progress(done, len(kinds))
            if len(rows) < FEWEST:
                continue
            work, of = shapes.some(rows), _numbered(kernel[rows])
            levels, seconds = configurations[rows], dataset.runtimes_of(runs)[rows]
            seed = self.random_state
            runtime = fit_runtime(work, levels, seconds, of, parts, seed)
            watts: PowerModel | None = None
            read = np.flatnonzero(np.isfinite(power[rows]))
            if len(read) >= FEWEST:
                measured = (work.some(read), levels[read], seconds[read], power[rows][read])
                watts = fit_power(*measured, _numbered(of[read]), parts, seed)
            logs = work.logs()
            columns = distinct_columns(logs)
            known = np.unique(logs[:, columns], axis=0)
            given = np.isfinite(table[rows]).mean(axis=0)
            self.kinds_[kind] = KindModel(runtime, watts, known, columns, given)
        if not self.kinds_:
            raise MeasurementError(
                f"no kind has {FEWEST} measurements or more; measure one of {', '.join(kinds[:5])} "
                f"more often, or whole programs with ConfigurationModel."
            )
        self.scores_ = Scores.none()
        if progress:
            progress(len(kinds), len(kinds))
        return self

    def calibrate(
        self, runs: xr.Dataset, *, folds: int = 5, progress: OnProgress | None = None
    ) -> Self:
        """Compute the errors of predictions of left-out kernels, for intervals.

        Parameters
        ----------
        runs : xarray.Dataset
            The measurements of :meth:`fit`.
        folds : int
            Number of folds; each leaves out whole kernels, or configurations of a single one.
        progress : callable
            Called with (done, total) folds.

        Raises
        ------
        ArgumentError, MeasurementError
            Not fitted; fewer than two folds; fewer kernels than folds.
        """
        self.check_fitted()
        seconds, watts = cross_predict(runs, self, folds=folds, progress=progress)
        self.scores_ = Scores.of(runs, seconds, watts)
        return self

    # --------------------------------------------------------------- predictions

    @_SILENT
    def predict(self, wanted: xr.Dataset) -> Floats:
        """Runtime of every measurement or launch [s], (n,).

        Parameters
        ----------
        wanted : xarray.Dataset
            ``msbgen-kernels/1``; its runtimes are ignored.

        Raises
        ------
        ArgumentError
            Not fitted; kinds that were not measured; parameters that are missing or that no kernel
            of the kind had; other units.
        """
        self._check_wanted(wanted)
        return finite_predictions(self._each(wanted)[0], "the runtime")

    @_SILENT
    def predict_power(self, wanted: xr.Dataset) -> Floats:
        """Power of every measurement [W], (n,); errors as :meth:`predict`, or a kind without it."""
        self._check_power(wanted)
        return finite_predictions(self._each(wanted)[1], "the power")

    @_SILENT
    def predict_energy(self, wanted: xr.Dataset) -> Floats:
        """Energy of every measurement [J], (n,); errors as :meth:`predict_power`."""
        self._check_power(wanted)
        seconds, watts = self._each(wanted)
        return finite_predictions(seconds * watts, "the energy")

    @_SILENT
    def predict_interval(
        self, wanted: xr.Dataset, miscoverage: float = 0.1
    ) -> tuple[Floats, Floats]:
        """Lower and upper ends of intervals of every runtime [s], (n,) each.

        The runtime of a new kernel, drawn like those of the fit, lies in its interval with
        probability at least 1 − `miscoverage`, kind by kind.

        Raises
        ------
        ArgumentError, MeasurementError
            As :meth:`predict`; not calibrated; a rate that needs more kernels.
        """
        seconds = self.predict(wanted)
        if not len(self.scores_.kind):
            raise ArgumentError("the predictor is not calibrated; call calibrate first.")
        words = wanted["kind"].values.astype(str)
        half = np.empty(len(words))
        for kind in np.unique(words):
            half[words == kind] = half_width(self.scores_, str(kind), miscoverage)
        high = finite_predictions(seconds * np.exp(half), "the upper end of the runtime")
        return seconds * np.exp(-half), high

    @_SILENT
    def predict_product(
        self, launches: xr.Dataset, configurations: ArrayLike
    ) -> tuple[Floats, Floats]:
        """Runtime [s] and power [W] of launches in configurations, (n, m) each.

        `launches` are ``msbgen-workload/1`` or measurements, `configurations` (m, n_resources) with
        columns in the order of :attr:`resources_`. Powers are NaN where power was not measured.
        """
        self._check_wanted(launches)
        dataset.check_same_units(launches, {name: self.units_[name] for name in self.parameters_})
        table = self._configured(configurations)
        seconds = np.empty((launches["kind"].size, len(table)))
        watts = np.full_like(seconds, np.nan)
        for rows, model, work in self._by_kind(launches):
            seconds[rows] = model.runtime.predict_product(work, table)
            if model.power:
                watts[rows] = model.power.predict_product(work, table, seconds[rows])
        # NaN for a kind without measured power
        finite_predictions(np.where(np.isnan(watts), 0.0, watts), "the power")
        return finite_predictions(seconds, "the runtime"), watts

    def extrapolates(self, wanted: xr.Dataset) -> Bools:
        """Whether each measurement or launch lies outside the hull of the fitted ones, (n,)."""
        self._check_wanted(wanted)
        outside = np.zeros(wanted["kind"].size, dtype=bool)
        for rows, model, work in self._by_kind(wanted):
            outside[rows] = model.outside(work)
        return outside

    def beyond(self, configurations: ArrayLike) -> Bools:
        """Whether each configuration (m, n_resources) lies outside the measured ranges, (m,)."""
        self.check_fitted()
        table = self._configured(configurations)
        levels = list(self.levels_.values())
        return _outside_box(table, *(np.array([end(one) for one in levels]) for end in (min, max)))

    # --------------------------------------------------------------- parts

    def _each(self, wanted: xr.Dataset) -> tuple[Floats, Floats]:
        """Runtime [s] and power [W] of every measurement; NaN where power was not measured."""
        self._check_kinds(wanted)
        configurations = self._configurations(wanted)
        seconds = np.empty(len(configurations))
        watts = np.full_like(seconds, np.nan)
        for rows, model, work in self._by_kind(wanted):
            seconds[rows] = model.runtime.predict(work, configurations[rows])
            if model.power:
                watts[rows] = model.power.predict(work, configurations[rows], seconds[rows])
        return seconds, watts

    def _by_kind(self, wanted: xr.Dataset) -> Iterator[tuple[Indices, KindModel, Shapes]]:
        """Rows of each kind, its model, and the work of these rows."""
        shapes, words = shapes_of(wanted, self.parameters_), wanted["kind"].values.astype(str)
        for kind in np.unique(words):
            rows = np.flatnonzero(words == kind)
            yield rows, self.kinds_[str(kind)], shapes.some(rows)

    def _configurations(self, runs: xr.Dataset) -> Floats:
        """Configurations of every measurement, in the order of the resources."""
        lacking = [name for name in self.resources_ if name not in resource_names(runs)]
        if lacking:
            raise ArgumentError(
                f"resources are {', '.join(resource_names(runs))}; {', '.join(self.resources_)} "
                f"are wanted."
            )
        dataset.check_same_units(runs, self.units_)
        table = np.stack([runs[n].values.astype(float) for n in self.resources_], axis=1)
        return self._positive(table)

    def _positive(self, table: Floats) -> Floats:
        bad = ~((table > 0) & (table < np.inf))
        if bad.any():
            row, column = np.argwhere(bad)[0]
            raise MeasurementError(
                f"resource '{self.resources_[column]}' is {table[row, column]:g} in measurement "
                f"{row}; a positive number is wanted."
            )
        return table

    def _configured(self, configurations: ArrayLike) -> Floats:
        levels = {name: {"levels": self.levels_[name]} for name in self.resources_}
        known = np.array([[end(self.levels_[n]) for n in levels] for end in (min, max)])
        return near_contexts(configurations, known, levels)

    def _check_kinds(self, wanted: xr.Dataset) -> None:
        self.check_fitted()
        words = wanted["kind"].values.astype(str)
        count = wanted["count"].values if "count" in wanted else np.ones(len(words))
        unknown = ~np.isin(words, list(self.kinds_))
        if not unknown.any():
            return
        names = list(dict.fromkeys(words[unknown].tolist()))
        near = difflib.get_close_matches(names[0], list(self.kinds_), 1)
        hint = f"did you mean '{near[0]}'?" if near else f"{', '.join(self.kinds_)} are."
        share = count[unknown].sum() / count.sum()
        raise ArgumentError(
            f"kernels of kind {', '.join(map(repr, names))}, {share:.1%} of the launches, were not "
            f"measured, or fewer than {FEWEST} times; {hint}"
        )

    def _check_wanted(self, wanted: xr.Dataset) -> None:
        self._check_kinds(wanted)
        words, known = wanted["kind"].values.astype(str), list(self.parameters_)
        names, table = dataset.parameter_names(wanted), np.isfinite(dataset.parameter_table(wanted))
        for kind in np.unique(words):
            rows, given = np.flatnonzero(words == kind), self.kinds_[str(kind)].given
            share = dict(zip(known, given.tolist()))
            has = dict(zip(names, table[rows].T))
            listed = ", ".join(name for name in known if share[name] > 0) or "none"
            for name in names:
                if has[name].any() and not share.get(name, 0.0):
                    raise ArgumentError(
                        f"kernel {rows[has[name]][0]}, a {kind}, has the parameter '{name}', which "
                        f"no measured one has; use {listed}."
                    )
            for name in known:
                lacks = ~has.get(name, np.zeros(len(rows), dtype=bool))
                if share[name] == 1 and lacks.any():
                    raise ArgumentError(
                        f"kernel {rows[lacks][0]}, a {kind}, has no parameter '{name}', which "
                        f"every measured one has; give {listed}."
                    )

    def _check_power(self, wanted: xr.Dataset) -> None:
        self._check_wanted(wanted)
        bare = [k for k in np.unique(wanted["kind"].values) if not self.kinds_[str(k)].power]
        if bare:
            raise ArgumentError(
                f"kind {str(bare[0])!r} was measured without power; measure its power, or predict "
                f"runtimes only."
            )


def cross_predict(
    runs: xr.Dataset,
    predictor: KernelPredictor,
    *,
    folds: int = 5,
    progress: OnProgress | None = None,
) -> tuple[Floats, Floats]:
    """Runtime [s] and power [W] of every measurement by a fit without its kernel, (n,) each.

    Powers are NaN where power was not measured; both are NaN where the fit lacks the kind. Each
    fold leaves out whole kernels. The predictor's parameters are used; it is not fitted itself.
    """
    fold = kernel_folds(runs, folds, predictor.random_state)
    seconds, watts = (np.full(len(fold), np.nan) for _ in range(2))
    for k in range(folds):
        other = type(predictor)(**predictor.get_params())
        other._fit(runs.isel(measurement=np.flatnonzero(fold != k)))
        known = np.isin(runs["kind"].values.astype(str), list(other.kinds_))
        test = np.flatnonzero((fold == k) & known)
        if len(test):
            seconds[test], watts[test] = other._each(runs.isel(measurement=test))
        if progress:
            progress(k + 1, folds)
    return seconds, watts


def kernel_folds(runs: xr.Dataset, folds: int, random_state: int) -> Indices:
    """Fold of every measurement, (n,); kernels stay whole.  Errors as :func:`cross_predict`.

    Of a single kernel, whole configurations are left out: errors are then those of its other
    configurations, and intervals need more kernels.
    """
    rng = np.random.default_rng([7, random_state])
    kernel = dataset.kernels_of(runs).of
    if np.unique(kernel).size > 1:
        return group_folds(kernel, folds, rng, unit="kernels")
    pairs = np.stack([kernel, dataset.configurations_of(runs)[1]], axis=1)
    _, configuration = np.unique(pairs, axis=0, return_inverse=True)
    return group_folds(configuration.reshape(-1), folds, rng, unit="configurations")


def _numbered(kernel: Indices) -> Indices:
    """Kernels numbered from 0 on, without gaps, (n,)."""
    return np.unique(kernel, return_inverse=True)[1].reshape(-1)


def _outside_box(points: Floats, low: Floats, high: Floats) -> Bools:
    """Whether each point lies outside a box, up to rounding, (n,)."""
    slack = 1e-9 * np.maximum(np.abs(low), np.abs(high))
    return np.asarray(((points < low - slack) | (points > high + slack)).any(axis=1))
