"""Time and energy of a task graph in contexts of a device, with conformal intervals.

1. A list schedule of the profiles of the kinds (:mod:`msbgen.graphs.boards`), with a few factors
   fitted to runs of the device (:mod:`.factors`).
2. Its residual, by boosting, weighted by its gain on held-out families (:mod:`.residual`).
3. Intervals from errors on held-out families of graphs (:mod:`.intervals`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Self

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError, MeasurementError, quoted
from msbgen.core.machine import OnProgress
from msbgen.core.records import Count, Seed, Within, checks_arguments
from msbgen.systems.graphs.boards import Board, Indices, prepare_graph
from msbgen.systems.graphs.devices import Device
from msbgen.systems.graphs.kinds import Kind, read_kinds
from msbgen.systems.graphs.predictor.checked_runs import arrays_of_runs, devices_of_runs
from msbgen.systems.graphs.predictor.factors import DeviceRuns, Factors, fit_factors
from msbgen.systems.graphs.predictor.features import (
    SCHEDULED,
    GraphShape,
    columns,
    plain_features,
    scheduled_features,
)
from msbgen.systems.graphs.predictor.intervals import GraphCalibration, calibrate
from msbgen.systems.graphs.predictor.prepared import (
    BaseGraphPredictor,
    FittedDevice,
    GraphOnDevice,
    check_interval,
    correction,
)
from msbgen.systems.graphs.predictor.residual import (
    SETTINGS,
    Residual,
    choose_weight,
    leave_families_out,
)
from msbgen.systems.graphs.runs import runs_families
from msbgen.systems.learn.boosting import BoostingSettings, fit_boosting

_log = logging.getLogger("msbgen")

Floats = NDArray[np.float64]
Order = Literal["arrival", "heft"]

# Share of the residual that is added on a device that boosting did not learn from.
_OTHER_DEVICE = 0.5
# Times or powers of runs over those of the sheet, from which on the unit must be another one.
_OTHER_UNIT = 30.0
# Mean powers over those of the sheet, from which on a warning is logged.
_OTHER_POWER = 3.0
_NO_SCORES = np.empty((0, 2))


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """Residuals of all runs by fits that did not see their families.

    `residual`, (n, 2), are logarithms of measured over scheduled time and energy, `predicted`, (n,
    2), predictions of them by boosting.  `features` are (n, d), `family` (n,) numbers the families.
    """

    residual: Floats
    predicted: Floats
    features: Floats
    family: Indices


class GraphPredictor(BaseGraphPredictor):
    """Predicts time and energy of graphs in contexts of devices.

    ``fit → calibrate → predict, predict_interval``; :meth:`adapt` adds a device later.

    Follows the conventions of scikit-learn: parameters are only stored, fitted attributes end in
    ``_``.  The residual and intervals need the extra ``[ml]``, schedules do not.

    Parameters
    ----------
    residual : bool
        Whether boosting corrects schedules.
    order : {"arrival", "heft"}
        Which ready task starts first in the runs: the first that became ready, or by HEFT's rank.
    factor_runs : int
        Most runs of a device that its factors are fitted to.
    folds : int
        Parts in which families are held out.
    boosting : BoostingSettings or None
        Of the residual.

    Attributes
    ----------
    devices_ : dict of str to FittedDevice
    residual_ : list of Residual
        One, or none without.
    calibration_ : list of GraphCalibration
        One once calibrated, none before.
    """

    schema = "msbgen-graph-model/4"
    of = "graphs"

    kinds_: tuple[Kind, ...]
    devices_: dict[str, FittedDevice]
    families_: tuple[str, ...]
    residual_: list[Residual]
    calibration_: list[GraphCalibration]

    @checks_arguments
    def __init__(
        self,
        *,
        residual: bool = True,
        order: Order = "arrival",
        factor_runs: Count = 100,
        folds: Annotated[int, Within(2)] = 5,
        boosting: BoostingSettings | None = None,
        random_state: Seed = 0,
    ) -> None:
        self.residual = residual
        self.order = order
        self.factor_runs = factor_runs
        self.folds = folds
        self.boosting = boosting
        self.random_state = random_state

    def problems(self) -> Iterator[tuple[str, object, str]]:
        """What is wrong with a stored predictor."""
        for name, fitted in self.devices_.items():
            if name != fitted.board.device.name:
                yield "devices_", f"of device {quoted(name)}", quoted(fitted.board.device.name)
        n_features = len(columns(self.kinds_)) + len(SCHEDULED)
        boosted = [one.boosting for one in self.residual_] + [c.widths for c in self.calibration_]
        for boosting in boosted:
            if boosting.nodes.n_features != n_features:
                yield "residual_", f"of {boosting.nodes.n_features} features", str(n_features)
        for name in ("residual_", "calibration_"):
            if (many := len(getattr(self, name))) > 1:
                yield name, f"of {many}", "none or one"
        for calibration in self.calibration_:
            if not calibration.family.max(initial=0) < max(len(self.families_), 1):
                yield "calibration_.0.family", calibration.family.max(), "one of the families"

    # --------------------------------------------------------------- fitting

    def fit(
        self,
        runs: Sequence[xr.Dataset],
        *,
        devices: Sequence[Device],
        graphs: Mapping[str, xr.Dataset],
        profiles: Mapping[str, xr.Dataset],
        progress: OnProgress | None = None,
    ) -> Self:
        """Learn from runs of graphs on devices.

        Parameters
        ----------
        runs : sequence of xarray.Dataset
            ``msbgen-graph-runs/1``, of a device each.
        devices : sequence of Device
            Their sheets.
        graphs : mapping of str to xarray.Dataset
            The graphs that ran, by name.  Whole families are held out: those that the runs name,
            else those of the graphs.  A graph without a family counts as one of its own.
        profiles : mapping of str to xarray.Dataset
            Of every kind of task: any profile dataset over a grid of cache ways, bandwidth and
            frequency.
        progress : callable
            Called with (done, total) folds.

        Raises
        ------
        ArgumentError
            Parameters out of range; no runs; the extra ``[ml]`` is not installed.
        ProfileError
            Datasets that break their schemas; a graph or a sheet that is missing; runs in
            another order than the predictor's, or of another family than their graph.
        MeasurementError
            Fewer families than folds, where there is a residual; times in another unit.
        """
        sheets = devices_of_runs(runs, devices)
        self.kinds_ = read_kinds(profiles)
        self.devices_ = {}
        self.calibration_ = []
        self.residual_ = []
        parts = []
        for dataset, device in zip(runs, sheets):
            board = Board(device, self.kinds_)
            parts.append((board, *self._packed(dataset, board, graphs)))
        pool = _Pool.of(parts)
        steps = progress or (lambda done, total: None)
        last = self.folds + 1 if self.residual else 1
        steps(0, last)
        factors = self._all_factors(pool, np.arange(len(pool.family)))
        for board, fitted in zip(pool.boards, factors):
            self.devices_[board.device.name] = FittedDevice(board, fitted, 1.0, _NO_SCORES)
        residual, features = self._residuals(pool, factors)
        if self.residual:
            self.cross_validation_ = scored = self._cross_validate(pool, steps)
            settings = self.boosting or SETTINGS
            booster = fit_boosting(features, residual, settings, self.random_state)
            weight = choose_weight(scored.residual, scored.predicted, scored.family)
            self.residual_ = [Residual(booster, weight)]
        else:
            zeros = np.zeros_like(residual)
            self.cross_validation_ = CrossValidation(residual, zeros, features, pool.family)
        self.families_ = tuple(pool.families)
        steps(last, last)
        return self

    def _cross_validate(self, pool: _Pool, steps: OnProgress) -> CrossValidation:
        """Residuals and predictions of all runs by fits that did not see their families."""
        done, settings = 0, self.boosting or SETTINGS

        def evaluate(train: Indices, test: Indices) -> Floats:
            nonlocal done
            residual, features = self._residuals(pool, self._all_factors(pool, train))
            booster = fit_boosting(features[train], residual[train], settings, self.random_state)
            done += 1
            steps(done, self.folds + 1)
            return np.hstack([residual[test], booster.predict(features[test]), features[test]])

        table, _ = leave_families_out(pool.family, self.folds, self.random_state, evaluate)
        return CrossValidation(table[:, :2], table[:, 2:4], table[:, 4:], pool.family)

    def _all_factors(self, pool: _Pool, train: Indices) -> list[Factors]:
        """Factors of each device, fitted to at most `factor_runs` of its training runs."""
        factors = []
        for k, (board, runs) in enumerate(zip(pool.boards, pool.runs)):
            of_device = train[pool.device[train] == k] - pool.first[k]
            rng = np.random.default_rng([1, self.random_state, k])
            some = rng.permutation(of_device)[: self.factor_runs]
            prior = Factors.none(len(board.device.clusters))
            factors.append(fit_factors(runs.some(some), board, prior, ranked=self._ranked))
        return factors

    def _residuals(self, pool: _Pool, factors: Sequence[Factors]) -> tuple[Floats, Floats]:
        """Logarithms of measured over scheduled of all runs, (n, 2), and their features."""
        residuals, features = [], []
        for k, (runs, fitted) in enumerate(zip(pool.runs, factors)):
            estimates = runs.estimates(fitted.applied(pool.boards[k]), ranked=self._ranked)
            residuals.append(runs.log - estimates[:, :2])
            features.append(scheduled_features(pool.plain[k], pool.names, estimates))
        return np.concatenate(residuals), np.concatenate(features)

    def _packed(
        self, dataset: xr.Dataset, board: Board, graphs: Mapping[str, xr.Dataset]
    ) -> tuple[DeviceRuns, Floats, list[str]]:
        """Runs as arrays, their features without a schedule, and their families."""
        names, arrays = arrays_of_runs(dataset, board, graphs, self.order)
        prepared = [prepare_graph(graphs[name], self.kinds_) for name in names]
        runs = DeviceRuns(prepared, *arrays)
        _check_unit(runs, board)
        number, rows, start, _ = arrays
        plain = np.empty((len(number), len(columns(self.kinds_))))
        for g, graph in enumerate(prepared):
            of_graph = np.flatnonzero(number == g)
            shape = GraphShape(graph, board)
            plain[of_graph] = plain_features(shape, rows[of_graph], start[of_graph])
        return runs, plain, runs_families(dataset, graphs)

    # --------------------------------------------------------------- calibration

    def calibrate(self) -> Self:
        """Calibrate intervals on the errors of the held-out families of :meth:`fit`.

        Only the widths of intervals are fitted.

        Raises
        ------
        ArgumentError
            Not fitted, or without a residual; the extra ``[ml]`` is not installed.
        """
        self.check_fitted()
        if not self.residual_:
            raise ArgumentError(
                "residual is False; True is wanted: intervals need held-out families."
            )
        scored = self.cross_validation_
        error = scored.residual - self.residual_[0].weight * scored.predicted
        folds = min(self.folds, len(self.families_))
        self.calibration_ = [
            calibrate(scored.features, error, scored.family, folds, self.random_state)
        ]
        return self

    def adapt(self, runs: xr.Dataset, *, device: Device, graphs: Mapping[str, xr.Dataset]) -> Self:
        """Fit the factors of one more device to runs on it; fifty are enough.

        Half of the residual that was learned on other devices is added.  Intervals follow the
        errors of these runs together with those of the other devices.

        Parameters
        ----------
        runs : xarray.Dataset
            ``msbgen-graph-runs/1``.
        device : Device
            Its sheet.
        graphs : mapping of str to xarray.Dataset

        Raises
        ------
        ArgumentError, ProfileError, MeasurementError
            As :meth:`fit`.
        """
        self.check_fitted()
        board = Board(device, self.kinds_)
        packed, plain, _ = self._packed(runs, board, graphs)
        prior = Factors.none(len(device.clusters))
        rng = np.random.default_rng([3, self.random_state])
        some = rng.permutation(len(packed.graph))[: self.factor_runs]
        packed, plain = packed.some(some), plain[some]
        factors = fit_factors(packed, board, prior, ranked=self._ranked)
        scores = _NO_SCORES
        if self.calibration_ and len(some) >= self.folds:
            residual, features = self._cross_fit(packed, plain, board, prior)
            error = residual - _OTHER_DEVICE * correction(self.residual_, features)
            scores = self.calibration_[0].scores(features, error)
        self.devices_[device.name] = FittedDevice(board, factors, _OTHER_DEVICE, scores)
        return self

    def _cross_fit(
        self, runs: DeviceRuns, plain: Floats, board: Board, prior: Factors
    ) -> tuple[Floats, Floats]:
        """Residual and features of each run, with factors fitted to the other folds."""
        fold, names = np.arange(len(runs.graph)) % self.folds, columns(self.kinds_)
        residual = np.empty((len(fold), 2))
        features = np.empty((len(fold), len(names) + len(SCHEDULED)))
        for k in range(self.folds):
            test = np.flatnonzero(fold == k)
            train = runs.some(np.flatnonzero(fold != k))
            factors = fit_factors(train, board, prior, ranked=self._ranked)
            estimates = runs.some(test).estimates(factors.applied(board), ranked=self._ranked)
            residual[test] = runs.log[test] - estimates[:, :2]
            features[test] = scheduled_features(plain[test], names, estimates)
        return residual, features

    # --------------------------------------------------------------- predictions

    def prepare(self, graph: xr.Dataset, device: Device) -> GraphOnDevice:
        """The graph on the device, for predictions in many contexts.

        Raises
        ------
        ArgumentError
            Not fitted; a sheet that differs from the fitted one of that name.
        ProfileError
            A kind of tasks without profile.
        """
        self.check_fitted()
        fitted = self.devices_.get(device.name)
        if fitted is not None and fitted.board.device != device:
            raise ArgumentError(
                f"the sheet of '{device.name}' differs from the fitted one; the same, or another "
                f"name, is wanted."
            )
        if fitted is None:
            board = Board(device, self.kinds_)
            sheet = Factors.none(len(device.clusters))
            fitted = FittedDevice(board, sheet, _OTHER_DEVICE, _NO_SCORES)
        return GraphOnDevice(
            prepare_graph(graph, self.kinds_), fitted, self._ranked, self.residual_,
            self.calibration_, device.name in self.devices_,
        )  # fmt: skip

    def check_interval(self, device: Device, miscoverage: float) -> None:
        """Raise the errors of :meth:`predict_interval` for the device and the rate."""
        self.check_fitted()
        fitted = self.residual_, self.calibration_
        check_interval(device.name, miscoverage, *fitted, has_runs=device.name in self.devices_)

    @property
    def _ranked(self) -> bool:
        return self.order == "heft"


@dataclass(frozen=True, eq=False)
class _Pool:
    """Runs of several devices one after another."""

    boards: list[Board]
    runs: list[DeviceRuns]
    plain: list[Floats]
    first: Indices
    device: Indices
    family: Indices
    families: tuple[str, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, parts: Sequence[tuple[Board, DeviceRuns, Floats, list[str]]]) -> _Pool:
        names = [name for *_, of_device in parts for name in of_device]
        families = tuple(sorted(set(names)))
        sizes = [len(of_device) for *_, of_device in parts]
        return cls(
            boards=[board for board, *_ in parts],
            runs=[runs for _, runs, *_ in parts],
            plain=[plain for *_, plain, _ in parts],
            first=np.concatenate([[0], np.cumsum(sizes)[:-1]]),
            device=np.repeat(np.arange(len(parts)), sizes),
            family=np.array([families.index(name) for name in names]),
            families=families,
            names=columns(parts[0][0].kinds),
        )


def _check_unit(runs: DeviceRuns, board: Board) -> None:
    """Refuse times in another unit than seconds; warn of unlikely mean powers.

    Powers alone do not show wrong units: they stay the same in milliseconds and millijoules.
    """
    log = runs.log - runs.estimates(board.arrays)[:, :2]
    time_ratio = float(np.exp(np.median(log[:, 0])))
    power_ratio = float(np.exp(np.median(log[:, 1] - log[:, 0])))
    if not 1 / _OTHER_POWER < power_ratio < _OTHER_POWER:
        _log.warning(
            "runs of '%s' draw %.2g times the power of its sheet and the profiles; check that "
            "energies are those of the whole device, in J",
            board.device.name,
            power_ratio,
        )
    if not 1 / _OTHER_UNIT < time_ratio < _OTHER_UNIT:
        raise MeasurementError(
            f"runs of '{board.device.name}' take {time_ratio:.1g} times the time by its sheet and "
            f"the profiles; seconds and joules are wanted (not ms and mJ)."
        )
