"""Predict runtimes that were not measured: any workload on any platform, alone or beside others.

The log runtime is a sum of linear scaling (:mod:`~msbgen.systems.runtimes.scaling`), the mean of a
few pairs of towers (:mod:`~msbgen.systems.runtimes.towers`) and kriging of the residual
(:mod:`~msbgen.systems.runtimes.kriging`). It is shrunk where the pairs of towers disagree
(:mod:`~msbgen.systems.runtimes.shrinkage`). Bounds are by split conformal prediction
(:mod:`~msbgen.systems.runtimes.calibration`), with one pool of calibration runs for each number of
neighbours and a choice of widths (:mod:`~msbgen.systems.runtimes.spread`).

Source: Huang et al., *Interference-aware edge runtime prediction with conformal matrix completion*,
MLSys 2025 (Pitot). ``preset="paper"`` is its Appendix B.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.arrays import LOG_TIMES, NOT_NEGATIVE, Stored, finite_predictions
from msbgen.core.conformal import Miscoverage, supported_rate
from msbgen.core.errors import ArgumentError, MeasurementError, quoted
from msbgen.core.machine import OnProgress, available_cores
from msbgen.core.records import Count, Seed, checks_arguments
from msbgen.systems.learn.parameters import Predictor
from msbgen.systems.runtimes.calibration import CalibrationPool
from msbgen.systems.runtimes.embeddings import Embeddings, Products, use_products
from msbgen.systems.runtimes.kriging import Fields, fit_fields, no_fields
from msbgen.systems.runtimes.runs import Observations, log_runtimes, observations, run_indices
from msbgen.systems.runtimes.scaling import Scaling, fit_scaling
from msbgen.systems.runtimes.shrinkage import krige_platforms, shrunk_mean
from msbgen.systems.runtimes.spread import WIDTHS, Spread, fit_spread
from msbgen.systems.runtimes.towers import TowerSettings, train_towers

Floats = NDArray[np.float64]
Members = Embeddings | list[Products]
Indices = NDArray[np.int64]

# The settings of the paper's authors: AdaMax, squared loss and eight quantiles, batches of 1,024
# for two degrees of interference (2,048 for four), one learned feature.
PAPER = TowerSettings(
    rank=64, learned=1, types=2, steps=20_000, rate=1e-3, width=None, decay=0.0,
    quantiles=(0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99), batch=1024,
    beside=0.5, infinity_norm=True,
)  # fmt: skip
# Cells of a workload or platform below which a prediction counts as extrapolated.
_FEW = 3
# Cells of a table in whose fit calls cost more than arithmetic.
_SMALL = 4096
# Runs that are predicted at a time.
_PART = 1 << 16


class RuntimePredictor(Predictor):
    """Predicts runtimes from observed ones; fit → calibrate → predict, predict_bound.

    It follows the conventions of scikit-learn without needing it: parameters are only stored,
    names of fitted attributes end in ``_``, and ``clone`` and ``cross_val_score`` work.

    Parameters
    ----------
    workload_features, platform_features : ndarray, (n_workloads, d) and (n_platforms, d'), or None
        Features of each workload and platform.  With None all features are learned, and their
        number is that of the runs' indices.
    preset : {"default", "paper"}
    members : int
        Pairs of towers that are averaged.
    towers : TowerSettings or None
        None for those of the preset.
    kriging : bool
        Whether to krige the residual of the towers, and to shrink where they disagree.
    random_state : int
        Seed of all random numbers; equal seeds give bitwise equal results.

    Attributes
    ----------
    scaling_, members_, fields_, spread_
        Parts of the fitted model.
    interference_ : float
        Mean square over the fitted runs of the part of the log runtime due to neighbours.
    workload_cells_, platform_cells_ : ndarray
        Number of platforms on which each workload was observed, and of workloads on each platform.
    names_ : pair of tuple of str, or None
        Names of the workloads and of the platforms; None after a fit to indices alone.

    Examples
    --------
    >>> import numpy as np
    >>> from msbgen.systems.runtimes.predictor import RuntimePredictor
    >>> from msbgen.systems.runtimes.towers import TowerSettings
    >>> cells = np.array([(i, j) for i in range(6) for j in range(5)])  # workload, platform
    >>> runtime = 2.0 ** cells[:, 0] * 3.0 ** cells[:, 1]  # [s]
    >>> model = RuntimePredictor(members=1, towers=TowerSettings(steps=20))
    >>> model = model.fit(cells[:-1], runtime[:-1])
    >>> bool(abs(model.predict(cells[-1:])[0] / runtime[-1] - 1) < 0.1)
    True
    """

    schema = "msbgen-runtime-model/4"
    of = "runtimes"

    scaling_: Scaling
    members_: Embeddings
    fields_: Fields
    spread_: Spread
    interference_: Annotated[float, Stored((), NOT_NEGATIVE)]
    workload_cells_: Annotated[Indices, Stored(("workload",), dtype="i8")]
    platform_cells_: Annotated[Indices, Stored(("platform",), dtype="i8")]
    names_: tuple[tuple[str, ...], tuple[str, ...]] | None
    range_: tuple[float, float]
    most_neighbours_: int
    pools_: dict[int, CalibrationPool]

    @checks_arguments
    def __init__(
        self,
        workload_features: Annotated[Floats | None, Stored(("workload", "property"))] = None,
        platform_features: Annotated[Floats | None, Stored(("platform", "other property"))] = None,
        *,
        preset: Literal["default", "paper"] = "default",
        members: Count = 4,
        towers: TowerSettings | None = None,
        kriging: bool = True,
        random_state: Seed = 0,
    ) -> None:
        self.workload_features = workload_features
        self.platform_features = platform_features
        self.preset = preset
        self.members = members
        self.towers = towers
        self.kriging = kriging
        self.random_state = random_state

    def problems(self) -> Iterator[tuple[str, object, str]]:
        """What is wrong with a stored predictor."""
        if self.preset not in ("default", "paper"):
            yield "preset", quoted(self.preset), "default or paper"
        low, high = self.range_
        if not LOG_TIMES[0] <= low <= high <= LOG_TIMES[1]:
            yield "range_", f"[{low:g}, {high:g}]", "an ascending one"
        for of, names in zip(self._fitted_shape, self.names_ or ()):
            if not len(names) == len(set(names)) == of:
                yield "names_", f"{len(names)}, or a name twice", f"{of} distinct ones"
        if self.most_neighbours_ < 0:
            yield "most_neighbours_", self.most_neighbours_, "0 or more"
        wanted = self.members_.workload.shape[1], 1 if self.preset == "paper" else len(WIDTHS)
        for pool in self.pools_.values():
            if (len(pool.prediction), len(pool.width)) != wanted:
                yield "pools_", "of other predictions or widths", f"{wanted} of them"

    # --------------------------------------------------------------- conventions of scikit-learn

    def __sklearn_tags__(self) -> Any:
        """Tags of this estimator, for scikit-learn."""
        from sklearn.utils import InputTags, RegressorTags, Tags, TargetTags  # pyright: ignore[reportMissingImports]

        return Tags(
            estimator_type="regressor",
            target_tags=TargetTags(required=True, positive_only=True),
            regressor_tags=RegressorTags(),
            input_tags=InputTags(),
        )

    def score(self, runs: ArrayLike, runtime: ArrayLike) -> float:
        """Minus the mean relative error (greater is better); errors as :meth:`predict`."""
        predicted = self.predict(runs)
        measured = np.exp(log_runtimes(runtime, len(predicted)))
        return -float(np.mean(np.abs(predicted / measured - 1.0)))

    # --------------------------------------------------------------- fitting

    def fit(
        self, runs: ArrayLike, runtime: ArrayLike, *, progress: OnProgress | None = None
    ) -> Self:
        """Fit to observed runs.

        Parameters
        ----------
        runs : array_like of int, (n, 2 + slots)
            Indices of workload, platform and the workloads that ran beside, −1 for none.
        runtime : array_like, (n,)
            [s]
        progress : callable
            Called with (done, total) steps.

        Raises
        ------
        ArgumentError
            Shapes that do not fit, indices out of range, features that are not finite.
        MeasurementError
            Runtimes that are not positive; no run alone; platforms that share no workload.
        """
        settings = self._settings()
        table = run_indices(runs)
        observed = observations(table, self._shape(table))
        log_runtime = log_runtimes(runtime, len(observed))
        self.features_ = self._features(observed.shape)
        alone = observed.n_neighbours == 0
        if not alone.any():
            raise MeasurementError("no run is alone; some runs without neighbours are wanted.")
        self.scaling_ = fit_scaling(
            observed.workload[alone], observed.platform[alone], log_runtime[alone], observed.shape
        )
        residual = log_runtime - self.scaling_.log_runtime(observed.workload, observed.platform)
        finite = np.isfinite(residual)
        if not finite.all():
            row = int(np.argmin(finite))
            raise MeasurementError(
                f"workload {observed.workload[row]} or platform {observed.platform[row]} was never "
                f"observed alone; a run of it without neighbours is wanted."
            )
        self.range_ = float(residual.min()), float(residual.max())
        workload, platform = np.divmod(np.unique(observed.cell), observed.shape[1])
        self.workload_cells_ = np.bincount(workload, minlength=observed.shape[0])
        self.platform_cells_ = np.bincount(platform, minlength=observed.shape[1])
        self.names_ = None
        self.most_neighbours_ = int(observed.n_neighbours.max())
        self.members_ = self._train(observed, residual, settings, progress)
        self._complete(observed, residual)
        self.pools_ = {}
        return self

    def _complete(self, observed: Observations, residual: Floats) -> None:
        """Fit interference, kriging, shrinkage and spread to the members' predictions."""
        members = [member.products() for member in self.members_.each()]
        towers, alone = _residuals(observed, members), _alone(observed, members)
        self.interference_ = 0.0
        if len(observed.interfered):
            added = (towers[0] - alone)[:, observed.interfered].mean(axis=0)
            self.interference_ = float(np.mean(added**2))
        mean = self._means(observed, members, towers)[0]
        fitted = np.clip(mean, *self.range_)
        if self.kriging and self.preset != "paper":
            shift = krige_platforms(
                observed,
                residual - (mean - alone.mean(axis=0)),
                np.stack([member.alone[0] for member in members]),
                self.range_,
                self.features_[0],
            )
            rest = residual - fitted - shift.ravel()[observed.cell]
            fields = fit_fields(observed, rest, self.features_)
            self.fields_ = replace(fields, cell=fields.cell + shift)
        else:
            self.fields_ = no_fields(observed.shape)
        correction = self.fields_.at(observed)
        rest = residual - fitted - correction
        self.spread_ = fit_spread(observed, rest, towers[0].std(axis=0), correction, self.features_)

    def _train(
        self,
        observed: Observations,
        residual: Floats,
        settings: TowerSettings,
        progress: OnProgress | None,
    ) -> Embeddings:
        """All members: together where the table is small, else side by side on all cores."""
        members = list(range(1 if self.preset == "paper" else self.members))
        small = observed.shape[0] * observed.shape[1] <= _SMALL and settings.batch is None
        groups = [members] if small else [[m] for m in members]
        done, ended = [0] * len(groups), Event()

        def train(k: int) -> Embeddings:
            def step(steps: int, total: int) -> None:
                if ended.is_set():
                    raise KeyboardInterrupt
                done[k] = steps
                if progress:
                    progress(sum(done), total * len(groups))

            return self._members_of(observed, residual, settings, groups[k], step)

        with ThreadPoolExecutor(min(available_cores(), len(groups))) as pool:
            try:
                trained = list(pool.map(train, range(len(groups))))
            except BaseException:
                ended.set()  # stops the training of the others
                raise
        return Embeddings(
            np.concatenate([made.workload for made in trained]),
            np.concatenate([made.platform for made in trained]),
        )

    def _members_of(
        self,
        observed: Observations,
        residual: Floats,
        settings: TowerSettings,
        members: list[int],
        progress: OnProgress,
    ) -> Embeddings:
        seeds = [np.random.SeedSequence([0, self.random_state, m]) for m in members]
        rngs = [np.random.default_rng(seed) for seed in seeds]
        if self.preset != "paper":
            return train_towers(
                observed, residual, self.features_, settings, rngs, progress=progress
            )
        # a tenth of the runs chooses the step whose parameters are kept, as in the paper
        validation = rngs[0].random(len(observed)) < 0.1
        check = (observed.some(validation), residual[validation]) if validation.any() else None
        return train_towers(
            observed.some(~validation), residual[~validation], self.features_, settings, rngs,
            check=check, progress=progress,
        )  # fmt: skip

    def calibrate(
        self, runs: ArrayLike, runtime: ArrayLike, *, groups: ArrayLike | None = None
    ) -> Self:
        """Calibrate bounds with runs that were left out of the fit; errors as :meth:`fit`.

        Parameters
        ----------
        runs, runtime
            As for :meth:`fit`, but other runs.
        groups : array_like of int, (n,), or None
            Exchangeable unit of each run: all runs of a cell have one number.  None: every run is
            a unit.
        """
        observed = self._observed(runs)
        log_runtime = log_runtimes(runtime, len(observed))
        unit = np.arange(len(observed)) if groups is None else np.asarray(groups)
        if unit.shape != (len(observed),):
            raise ArgumentError(f"groups has shape {unit.shape}; ({len(observed)},) is wanted.")
        locations, deviation, correction = self._locations(observed, self._members(len(observed)))
        widths = self._widths(observed, deviation, correction)
        self.pools_ = {}
        for degree in np.unique(observed.n_neighbours):
            rows = observed.n_neighbours == degree
            self.pools_[int(degree)] = CalibrationPool(
                log_runtime[rows], locations[:, rows], widths[:, rows],
                np.unique(unit[rows], return_inverse=True)[1],
            )  # fmt: skip
        return self

    # --------------------------------------------------------------- predictions

    def predict(self, runs: ArrayLike) -> Floats:
        """Runtime [s] of runs, (n,): the exponential of the mean of its logarithm.

        Parameters
        ----------
        runs : array_like of int, (n, 2 + slots)
            As for :meth:`fit`.

        Raises
        ------
        ArgumentError, MeasurementError
            Another shape, indices out of range; a workload or platform that was never observed.
        """

        def predict_part(part: Observations, members: Members) -> Floats:
            mean = self._means(part, members, _residuals(part, members))[0]
            return np.exp(self._location(part, mean, self.fields_.at(part)))

        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # of an edited model
            predicted = self._in_parts(self._observed(runs), predict_part)
        return finite_predictions(predicted, "the runtime")

    @checks_arguments
    def predict_bound(self, runs: ArrayLike, miscoverage: Miscoverage = 0.05) -> Floats:
        """Runtime [s] that a run exceeds with probability at most `miscoverage`, (n,).

        Bounds do not fall as the rate falls.

        Raises
        ------
        ArgumentError, MeasurementError
            As :meth:`predict`; another number of neighbours than left-out runs have; a rate that
            these do not support, see :meth:`supported_rate`.
        """
        observed = self._observed(runs)
        for pool in self._pools_of(observed):
            pool.offsets(miscoverage)

        def bound_part(part: Observations, members: Members) -> Floats:
            locations, deviation, correction = self._locations(part, members)
            bound = np.full(len(part), -np.inf)
            widths = self._widths(part, deviation, correction)
            for degree in np.unique(part.n_neighbours).tolist():
                rows = np.flatnonzero(part.n_neighbours == degree)
                for offset, at, width in self.pools_[degree].offsets(miscoverage):
                    high = locations[at, rows] + offset * widths[width, rows]
                    bound[rows] = np.maximum(bound[rows], high)
            return np.exp(bound)

        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # of an edited model
            bounds = self._in_parts(observed, bound_part)
        return finite_predictions(bounds, "the bound of the runtime")

    def supported_rate(self, runs: ArrayLike, miscoverage: float = 0.05) -> float:
        """`miscoverage`, or the smallest larger rate at which all of the runs have bounds.

        Errors as :meth:`predict_bound`.
        """
        fewest = min(pool.n_units for pool in self._pools_of(self._observed(runs)))
        return supported_rate(miscoverage, fewest)

    def answers(self, runs: ArrayLike) -> NDArray[np.bool_]:
        """Whether each run can be predicted: workload and platform were observed alone, (n,)."""
        return self._observed_alone(self._checked(runs))

    def extrapolates(self, runs: ArrayLike) -> NDArray[np.bool_]:
        """Whether each run is an extrapolation, (n,).

        It is one if its workload, platform or a neighbour was observed in fewer than three cells,
        or if it has more neighbours than any fitted run.
        """
        observed = self._observed(runs)
        workloads, platforms = self.workload_cells_, self.platform_cells_
        few = (workloads[observed.workload] < _FEW) | (platforms[observed.platform] < _FEW)
        few |= observed.n_neighbours > self.most_neighbours_
        row, neighbour = observed.neighbour
        few[observed.interfered[row[workloads[neighbour] < _FEW]]] = True
        return few

    # --------------------------------------------------------------- parts

    def _pools_of(self, observed: Observations) -> list[CalibrationPool]:
        """Calibration pool of every number of neighbours that the runs have."""
        for degree in np.unique(observed.n_neighbours).tolist():
            if degree not in self.pools_:
                row = int(np.argmax(observed.n_neighbours == degree))
                raise MeasurementError(
                    f"row {row} has {degree} neighbours; bounds are calibrated for "
                    f"{', '.join(map(str, self.pools_)) or 'none'}: runs with as many in more "
                    f"cells (a workload on a platform) are wanted."
                )
        return [self.pools_[degree] for degree in np.unique(observed.n_neighbours).tolist()]

    def _in_parts(
        self, observed: Observations, predict_part: Callable[[Observations, Members], Floats]
    ) -> Floats:
        """Predictions of some runs; many of them in parts on all cores."""
        members = self._members(len(observed))
        if len(observed) <= _PART:
            return predict_part(observed, members)
        parts = (observed.some(slice(at, at + _PART)) for at in range(0, len(observed), _PART))
        with ThreadPoolExecutor(available_cores()) as pool:
            return np.concatenate(list(pool.map(lambda part: predict_part(part, members), parts)))

    def _members(self, n: int) -> Members:
        """Members in the form from which n runs are computed fastest."""
        if use_products(n, self._fitted_shape):
            return [member.products() for member in self.members_.each()]
        return self.members_

    def _locations(self, observed: Observations, members: Members) -> tuple[Floats, Floats, Floats]:
        """Log runtimes (1 + quantiles, n), the members' deviation and the correction, (n,)."""
        towers, correction = _residuals(observed, members), self.fields_.at(observed)
        means = self._means(observed, members, towers)
        locations = np.stack([self._location(observed, mean, correction) for mean in means])
        return locations, towers[0].std(axis=0), correction

    def _means(self, observed: Observations, members: Members, towers: NDArray) -> NDArray:
        """Mean residual over the members, (heads, n), with interference shrunk towards 0."""
        means, interfered = towers.mean(axis=1), observed.interfered
        if len(interfered) and towers.shape[1] > 1:
            alone = _alone(observed.some(interfered), members)
            added = shrunk_mean(towers[0][:, interfered] - alone, self.interference_)
            means[0, interfered] = alone.mean(axis=0) + added
        return means

    def _location(self, observed: Observations, residual: NDArray, correction: Floats) -> Floats:
        linear = self.scaling_.log_runtime(observed.workload, observed.platform)
        return linear + np.clip(residual, *self.range_) + correction

    def _widths(self, observed: Observations, deviation: Floats, correction: Floats) -> Floats:
        """Widths to choose from for bounds, (widths, n)."""
        if self.preset == "paper":
            return np.ones((1, len(observed)))
        return self.spread_.widths(observed, deviation, correction)

    def _settings(self) -> TowerSettings:
        if self.towers is not None:
            return self.towers
        return PAPER if self.preset == "paper" else TowerSettings()

    def _shape(self, table: Indices) -> tuple[int, int]:
        """Workloads and platforms: those with features, or as many as the runs name."""
        named = (table[:, [0, *range(2, table.shape[1])]], table[:, 1])
        both = (self.workload_features, self.platform_features)
        counts = [
            int(indices.max()) + 1 if features is None else len(np.atleast_1d(features))
            for indices, features in zip(named, both)
        ]
        return counts[0], counts[1]

    def _features(self, shape: tuple[int, int]) -> tuple[Floats, Floats]:
        tables = []
        for name, n in zip(("workload_features", "platform_features"), shape):
            features = getattr(self, name)
            try:
                table = np.empty((n, 0)) if features is None else np.asarray(features, dtype=float)
            except (TypeError, ValueError):
                raise ArgumentError(
                    f"{name} holds a value that is no number; numbers are wanted."
                ) from None
            if table.ndim != 2:
                raise ArgumentError(f"{name} has shape {table.shape}; ({n}, features) is wanted.")
            if not np.isfinite(table).all():
                row, column = np.argwhere(~np.isfinite(table))[0]
                raise ArgumentError(
                    f"{name} is {table[row, column]} in row {row}, column {column}; a finite "
                    f"number is wanted: fill it in or drop the feature."
                )
            tables.append(table)
        return tables[0], tables[1]

    def _checked(self, runs: ArrayLike) -> Observations:
        self.check_fitted()
        return observations(run_indices(runs), self._fitted_shape)

    @property
    def _fitted_shape(self) -> tuple[int, int]:
        """Number of workloads and platforms."""
        return len(self.workload_cells_), len(self.platform_cells_)

    def _observed_alone(self, runs: Observations) -> NDArray[np.bool_]:
        lengths, speeds = self.scaling_.workload, self.scaling_.platform
        return np.isfinite(lengths[runs.workload]) & np.isfinite(speeds[runs.platform])

    def _observed(self, runs: ArrayLike) -> Observations:
        observed = self._checked(runs)
        fine = self._observed_alone(observed)
        if not fine.all():
            row = int(np.argmin(fine))
            raise MeasurementError(
                f"row {row} of runs has workload {observed.workload[row]} on platform "
                f"{observed.platform[row]}, one of which was never observed alone; observe it once."
            )
        return observed


def _residuals(observed: Observations, members: Members) -> NDArray:
    """Residual of every member, (heads, members, n)."""
    if isinstance(members, Embeddings):
        return members.residual(observed).swapaxes(0, 1)
    return np.stack([member.residual(observed) for member in members], axis=1)


def _alone(observed: Observations, members: Members) -> NDArray:
    """Residual of every member without neighbours, (members, n)."""
    if isinstance(members, Embeddings):
        workload, platform = (
            members.workload[:, 0, observed.workload],
            members.platform[:, 0, observed.platform],
        )
        return np.einsum("mnr,mnr->mn", workload, platform)
    return np.stack([member.alone[0].take(observed.cell) for member in members])
