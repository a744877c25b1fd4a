"""How long a graph of tasks takes in a context of a device, with which energy, and how sure.

The logarithms of time and energy are those of a list schedule of the kinds' profiles
(:mod:`.boards`), with a few factors fitted to runs of the device (:mod:`.factors`), and what
boosting says of the rest, as far as it helps on families of graphs never seen (:mod:`.residual`).
Intervals are conformal: how far predictions of families left out fall (:mod:`.intervals`).
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.arrays import finite_predictions
from msbgen.core.errors import ArgumentError, MeasurementError, ProfileError
from msbgen.core.machine import OnProgress
from msbgen.graphs.boards import Board, Indices, prepare_graph
from msbgen.graphs.dataset import graph_name
from msbgen.graphs.devices import Device
from msbgen.graphs.kinds import Kind, read_kinds
from msbgen.graphs.predictor.factors import DeviceRuns, Factors, fit_factors
from msbgen.graphs.predictor.features import Shape, columns, plain_features, scheduled_features
from msbgen.graphs.predictor.intervals import GraphCalibration, calibrate
from msbgen.graphs.predictor.prepared import FittedDevice, GraphOnDevice, check_interval, correction
from msbgen.graphs.predictor.residual import (
    SETTINGS,
    Residual,
    choose_weight,
    fit_residual,
    leave_families_out,
)
from msbgen.graphs.runs import run_contexts, runs_families
from msbgen.graphs.runs import validate_runs as validate_graph_runs
from msbgen.learn.boosting import BoostingSettings
from msbgen.learn.parameters import Parameters

_log = logging.getLogger("msbgen")

Floats = NDArray[np.float64]
Order = Literal["arrival", "heft"]

# Share of the residual that counts on a device that it did not learn from.
_ELSEWHERE = 0.5
# Runs that take so many times longer or shorter than a sheet says are in another unit.
_OTHER_UNIT = 30.0
# Mean powers so many times above or below are those of something else than the device.
_OTHER_POWER = 3.0
_NO_SCORES = np.empty((0, 2))


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """What fits said of runs whose families they did not see.

    Attributes
    ----------
    left : ndarray, (n, 2)
        What schedules left of the logarithms of time and energy.
    said : ndarray, (n, 2)
        What boosting said of that.
    features : ndarray, (n, d)
    family : ndarray of int, (n,)
    """

    left: Floats
    said: Floats
    features: Floats
    family: Indices


class GraphPredictor(Parameters):
    """Predicts time and energy of graphs in contexts of devices.

    ``fit → calibrate → predict, predict_interval``; :meth:`adapt` for a device that came later.

    Follows the conventions of scikit-learn: parameters are only stored, what is fitted ends in
    ``_``.  The residual and intervals need the extra ``[ml]``, schedules do not.

    Parameters
    ----------
    residual : bool
        Whether boosting corrects schedules.
    order : {"arrival", "heft"}
        Which ready task starts first, as in the runs.
    factor_runs : int
        DeviceRuns of a device, at most, that its factors are fitted to.
    folds : int
        Parts in which families are left out.
    boosting : BoostingSettings or None
        Of the residual.
    random_state : int

    Attributes
    ----------
    kinds_ : tuple of Kind
    devices_ : dict of str to FittedDevice
        Devices by name.
    residual_ : list of Residual
        One, or none without.
    cross_validation_ : CrossValidation
    calibration_ : list of GraphCalibration
        One once calibrated, none before.
    """

    def __init__(
        self,
        *,
        residual: bool = True,
        order: Order = "arrival",
        factor_runs: int = 100,
        folds: int = 5,
        boosting: BoostingSettings | None = None,
        random_state: int = 0,
    ) -> None:
        self.residual = residual
        self.order = order
        self.factor_runs = factor_runs
        self.folds = folds
        self.boosting = boosting
        self.random_state = random_state

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
            The graphs that ran, by name.  Held back as a whole are families: what runs, or else
            graphs, say; a graph of which neither says it is one of its own.
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
            Datasets that break their contracts; a graph or a sheet that is not given; runs in
            another order than the predictor's, or of another family than their graph.
        MeasurementError
            Fewer families than folds, where there is a residual; times in another unit.
        """
        self._check_parameters()
        if not runs:
            raise ArgumentError("runs are none; those of one device or more are wanted.")
        called = [str(dataset.attrs.get("device")) for dataset in runs]
        for name in called:
            if called.count(name) > 1:
                raise ProfileError(
                    f"runs of '{name}' are in {called.count(name)} parts; one is wanted: join "
                    f"them (msbgen.graphs.join_runs, or one file)."
                )
        self.kinds_: tuple[Kind, ...] = read_kinds(profiles)
        self.devices_: dict[str, FittedDevice] = {}
        self.calibration_: list[GraphCalibration] = []
        self.residual_: list[Residual] = []
        parts = []
        for dataset in runs:
            device = _device_of(dataset, devices)
            board = Board(device, self.kinds_)
            parts.append((board, *self._packed(dataset, board, graphs)))
        pool = _Pool.of(parts)
        steps = progress or (lambda done, total: None)
        last = self.folds + 1 if self.residual else 1
        steps(0, last)
        factors = self._all_factors(pool, np.arange(len(pool.family)))
        for board, own in zip(pool.boards, factors):
            self.devices_[board.device.name] = FittedDevice(board, own, 1.0, _NO_SCORES)
        left, features = self._left(pool, factors)
        if self.residual:
            self.cross_validation_ = held = self._hold_out(pool, steps)
            settings = self.boosting or SETTINGS
            booster = fit_residual(features, left, settings, self.random_state)
            weight = choose_weight(held.left, held.said, held.family)
            self.residual_ = [Residual(booster, weight)]
        else:
            self.cross_validation_ = CrossValidation(
                left, np.zeros_like(left), features, pool.family
            )
        self.families_ = pool.families
        steps(last, last)
        return self

    def _hold_out(self, pool: _Pool, steps: OnProgress) -> CrossValidation:
        """What fits that did not see their families say of all runs."""
        done, settings = 0, self.boosting or SETTINGS

        def answer(shown: Indices, left: Indices) -> Floats:
            nonlocal done
            found, features = self._left(pool, self._all_factors(pool, shown))
            booster = fit_residual(features[shown], found[shown], settings, self.random_state)
            done += 1
            steps(done, self.folds + 1)
            return np.hstack([found[left], booster.predict(features[left]), features[left]])

        told, _ = leave_families_out(pool.family, self.folds, self.random_state, answer)
        return CrossValidation(told[:, :2], told[:, 2:4], told[:, 4:], pool.family)

    def _all_factors(self, pool: _Pool, shown: Indices) -> list[Factors]:
        """Factors of each device from some of the runs shown."""
        found = []
        for k, (board, runs) in enumerate(zip(pool.boards, pool.runs)):
            own = shown[pool.device[shown] == k] - pool.first[k]
            rng = np.random.default_rng([1, self.random_state, k])
            some = rng.permutation(own)[: self.factor_runs]
            prior = Factors.none(len(board.device.clusters))
            found.append(fit_factors(runs.some(some), board, prior, ranked=self._ranked))
        return found

    def _left(self, pool: _Pool, factors: Sequence[Factors]) -> tuple[Floats, Floats]:
        """What schedules leave of all runs, (n, 2), and their aggregates."""
        left, features = [], []
        for k, (runs, own) in enumerate(zip(pool.runs, factors)):
            arrays = own.applied(pool.boards[k])
            said = runs.estimates(arrays, ranked=self._ranked)
            left.append(runs.log - said[:, :2])
            features.append(scheduled_features(pool.plain[k], pool.names, said))
        return np.concatenate(left), np.concatenate(features)

    def _packed(
        self, dataset: xr.Dataset, board: Board, graphs: Mapping[str, xr.Dataset]
    ) -> tuple[DeviceRuns, Floats, list[str]]:
        """Runs as fits take them, their plain aggregates, and their families."""
        validate_graph_runs(dataset, board.device)
        order = dataset.attrs.get("order", self.order)
        if order != self.order:
            raise ProfileError(
                f"tasks of runs of '{board.device.name}' started in the order {order}, and the "
                f"predictor's is {self.order}; the same is wanted (of arrival and heft)."
            )
        called = [str(name) for name in dataset["graph"].values]
        names = list(dict.fromkeys(called))
        for name in names:
            if name not in graphs:
                near = difflib.get_close_matches(name, graphs, 1)
                hint = f"did you mean '{near[0]}'?" if near else "give it among the graphs."
                raise ProfileError(f"runs of graph '{name}', which is not given; {hint}")
        prepared = [prepare_graph(graphs[name], self.kinds_) for name in names]
        which = np.array([names.index(name) for name in called])
        rows = board.rows(run_contexts(dataset, board.device))
        start = dataset["start_temperature"].values.astype(float)
        log = np.log(np.stack([dataset["makespan"].values, dataset["energy"].values], axis=1))
        runs = DeviceRuns(prepared, which, rows, start, log)
        _check_unit(runs, board)
        plain = [np.empty(0)] * len(called)
        for g, graph in enumerate(prepared):
            own = np.flatnonzero(which == g)
            found = plain_features(Shape(graph, board), rows[own], start[own])
            for i, row in zip(own.tolist(), found):
                plain[i] = row
        return runs, np.array(plain), runs_families(dataset, graphs)

    # --------------------------------------------------------------- calibration

    def calibrate(self) -> Self:
        """Learn how far predictions of unseen families fall from the truth.

        From what the fits that left them out said: nothing is fitted again but widths.

        Raises
        ------
        ArgumentError
            Not fitted, or without a residual; the extra ``[ml]`` is not installed.
        """
        self._check_fitted()
        if not self.residual_:
            raise ArgumentError("residual is False; intervals need the folds of one with it.")
        held = self.cross_validation_
        error = held.left - self.residual_[0].weight * held.said
        folds = min(self.folds, len(self.families_))
        found = calibrate(held.features, error, held.family, folds, self.random_state)
        self.calibration_ = [found]
        return self

    def adapt(self, runs: xr.Dataset, *, device: Device, graphs: Mapping[str, xr.Dataset]) -> Self:
        """Fit the factors of one more device to some runs on it; fifty do.

        What the residual learned of other devices counts by half; intervals are as wide as errors
        of these runs say beside those of other devices.

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
        self._check_fitted()
        board = Board(device, self.kinds_)
        packed, plain, _ = self._packed(runs, board, graphs)
        prior = Factors.none(len(device.clusters))
        rng = np.random.default_rng([3, self.random_state])
        some = rng.permutation(len(packed.graph))[: self.factor_runs]
        packed, plain = packed.some(some), plain[some]
        factors = fit_factors(packed, board, prior, ranked=self._ranked)
        scores = _NO_SCORES
        if self.calibration_ and len(some) >= self.folds:
            left, table = self._cross_fit(packed, plain, board, prior)
            error = left - _ELSEWHERE * correction(self.residual_, table)
            scores = self.calibration_[0].scores(table, error)
        self.devices_[device.name] = FittedDevice(board, factors, _ELSEWHERE, scores)
        return self

    def _cross_fit(
        self, runs: DeviceRuns, plain: Floats, board: Board, prior: Factors
    ) -> tuple[Floats, Floats]:
        """What schedules with factors of other runs leave of each run, and its aggregates."""
        part, names = np.arange(len(runs.graph)) % self.folds, columns(self.kinds_)
        left, table = np.empty((len(part), 2)), [np.empty(0)] * len(part)
        for k in range(self.folds):
            own = np.flatnonzero(part == k)
            others = runs.some(np.flatnonzero(part != k))
            factors = fit_factors(others, board, prior, ranked=self._ranked)
            said = runs.some(own).estimates(factors.applied(board), ranked=self._ranked)
            left[own] = runs.log[own] - said[:, :2]
            for i, row in zip(own.tolist(), scheduled_features(plain[own], names, said)):
                table[i] = row
        return left, np.array(table)

    # --------------------------------------------------------------- answers

    def prepare(self, graph: xr.Dataset, device: Device) -> GraphOnDevice:
        """The graph on the device, ready to be asked about many contexts.

        Raises
        ------
        ArgumentError
            Not fitted; a sheet that contradicts that of the runs of the device.
        ProfileError
            A kind of tasks without profile.
        """
        self._check_fitted()
        known = self.devices_.get(device.name)
        if known is not None and known.board.device != device:
            raise ArgumentError(
                f"the sheet of '{device.name}' is not that which was fitted; the same, or another "
                f"name, is wanted."
            )
        if known is None:
            board = Board(device, self.kinds_)
            sheet = Factors.none(len(device.clusters))
            known = FittedDevice(board, sheet, _ELSEWHERE, _NO_SCORES)
        prepared = prepare_graph(graph, self.kinds_)
        return GraphOnDevice(
            prepared,
            known,
            graph_name(graph),
            self._ranked,
            self.residual_,
            self.calibration_,
            device.name in self.devices_,
        )

    def predict(
        self,
        graph: xr.Dataset,
        device: Device,
        contexts: ArrayLike,
        *,
        temperature: ArrayLike | None = None,
    ) -> Floats:
        """Time [s] and energy [J] of a graph in contexts, (m, 2).

        Parameters
        ----------
        graph : xarray.Dataset
            ``msbgen-graph/1``.
        device : Device
            One that was not measured is thought to be as its sheet says.
        contexts : array_like, (m, n_columns)
            Columns as ``device.columns``.
        temperature : array_like, () or (m,)
            At the start [°C]; ambient where not given.

        Raises
        ------
        ArgumentError, ProfileError
            As :meth:`prepare`; what is no context of the device.
        """
        asked = self.prepare(graph, device)
        answers = asked.predict(asked.rows(contexts), temperature)
        return finite_predictions(answers, "time or energy")

    def predict_interval(
        self,
        graph: xr.Dataset,
        device: Device,
        contexts: ArrayLike,
        miscoverage: float = 0.05,
        *,
        temperature: ArrayLike | None = None,
    ) -> tuple[Floats, Floats]:
        """Intervals of time [s] and energy [J], lower and upper ends, (m, 2) each.

        Each holds for a run of a graph of a new family with probability at least
        1 − `miscoverage`.

        Raises
        ------
        ArgumentError, ProfileError
            As :meth:`predict`; not calibrated.
        MeasurementError
            A device without runs; a rate that needs more families.
        """
        asked = self.prepare(graph, device)
        _, low, high = asked.interval(asked.rows(contexts), miscoverage, temperature)
        return low, finite_predictions(high, "the upper end of time or energy")

    def extrapolated(
        self, graph: xr.Dataset, device: Device, contexts: ArrayLike
    ) -> NDArray[np.bool_]:
        """Whether tasks may be given what their profiles say nothing of, (m,)."""
        asked = self.prepare(graph, device)
        return asked.fitted.board.outside(asked.graph, asked.rows(contexts))

    def check_interval(self, device: Device, miscoverage: float) -> None:
        """Raise what :meth:`predict_interval` would raise for the device and the rate."""
        self._check_fitted()
        known = device.name in self.devices_
        fitted = self.residual_, self.calibration_
        check_interval(device.name, miscoverage, *fitted, has_runs=known)

    @property
    def _ranked(self) -> bool:
        return self.order == "heft"

    def _check_parameters(self) -> None:
        if self.order not in ("arrival", "heft"):
            raise ArgumentError(f"order is {self.order!r}; arrival or heft is wanted.")
        for name, least in (("factor_runs", 1), ("folds", 2)):
            value = getattr(self, name)
            if value != int(value) or value < least:
                raise ArgumentError(f"{name} is {value}; a whole number ≥ {least} is wanted.")

    def _check_fitted(self) -> None:
        if not hasattr(self, "devices_"):
            raise ArgumentError("the predictor is not fitted; call fit first.")


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
        families = tuple(sorted({name for *_, own in parts for name in own}))
        sizes = [len(own) for *_, own in parts]
        return cls(
            boards=[board for board, *_ in parts],
            runs=[runs for _, runs, *_ in parts],
            plain=[plain for *_, plain, _ in parts],
            first=np.concatenate([[0], np.cumsum(sizes)[:-1]]),
            device=np.repeat(np.arange(len(parts)), sizes),
            family=np.array([families.index(name) for *_, own in parts for name in own]),
            families=families,
            names=columns(parts[0][0].kinds),
        )


def _device_of(runs: xr.Dataset, devices: Sequence[Device]) -> Device:
    name = str(runs.attrs.get("device"))
    for device in devices:
        if device.name == name:
            return device
    known = ", ".join(device.name for device in devices) or "none"
    raise ProfileError(
        f"runs are of the device '{name}', whose sheet is not among {known}; give it."
    )


def _check_unit(runs: DeviceRuns, board: Board) -> None:
    """Refuse times in another unit, which energies in another hide from who looks at powers.

    Powers that are merely unlikely, as where a meter counts another rail, are warned of.
    """
    log = runs.log - runs.estimates(board.arrays)[:, :2]
    off = float(np.exp(np.median(log[:, 0])))
    drawn = float(np.exp(np.median(log[:, 1] - log[:, 0])))
    if not 1 / _OTHER_POWER < drawn < _OTHER_POWER:
        _log.warning(
            "runs of '%s' draw %.2g times the power that its sheet and the profiles say; look "
            "whether energies are those of the whole device, in J",
            board.device.name,
            drawn,
        )
    if not 1 / _OTHER_UNIT < off < _OTHER_UNIT:
        raise MeasurementError(
            f"runs of '{board.device.name}' take {off:.1g} times what its sheet and the profiles "
            f"say; seconds and joules are wanted (in ms and mJ both are a thousand times as large)."
        )
