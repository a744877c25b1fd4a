"""Runtimes that were never measured: any workload on any platform, alone or beside others.

Log runtime = linear scaling (:mod:`~msbgen.runtimes.scaling`) + the mean of a few pairs of
towers (:mod:`~msbgen.runtimes.towers`) + kriging of what they leave
(:mod:`~msbgen.runtimes.kriging`), and a second opinion where the towers disagree
(:mod:`~msbgen.runtimes.shrinkage`).  Bounds are by split conformal prediction: the scores of
runs that were kept from the fit, in one pool for each number of neighbours, with the tightest of a
few widths (:mod:`~msbgen.runtimes.spread`).

Source: Huang et al., *Interference-aware edge runtime prediction with conformal matrix
completion*, MLSys 2025 (Pitot).  ``preset="paper"`` is its Appendix B.3.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Event
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.arrays import finite_predictions
from msbgen.core.conformal import check_rate, groups_needed, rate_steps
from msbgen.core.contexts import weighted_quantile
from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.core.machine import OnProgress, available_cores
from msbgen.learn.parameters import Parameters
from msbgen.runtimes.embeddings import Embeddings, Products, many
from msbgen.runtimes.kriging import fit_fields, no_fields
from msbgen.runtimes.runs import Observations, log_runtimes, observations, run_indices
from msbgen.runtimes.scaling import fit_scaling
from msbgen.runtimes.shrinkage import calmed, second_opinion
from msbgen.runtimes.spread import fit_spread
from msbgen.runtimes.towers import TowerSettings, train_towers

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
# A workload or platform that was observed less often than this is told little of.
_FEW = 3
# Runs that are answered at a time.
_PART = 1 << 16
# A width has to be tighter by this share than a plainer one.
_GAIN = 0.01


@dataclass(frozen=True, eq=False)
class Pool:
    """Calibration runs with one number of neighbours.

    Attributes
    ----------
    log_runtime : ndarray, (n,)
    prediction : ndarray, (1 + quantiles, n)
        Log runtimes as predicted.
    width : ndarray, (widths, n)
        See :data:`msbgen.runtimes.spread.WIDTHS`; the paper has the first alone.
    unit : ndarray of int, (n,)
        What is exchangeable, counted from 0.
    """

    log_runtime: Floats
    prediction: Floats
    width: Floats
    unit: Indices

    @property
    def least(self) -> float:
        """Smallest miscoverage that the units support, 1 / (units + 1), rounded up."""
        return float(np.ceil(1e4 / (int(self.unit.max()) + 2)) / 1e4)

    def offsets(self, miscoverage: float) -> list[tuple[float, int, int]]:
        """Quantile of the scores, location and width, for every rung of a rate."""
        if miscoverage not in self._memory:
            n = int(self.unit.max()) + 1
            check_rate(miscoverage, n, len(self.unit), "units")
            steps = [self._tightest(rate, asked) for rate, asked in rate_steps(miscoverage, n)]
            self._memory[miscoverage] = steps
        return self._memory[miscoverage]

    @cached_property
    def _memory(self) -> dict[float, list[tuple[float, int, int]]]:
        return {}

    def _tightest(self, rate: float, asked: float) -> tuple[float, int, int]:
        """Offset, location and width of the least mean over-provisioning at a rate."""
        best, chosen = np.inf, (0, 0)
        for location in range(len(self.prediction)):
            for width in range(len(self.width)):
                offset = self._offset(location, width, rate)
                bound = self.prediction[location] + offset * self.width[width]
                margin = float(np.maximum(np.expm1(bound - self.log_runtime), 0.0).mean())
                if margin < (1.0 - _GAIN) * best:
                    best, chosen = margin, (location, width)
        return self._offset(*chosen, asked), *chosen

    def _offset(self, location: int, width: int, rate: float) -> float:
        """Conformal quantile of the scores: the next unit is one of n + 1, at infinity."""
        score = (self.log_runtime - self.prediction[location]) / self.width[width]
        share = (1.0 / np.bincount(self.unit))[self.unit][None]
        level = min((1.0 - rate) * (1.0 + 1.0 / (int(self.unit.max()) + 1)), 1.0)
        return float(weighted_quantile(score, share, level)[0, 0])


class RuntimePredictor(Parameters):
    """Predicts runtimes from those that exist; fit → calibrate → predict, predict_bound.

    Follows the conventions of scikit-learn without needing it: parameters are only stored, what
    is fitted ends in ``_``, and ``clone`` and ``cross_val_score`` work.

    Parameters
    ----------
    workload_features, platform_features : ndarray, (n_workloads, d) and (n_platforms, d'), or None
        What is known of each; None where nothing is: then the predictor learns features alone,
        of as many workloads and platforms as the runs name.
    preset : {"default", "paper"}
    members : int
        Pairs of towers that are averaged.
    towers : TowerSettings or None
        None for those of the preset.
    kriging : bool
        Whether to krige what the towers leave, and the cells that they disagree on.
    random_state : int
        Seed of everything random; equal ones give equal results to the bit.

    Attributes
    ----------
    scaling_, members_, fields_, spread_
        Parts of the fitted model.
    interference_ : float
        Mean square of what neighbours add to a log runtime, over the runs learned from.
    seen_ : pair of ndarray
        Runs of each workload and of each platform.

    Examples
    --------
    >>> import numpy as np
    >>> from msbgen.runtimes.predictor import RuntimePredictor
    >>> from msbgen.runtimes.towers import TowerSettings
    >>> cells = np.array([(i, j) for i in range(6) for j in range(5)])  # workload, platform
    >>> runtime = 2.0 ** cells[:, 0] * 3.0 ** cells[:, 1]  # [s]
    >>> model = RuntimePredictor(members=1, towers=TowerSettings(steps=20))
    >>> model = model.fit(cells[:-1], runtime[:-1])
    >>> bool(abs(model.predict(cells[-1:])[0] / runtime[-1] - 1) < 0.1)
    True
    """

    def __init__(
        self,
        workload_features: Floats | None = None,
        platform_features: Floats | None = None,
        *,
        preset: str = "default",
        members: int = 4,
        towers: TowerSettings | None = None,
        kriging: bool = True,
        random_state: int = 0,
    ) -> None:
        self.workload_features = workload_features
        self.platform_features = platform_features
        self.preset = preset
        self.members = members
        self.towers = towers
        self.kriging = kriging
        self.random_state = random_state

    # --------------------------------------------------------------- conventions of scikit-learn

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks of an estimator; nobody else calls this."""
        from sklearn.utils import (  # pyright: ignore[reportMissingImports]
            InputTags,
            RegressorTags,
            Tags,
            TargetTags,
        )

        return Tags(
            estimator_type="regressor",
            target_tags=TargetTags(required=True, positive_only=True),
            regressor_tags=RegressorTags(),
            input_tags=InputTags(),
        )

    def score(self, runs: ArrayLike, runtime: ArrayLike) -> float:
        """Minus the mean relative error: greater is better.

        Raises
        ------
        ArgumentError, MeasurementError
            As :meth:`fit` and :meth:`predict`.
        """
        predicted = self.predict(runs)
        measured = np.exp(log_runtimes(runtime, len(predicted)))
        return -float(np.mean(np.abs(predicted / measured - 1.0)))

    # --------------------------------------------------------------- fitting

    def fit(
        self, runs: ArrayLike, runtime: ArrayLike, *, progress: OnProgress | None = None
    ) -> Self:
        """Learn from runs that were observed.

        Parameters
        ----------
        runs : array_like of int, (n, 2 + slots)
            Workload, platform, and the workloads that ran beside, −1 for none.
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
        alone = observed.degree == 0
        if not alone.any():
            raise MeasurementError("no run is alone; some runs without neighbours are wanted.")
        self.scaling_ = fit_scaling(
            observed.workload[alone], observed.platform[alone], log_runtime[alone], observed.shape
        )
        residual = log_runtime - self.scaling_.log_runtime(observed.workload, observed.platform)
        known = np.isfinite(residual)
        if not known.all():
            row = int(np.argmin(known))
            raise MeasurementError(
                f"workload {observed.workload[row]} or platform {observed.platform[row]} was never "
                f"observed alone; a run of it without neighbours is wanted."
            )
        self.range_ = float(residual.min()), float(residual.max())
        self.seen_ = (
            np.bincount(observed.workload, minlength=observed.shape[0]),
            np.bincount(observed.platform, minlength=observed.shape[1]),
        )
        self.degree_ = int(observed.degree.max())
        members = range(1 if self.preset == "paper" else self.members)
        done, ended = [0] * len(members), Event()

        def train(m: int) -> Embeddings:
            def step(steps: int, total: int) -> None:
                if ended.is_set():
                    raise KeyboardInterrupt
                done[m] = steps
                if progress:
                    progress(sum(done), total * len(members))

            return self._member(observed, residual, settings, m, step)

        with ThreadPoolExecutor(min(available_cores(), len(members))) as pool:
            try:
                trained = list(pool.map(train, members))
            except BaseException:
                ended.set()  # the others would be trained to their end
                raise
        self.members_ = Embeddings(
            np.stack([made.workload for made in trained]),
            np.stack([made.platform for made in trained]),
        )
        self._complete(observed, residual)
        self.pools_: dict[int, Pool] = {}
        return self

    def _complete(self, observed: Observations, residual: Floats) -> None:
        """All that is learned from what the members say."""
        members = [member.products() for member in self.members_.each()]
        towers, alone = _residuals(observed, members), _alone(observed, members)
        self.interference_ = 0.0
        if len(observed.felt):
            added = (towers[0] - alone)[:, observed.felt].mean(axis=0)
            self.interference_ = float(np.mean(added**2))
        mean = self._means(observed, members, towers)[0]
        fitted = np.clip(mean, *self.range_)
        if self.kriging and self.preset != "paper":
            moved = second_opinion(
                observed,
                residual - (mean - alone.mean(axis=0)),
                np.stack([member.alone[0] for member in members]),
                self.range_,
                self.features_[0],
            )
            left = residual - fitted - moved.ravel()[observed.cell]
            fields = fit_fields(observed, left, self.features_)
            self.fields_ = replace(fields, cell=fields.cell + moved)
        else:
            self.fields_ = no_fields(observed.shape)
        correction = self.fields_.at(observed)
        left = residual - fitted - correction
        self.spread_ = fit_spread(observed, left, towers[0].std(axis=0), correction, self.features_)

    def _member(
        self,
        observed: Observations,
        residual: Floats,
        settings: TowerSettings,
        m: int,
        progress: OnProgress,
    ) -> Embeddings:
        seed = np.random.SeedSequence([0, self.random_state, m])
        rng = np.random.default_rng(seed)
        if self.preset != "paper":
            return train_towers(
                observed, residual, self.features_, settings, rng=rng, progress=progress
            )
        # a tenth of the runs chooses among the parameters on the way, as in the paper
        held = rng.random(len(observed)) < 0.1
        check = (observed.some(held), residual[held]) if held.any() else None
        return train_towers(
            observed.some(~held), residual[~held], self.features_, settings, rng=rng,
            check=check, progress=progress,
        )  # fmt: skip

    def calibrate(
        self, runs: ArrayLike, runtime: ArrayLike, *, groups: ArrayLike | None = None
    ) -> Self:
        """Learn from runs that were kept from the fit how far predictions may be exceeded.

        Parameters
        ----------
        runs, runtime
            As for :meth:`fit`, other runs.
        groups : array_like of int, (n,), or None
            What is exchangeable with what is to come: runs that were made together have one
            number, or all runs of a cell.  None: each run by itself.

        Raises
        ------
        ArgumentError, MeasurementError
            As :meth:`fit`.
        """
        known = self._known(runs)
        log_runtime = log_runtimes(runtime, len(known))
        unit = np.arange(len(known)) if groups is None else np.asarray(groups)
        if unit.shape != (len(known),):
            raise ArgumentError(f"groups has shape {unit.shape}; ({len(known)},) is wanted.")
        locations, deviation, correction = self._locations(known, self._members(len(known)))
        widths = self._widths(known, deviation, correction)
        self.pools_ = {}
        for degree in np.unique(known.degree):
            rows = known.degree == degree
            self.pools_[int(degree)] = Pool(
                log_runtime[rows], locations[:, rows], widths[:, rows],
                np.unique(unit[rows], return_inverse=True)[1],
            )  # fmt: skip
        return self

    # --------------------------------------------------------------- answers

    def predict(self, runs: ArrayLike) -> Floats:
        """Runtime [s] of runs, (n,): the exponential of the mean of its logarithm.

        Parameters
        ----------
        runs : array_like of int, (n, 2 + slots)
            As for :meth:`fit`.

        Raises
        ------
        ArgumentError
            Another shape, or indices out of range.
        MeasurementError
            A workload or platform that was never observed.
        """

        def answer(part: Observations, members: Members) -> Floats:
            mean = self._means(part, members, _residuals(part, members))[0]
            return np.exp(self._location(part, mean, self.fields_.at(part)))

        return finite_predictions(self._answered(self._known(runs), answer), "the runtime")

    def predict_bound(self, runs: ArrayLike, miscoverage: float = 0.05) -> Floats:
        """Runtime [s] that a run exceeds with probability at most `miscoverage`, (n,).

        Smaller rates never give smaller bounds.

        Raises
        ------
        ArgumentError, MeasurementError
            As :meth:`predict`; not calibrated; more neighbours than any calibration run had; a
            rate that the calibration runs cannot support.
        """
        known = self._known(runs)
        if not self.pools_:
            raise ArgumentError("the predictor is not calibrated; call calibrate first.")
        for degree in np.unique(known.degree).tolist():
            if degree not in self.pools_:
                raise MeasurementError(
                    f"a run has {degree} neighbours; bounds are calibrated for "
                    f"{', '.join(map(str, self.pools_))}: calibrate with such runs."
                )
            self.pools_[degree].offsets(miscoverage)

        def answer(part: Observations, members: Members) -> Floats:
            locations, deviation, correction = self._locations(part, members)
            bound = np.full(len(part), -np.inf)
            widths = self._widths(part, deviation, correction)
            for degree in np.unique(part.degree).tolist():
                rows = np.flatnonzero(part.degree == degree)
                for offset, at, width in self.pools_[degree].offsets(miscoverage):
                    high = locations[at, rows] + offset * widths[width, rows]
                    bound[rows] = np.maximum(bound[rows], high)
            return np.exp(bound)

        return finite_predictions(self._answered(known, answer), "the bound of the runtime")

    def supports(self, miscoverage: float) -> bool:
        """Whether every pool has the calibration runs that bounds at a rate need.

        Raises
        ------
        ArgumentError
            Not calibrated, or no rate.
        """
        if not getattr(self, "pools_", None):
            raise ArgumentError("the predictor is not calibrated; call calibrate first.")
        return all(
            int(pool.unit.max()) + 1 >= groups_needed(miscoverage) for pool in self.pools_.values()
        )

    def answers(self, runs: ArrayLike) -> NDArray[np.bool_]:
        """Which runs can be predicted: of a workload and on a platform observed alone, (n,).

        Raises
        ------
        ArgumentError
            Not fitted, another shape, or indices out of range.
        """
        return self._placed(self._asked(runs))

    def extrapolates(self, runs: ArrayLike) -> NDArray[np.bool_]:
        """Which runs are told by little: of a workload, platform or neighbour that was observed
        fewer than three times, or with more neighbours than any observed run had, (n,)."""
        known = self._known(runs)
        workloads, platforms = self.seen_
        few = (workloads[known.workload] < _FEW) | (platforms[known.platform] < _FEW)
        few |= known.degree > self.degree_
        row, near = known.neighbour
        few[known.felt[row[workloads[near] < _FEW]]] = True
        return few

    # --------------------------------------------------------------- parts

    def _answered(
        self, known: Observations, answer: Callable[[Observations, Members], Floats]
    ) -> Floats:
        """Answers to some runs, many of them in parts on all cores."""
        members = self._members(len(known))
        if len(known) <= _PART:
            return answer(known, members)
        parts = (known.some(slice(at, at + _PART)) for at in range(0, len(known), _PART))
        with ThreadPoolExecutor(available_cores()) as pool:
            return np.concatenate(list(pool.map(lambda part: answer(part, members), parts)))

    def _members(self, n: int) -> Members:
        """What n runs gather from fastest."""
        if many(n, (len(self.seen_[0]), len(self.seen_[1]))):
            return [member.products() for member in self.members_.each()]
        return self.members_

    def _locations(self, known: Observations, members: Members) -> tuple[Floats, Floats, Floats]:
        """Log runtimes (1 + quantiles, n), the members' deviation and the correction, (n,)."""
        towers, correction = _residuals(known, members), self.fields_.at(known)
        means = self._means(known, members, towers)
        locations = np.stack([self._location(known, mean, correction) for mean in means])
        return locations, towers[0].std(axis=0), correction

    def _means(self, known: Observations, members: Members, towers: NDArray) -> NDArray:
        """Mean residual over the members, (heads, n), interference drawn towards nothing."""
        means, felt = towers.mean(axis=1), known.felt
        if len(felt) and towers.shape[1] > 1:
            alone = _alone(known.some(felt), members)
            added = calmed(towers[0][:, felt] - alone, self.interference_)
            means[0, felt] = alone.mean(axis=0) + added
        return means

    def _location(self, known: Observations, residual: NDArray, correction: Floats) -> Floats:
        linear = self.scaling_.log_runtime(known.workload, known.platform)
        return linear + np.clip(residual, *self.range_) + correction

    def _widths(self, known: Observations, deviation: Floats, correction: Floats) -> Floats:
        """Widths that bounds may have, (widths, n)."""
        if self.preset == "paper":
            return np.ones((1, len(known)))
        return self.spread_.widths(known, deviation, correction)

    def _settings(self) -> TowerSettings:
        if self.preset not in ("default", "paper"):
            raise ArgumentError(f"preset is {self.preset!r}; 'default' or 'paper' is wanted.")
        for name, least in (("members", 1), ("random_state", 0)):
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or value < least:
                raise ArgumentError(f"{name} is {value!r}; a whole number ≥ {least} is wanted.")
        if self.towers is not None:
            if not isinstance(self.towers, TowerSettings):
                raise ArgumentError(f"towers is {self.towers!r}; TowerSettings are wanted.")
            return self.towers
        return PAPER if self.preset == "paper" else TowerSettings()

    def _shape(self, table: Indices) -> tuple[int, int]:
        """Workloads and platforms: those with features, or as many as the runs name."""
        named = (table[:, [0, *range(2, table.shape[1])]], table[:, 1])
        given = (self.workload_features, self.platform_features)
        counts = [
            int(indices.max()) + 1 if features is None else len(np.atleast_1d(features))
            for indices, features in zip(named, given)
        ]
        return counts[0], counts[1]

    def _features(self, shape: tuple[int, int]) -> tuple[Floats, Floats]:
        tables = []
        for name, n in zip(("workload_features", "platform_features"), shape):
            given = getattr(self, name)
            try:
                table = np.empty((n, 0)) if given is None else np.asarray(given, dtype=float)
            except (TypeError, ValueError):
                raise ArgumentError(
                    f"{name} holds what is no number; numbers are wanted."
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

    def _asked(self, runs: ArrayLike) -> Observations:
        if not hasattr(self, "seen_"):
            raise ArgumentError("the predictor is not fitted; call fit first.")
        return observations(run_indices(runs), (len(self.seen_[0]), len(self.seen_[1])))

    def _placed(self, asked: Observations) -> NDArray[np.bool_]:
        lengths, speeds = self.scaling_.workload, self.scaling_.platform
        return np.isfinite(lengths[asked.workload]) & np.isfinite(speeds[asked.platform])

    def _known(self, runs: ArrayLike) -> Observations:
        known = self._asked(runs)
        fine = self._placed(known)
        if not fine.all():
            row = int(np.argmin(fine))
            raise MeasurementError(
                f"runs ask at row {row} for workload {known.workload[row]} on platform "
                f"{known.platform[row]}, one of which was never observed; observe each once."
            )
        return known


def _residuals(known: Observations, members: Members) -> NDArray:
    """Residual of every member, (heads, members, n)."""
    if isinstance(members, Embeddings):
        return members.residual(known).swapaxes(0, 1)
    return np.stack([member.residual(known) for member in members], axis=1)


def _alone(known: Observations, members: Members) -> NDArray:
    """Residual of every member without neighbours, (members, n)."""
    if isinstance(members, Embeddings):
        mine, place = members.workload[:, 0, known.workload], members.platform[:, 0, known.platform]
        return np.einsum("mnr,mnr->mn", mine, place)
    return np.stack([member.alone[0].take(known.cell) for member in members])
