"""Prediction of times on every machine from a run on one of them.

Log times are the weighted mean of three parts, of which kriging has the largest weight:

- *Boosting* (:mod:`~msbgen.systems.learn.boosting`) predicts the log ratio of the times on two
  machines, for each pair.  The time on the source is a feature, as such and per instruction.
- *Kriging* (:mod:`~msbgen.systems.machines.kriging`) predicts the same ratios from similar programs
  and configurations.  Outside the range of known work, the prediction of boosting replaces it.
- *Randomised trees* (:mod:`~msbgen.systems.learn.randomised`) predict log time per instruction on
  all machines from the counters alone.  Their residuals are jointly Gaussian over machines
  (:mod:`~msbgen.systems.learn.gaussian`), and are conditioned on the machines measured.

Intervals are conformal, for each pair of machines: quantiles of the errors of left-out programs,
relative to a learned width.

Source: Nichols et al., *Predicting cross-architecture performance of parallel programs*, IPDPS
2024, whose boosting of plain ratios is a peer in ``benchmarks/machines_peers.py``.
"""

import difflib
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Annotated, Any, Literal, Self

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.arrays import Stored, finite_predictions
from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.core.machine import OnProgress
from msbgen.core.parts import Sizes
from msbgen.core.records import NotNegative, Seed, checks_arguments
from msbgen.systems.learn.boosting import Boosting, BoostingSettings, fit_boosting
from msbgen.systems.learn.gaussian import is_covariance, residual_covariance
from msbgen.systems.learn.parameters import Predictor
from msbgen.systems.learn.randomised import Trees, TreesSettings, fit_trees, no_trees
from msbgen.systems.machines.dataset import machines_of, runtimes_of, words_of
from msbgen.systems.machines.dataset import validate as validate_relative
from msbgen.systems.machines.features import FeatureMap, KrigingFeatures, learn_features
from msbgen.systems.machines.intervals import MachineCalibration, calibrate_widths
from msbgen.systems.machines.kriging import Kriging, KrigingSettings, fit_kriging
from msbgen.systems.machines.predictions import PartPredictions, joined
from msbgen.systems.machines.splits import Split, folds_of, held_rows
from msbgen.systems.machines.widths import count_width_features, fit_widths

Floats = NDArray[np.float64]
Parts = Literal["all", "boosting", "kriging", "trees"]
PARTS: tuple[str, ...] = ("boosting", "kriging", "trees")
# Without numpy's warnings: a prediction that is not finite is refused.
_SILENT = np.errstate(over="ignore", invalid="ignore")


class RelativePredictor(Predictor):
    """Predicts times on every machine from runs on one.

    ``fit → calibrate → predict, predict_interval, extrapolates``.

    Follows the conventions of scikit-learn: parameters are only stored, what is fitted ends in
    ``_``.  Needs the extra ``[ml]``.

    Parameters
    ----------
    parts : {"all", "boosting", "kriging", "trees"}
        Parts of the weighted mean.
    boosting, kriging, trees
        Settings of the parts.
    source_time : bool
        Whether predictions use the source's time, or its counters alone.
    random_state : int
        Seed; equal seeds give bit-identical results.

    Examples
    --------
    >>> import numpy as np
    >>> from msbgen.systems import machines
    >>> rng = np.random.default_rng(0)
    >>> work, loads = np.exp(rng.normal(10, 2, 60)), rng.random(60)
    >>> time = np.stack([1e-6 * work, 1e-6 * work * (0.3 + loads)], axis=1)  # [s]
    >>> runs = machines.make(
    ...     time, ["old", "new"], program=[f"p{i}" for i in range(60)],
    ...     counters={"instructions": work, "loads": loads * work}, work="instructions",
    ... )
    >>> predictor = machines.RelativePredictor().fit(runs.isel(run=slice(50)))
    >>> seconds = predictor.predict(runs.isel(run=slice(50, 60)), "old")
    >>> bool(np.abs(np.log(seconds / time[50:])).mean() < 0.1)
    True
    """

    schema = "msbgen-relative-model/4"
    of = "relative performance"

    machines_: tuple[str, ...]
    features_: FeatureMap
    ranges_: Annotated[Floats, Stored(("machine", 2, 2), missing=True)]
    boosting_: list[Boosting]
    kriging_: Annotated[list[Kriging], Sizes(configuration="features_.configurations")]
    trees_: Annotated[Trees, Sizes(output="machines_")]
    covariance_: Annotated[Floats, Stored(("machine", "machine"))]
    calibration_: Annotated[
        MachineCalibration | None, Sizes(configuration="features_.configurations")
    ]

    @checks_arguments
    def __init__(
        self,
        *,
        parts: Parts = "all",
        boosting: BoostingSettings | None = None,
        kriging: KrigingSettings | None = None,
        trees: TreesSettings | None = None,
        source_time: bool = True,
        random_state: Seed = 0,
    ) -> None:
        self.parts = parts
        self.boosting = boosting
        self.kriging = kriging
        self.trees = trees
        self.source_time = source_time
        self.random_state = random_state

    def problems(self) -> Iterator[tuple[str, object, str]]:
        """What is wrong with a stored predictor."""
        n, features = len(self.machines_), self.features_
        if not 2 <= n == len(set(self.machines_)) == len(self.covariance_):
            yield "machines_", self.machines_, f"{len(self.covariance_)} distinct names"
            return
        if not is_covariance(self.covariance_):
            yield "covariance_", "another matrix", "a symmetric positive definite one"
        for name in ("boosting", "kriging"):
            many = len(getattr(self, f"{name}_"))
            if many != (wanted := n if self._has(name) else 0):
                yield f"{name}_", f"of {many} machines", str(wanted)
        # columns of the tables that trees and boosting take
        counted = int(features.kept.sum()) + n * features.per_machine
        timed = len(features.timed_names if self.source_time else features.names)
        for boosting in self.boosting_:
            if (len(boosting.start), boosting.nodes.n_features) != (n - 1, timed):
                yield "boosting_", "of others", f"{n - 1} outputs of {timed} features"
        if self._has("trees") and self.trees_.nodes.n_features != counted:
            yield "trees_.nodes.n_features", self.trees_.nodes.n_features, str(counted)
        for kriging in self.kriging_:
            outputs = sorted(int(m) for field in kriging.fields for m in field.outputs)
            if outputs != list(range(n - 1)):
                yield "kriging_", f"of outputs {outputs}", "every machine once"
            if any(len(field.middle) != features.n_by_kind for field in kriging.fields):
                yield "kriging_", "of other counters", str(features.n_by_kind)
        if self.calibration_ is None:
            return
        predictions = self.calibration_.predictions
        if predictions.parts != self._parts or predictions.source_time != self.source_time:
            yield "calibration_.predictions.parts", predictions.parts, str(self._parts)
        nodes = self.calibration_.widths.trees.nodes
        columns = count_width_features(self._parts, n, len(features.configurations))
        if nodes.n_features != columns:
            yield "calibration_.widths.trees.nodes.n_features", nodes.n_features, str(columns)

    @property
    def _parts(self) -> tuple[str, ...]:
        return PARTS if self.parts == "all" else (self.parts,)

    def fit(
        self,
        runs: xr.Dataset,
        *,
        rows: NDArray[np.bool_] | None = None,
        progress: OnProgress | None = None,
    ) -> Self:
        """Fit to runs on several machines.

        Parameters
        ----------
        runs : xarray.Dataset
            ``msbgen-relative/1`` (:mod:`msbgen.machines.dataset`).
        rows : ndarray of bool, (n, n_machines), or None
            Sources from which each run is used; None for all machines that it ran on.
        progress : callable
            Called with (done, total) parts.

        Raises
        ------
        ArgumentError
            Parameters out of range; the extra ``[ml]`` is not installed.
        ProfileError
            The dataset breaks the contract.
        MeasurementError
            Fewer than two machines or programs; machines that share no run.
        """
        validate_relative(runs)
        _check_shared(runs)
        self.machines_ = tuple(machines_of(runs))
        self.features_ = learn_features(runs)
        ran = np.isfinite(runtimes_of(runs))
        rows = ran if rows is None else ran & rows
        self.ranges_ = self._ranges(runs, rows)
        steps = progress or (lambda done, total: None)
        steps(0, 3)
        self.boosting_ = self._fit_boosting(runs, rows)
        steps(1, 3)
        self.kriging_ = self._fit_kriging(runs, rows)
        steps(2, 3)
        self.trees_, self.covariance_ = self._fit_trees(runs, rows)
        steps(3, 3)
        self.calibration_ = None
        return self

    def _ranges(self, runs: xr.Dataset, rows: NDArray[np.bool_]) -> Floats:
        """Least and greatest log work, and log time per unit of work, (n_machines, 2, 2).

        Of the runs learned from each machine; NaN where there are none.
        """
        ranges = np.full((len(self.machines_), 2, 2), np.nan)
        for s, source in enumerate(self.machines_):
            used = np.flatnonzero(rows[:, s])
            if len(used):
                values = self._work_and_time(runs.isel(run=used), source)
                ranges[s] = np.stack([values.min(axis=1), values.max(axis=1)], axis=1)
        return ranges

    def _work_and_time(self, runs: xr.Dataset, source: str) -> Floats:
        """Log work, and log time on the machine per unit of work, (2, n)."""
        work = self.features_.log_work(runs, source)
        return np.stack(
            [work, np.log(runtimes_of(runs)[:, machines_of(runs).index(source)]) - work]
        )

    def _ratios(
        self, runs: xr.Dataset, rows: NDArray[np.bool_]
    ) -> Iterator[tuple[str, NDArray[np.int64], Floats, Floats]]:
        """Each source, its runs, their log time on it, and the log ratios to other machines."""
        log = np.log(runtimes_of(runs))
        for s, source in enumerate(self.machines_):
            used = np.flatnonzero(rows[:, s])
            time = log[used, s]
            yield source, used, time, np.delete(log[used] - time[:, None], s, axis=1)

    def _fit_boosting(self, runs: xr.Dataset, rows: NDArray[np.bool_]) -> list[Boosting]:
        """For each source, boosted trees of the ratios to the other machines."""
        if not self._has("boosting"):
            return []
        fitted, settings = [], self.boosting or BoostingSettings()
        for source, used, time, ratio in self._ratios(runs, rows):
            table = self._timed(runs.isel(run=used), source, time)
            fitted.append(fit_boosting(table, ratio, settings, self.random_state))
        return fitted

    def _fit_kriging(self, runs: xr.Dataset, rows: NDArray[np.bool_]) -> list[Kriging]:
        """For each source, kriging of the ratios to the other machines."""
        if not self._has("kriging"):
            return []
        fitted, settings = [], self.kriging or KrigingSettings()
        program, words = _numbered(words_of(runs, "program")), len(self.features_.configurations)
        for source, used, time, ratio in self._ratios(runs, rows):
            features = self._by_kind(runs.isel(run=used), source, time)
            fitted.append(
                fit_kriging(features, ratio, program[used], words, settings, self.random_state)
            )
        return fitted

    def _fit_trees(self, runs: xr.Dataset, rows: NDArray[np.bool_]) -> tuple[Trees, Floats]:
        """Trees of log time per instruction on every machine, and their residuals' covariance."""
        n_machines = len(self.machines_)
        if not self._has("trees"):
            return no_trees(n_machines), np.eye(n_machines)
        log = np.log(runtimes_of(runs))
        tables, outputs, runs_used = [], [], []
        per_machine = self.features_.per_machine  # otherwise, one source stands for all
        for s, source in enumerate(self.machines_ if per_machine else self.machines_[:1]):
            used = np.flatnonzero(rows[:, s] if per_machine else rows.any(axis=1))
            part = runs.isel(run=used)
            tables.append(self._counts(part, source))
            outputs.append(log[used] - self.features_.log_work(part, source)[:, None])
            runs_used.append(used)
        output = np.vstack(outputs)
        program = _numbered(words_of(runs, "program")[np.concatenate(runs_used)])
        features, settings = np.vstack(tables), self.trees or TreesSettings()
        trees, grown_on = fit_trees(features, _filled(output), program, settings, self.random_state)
        predicted = trees.predict_without(features, grown_on)
        residual = np.where(np.isfinite(output), output - predicted, np.nan)
        # programs have equal weights
        weight = 1.0 / np.bincount(program)[program]
        known = np.isfinite(residual).any(axis=1)
        return trees, residual_covariance(residual[known], weight[known])

    def calibrate(
        self, runs: xr.Dataset, *, folds: int = 5, progress: OnProgress | None = None
    ) -> Self:
        """Calibrate intervals with predictions of left-out programs, on the runs of :meth:`fit`.

        For each of the `folds`, a predictor with the same parameters is fitted to the programs of
        the other folds.  `progress` is called with (done, total) folds.

        Raises
        ------
        ArgumentError
            Not fitted, or fewer than two folds.
        MeasurementError
            Fewer programs than folds; machines that share no run when one is left out.
        """
        self.check_fitted()
        left_out, predictions = folds_of(runs, "programs", folds, self.random_state), []
        for k, held in enumerate(left_out):
            _check_shared(runs, ~held)
            other = type(self)(**self.get_params()).fit(runs.isel(run=np.flatnonzero(~held)))
            predictions.append(other.predict_parts(runs.isel(run=np.flatnonzero(held))))
            if progress:
                progress(k + 1, len(left_out))
        order = np.argsort(np.concatenate([np.flatnonzero(held) for held in left_out]))
        program = _numbered(words_of(runs, "program"))
        predicted = joined(predictions).some(order)
        self.calibration_ = calibrate_widths(predicted, program, self.random_state)
        return self

    @_SILENT
    def predict(self, runs: xr.Dataset, source: str | Sequence[str]) -> Floats:
        """Time of each run on every machine [s], (n, n_machines); the measured one on the source.

        Parameters
        ----------
        runs : xarray.Dataset
            ``msbgen-relative/1`` with times on the source at least.
        source : str or sequence of str
            The machine measured, or several.

        Raises
        ------
        ArgumentError
            Not fitted; a machine that is not known.
        MeasurementError
            A run without a time on the source, or without the count of its work.
        """
        sources, parts = self._check_and_predict(runs, source)
        return finite_predictions(parts.times(sources), "the time")

    @_SILENT
    def predict_interval(
        self, runs: xr.Dataset, source: str | Sequence[str], miscoverage: float = 0.1
    ) -> tuple[Floats, Floats]:
        """Interval of the time of each run on every machine [s], (n, n_machines) each.

        The time of a run of an unseen program on a machine lies in it with probability at least
        1 − `miscoverage`, for each pair of source and machine.

        Raises
        ------
        ArgumentError, MeasurementError
            As :meth:`predict`; not calibrated; a rate that needs more programs.
        """
        sources, parts = self._check_and_predict(runs, source)
        if not self.calibration_:
            raise ArgumentError("the predictor is not calibrated; call calibrate first.")
        middle = parts.times(sources)
        half = self.calibration_.half_widths(parts, sources, miscoverage, self.machines_)
        high = finite_predictions(middle * np.exp(half), "the upper end of the time")
        return middle * np.exp(-half), high

    def extrapolates(self, runs: xr.Dataset, source: str | Sequence[str]) -> NDArray[np.bool_]:
        """Whether each run is unlike all that were learned from, (n,).

        It does more or less work than any of them on one of the machines measured, or takes more
        or less time there per unit of work, or its configuration is not known.

        Raises
        ------
        ArgumentError, MeasurementError
            As :meth:`predict`.
        """
        names = self.check_source(source)
        self._check_timed(runs, names)
        outside = np.asarray(~self.features_.words(runs).any(axis=1), dtype=np.bool_)
        for name in names:
            low, high = self.ranges_[self.machines_.index(name)].T[:, :, None]
            values = self._work_and_time(runs, name)
            outside |= ~((low <= values) & (values <= high)).all(axis=0)
        return outside

    def check_source(self, source: str | Sequence[str]) -> list[str]:
        """Names of the machines measured.

        :class:`ArgumentError` if not fitted, and for a machine that is not known, or is named
        twice, or none.
        """
        self.check_fitted()
        names = [source] if isinstance(source, str) else list(source)
        if not names:
            raise ArgumentError("source names no machine; one at least is wanted.")
        for name in names:
            _check_machine(name, self.machines_, "source")
        if len(set(names)) < len(names):
            raise ArgumentError(f"source is {','.join(names)}; each machine once is wanted.")
        return names

    def timed_on(self, runs: xr.Dataset, source: str | Sequence[str]) -> NDArray[np.bool_]:
        """Whether each run has a time on all of the machines measured, (n,).

        Errors as :meth:`check_source`.
        """
        names, present = self.check_source(source), machines_of(runs)
        seconds = runtimes_of(runs)
        timed = np.ones(len(seconds), dtype=bool)
        for name in names:
            timed &= np.isfinite(seconds[:, present.index(name)]) if name in present else False
        return timed

    def predict_parts(
        self, runs: xr.Dataset, source: Sequence[str] | None = None
    ) -> PartPredictions:
        """Predictions of the parts from the times on each machine, or on some."""
        self.check_fitted()
        self._check_runs(runs)
        runs = runs.reindex(machine=list(self.machines_))  # in the order of the fit
        seconds = runtimes_of(runs)
        log = np.log(seconds)
        shape = (*log.shape, log.shape[1])
        ratio, kriged, prior, spread = (np.full(shape, np.nan) for _ in range(4))
        for s, name in enumerate(self.machines_):
            used = np.flatnonzero(np.isfinite(log[:, s]))
            if not len(used) or (source is not None and name not in source):
                continue
            part, time = runs.isel(run=used), log[used, s]
            if self._has("boosting"):
                others = self.boosting_[s].predict(self._timed(part, name, time))
                ratio[used, s] = np.insert(others, s, 0.0, axis=1)
            if self._has("kriging"):
                features, kriging = self._by_kind(part, name, time), self.kriging_[s]
                others = kriging.predict(features)
                if self._has("boosting"):
                    boosted = np.delete(ratio[used, s], s, axis=1)
                    others = np.where(kriging.beyond(features), boosted, others)
                kriged[used, s] = np.insert(others, s, 0.0, axis=1)
            if self._has("trees"):
                mean, deviation = self.trees_.predict(self._counts(part, name))
                prior[used, s] = mean + self.features_.log_work(part, name)[:, None]
                spread[used, s] = deviation
        return PartPredictions(
            seconds=seconds, ratio=ratio, kriged=kriged, prior=prior, spread=spread,
            context=self.features_.words(runs), covariance=self.covariance_[None],
            fit=np.zeros(len(log), dtype=np.int64),
            parts=self._parts, source_time=self.source_time,
        )  # fmt: skip

    def _check_and_predict(
        self, runs: xr.Dataset, source: str | Sequence[str]
    ) -> tuple[list[int], PartPredictions]:
        """Indices of the sources, and the predictions of the parts from them."""
        names = self.check_source(source)
        self._check_timed(runs, names)
        parts = self.predict_parts(runs, names)
        return [self.machines_.index(name) for name in names], parts

    def _check_timed(self, runs: xr.Dataset, source: Sequence[str]) -> None:
        """Refuse runs that break the contract, or have no time on one of the machines."""
        self._check_runs(runs)
        for name in source:
            missing = ~self.timed_on(runs, name)
            if missing.any():
                row = int(missing.argmax())
                raise MeasurementError(
                    f"run {row}, of program '{words_of(runs, 'program')[row]}', has no time on "
                    f"machine '{name}'; run it there or name another source."
                )

    def _check_runs(self, runs: xr.Dataset) -> None:
        validate_relative(runs)
        for name in machines_of(runs):
            _check_machine(name, self.machines_, "a machine of the runs")
        self.features_.check_units(runs)

    def _timed(self, runs: xr.Dataset, source: str, log: Floats) -> Floats:
        """Features of boosting."""
        if self.source_time:
            return self.features_.timed(runs, source, log)
        return self.features_.program(runs, source)

    def _by_kind(self, runs: xr.Dataset, source: str, log: Floats) -> KrigingFeatures:
        """Features of kriging."""
        return self.features_.by_kind(runs, source, log if self.source_time else None)

    def _has(self, part: str) -> bool:
        return self.parts in ("all", part)

    def _counts(self, runs: xr.Dataset, source: str) -> Floats:
        """Features of the trees, with the source machine where counters differ."""
        table = self.features_.program(runs, source)
        if not self.features_.per_machine:
            return table
        return np.hstack([table, self.features_.where(source, runs)])

    def importances(self) -> dict[str, float]:
        """Mean gain of splits at each feature of boosting, over all pairs; they sum to 1.

        :class:`ArgumentError` if not fitted, or without boosting.
        """
        self.check_fitted()
        if not self._has("boosting"):
            raise ArgumentError(f"parts is '{self.parts}'; importances are of boosting.")
        names = self.features_.timed_names if self.source_time else self.features_.names
        gains = np.mean([b.importances(len(names)) for b in self.boosting_], axis=0)
        return dict(zip(names, gains.tolist()))


@checks_arguments
def cross_predict(
    runs: xr.Dataset,
    predictor: RelativePredictor,
    *,
    split: Split = "programs",
    folds: int = 10,
    caution: NotNegative = 0.0,
    progress: OnProgress | None = None,
) -> Floats:
    """Predicted times of every run, from fits that it was left out of [s].

    Use these in simulations of schedulers.

    Parameters
    ----------
    predictor : RelativePredictor
        Its parameters are used; it is not changed.
    split : {"programs", "runs", "scales", "rows"}
        Unit that is left out as a whole (:mod:`msbgen.machines.splits`).
    caution : float
        Multiple of the typical error that is added to the log time on other machines; the error
        is learned from other programs.  2 is near the upper end of a 90 % interval.  Jobs that take
        much longer than estimated cost a scheduler more than shorter ones.
    progress : callable
        Called with (done, total) folds.

    Returns
    -------
    ndarray, (n, n_sources, n_machines)
        From the time on each source; NaN where there is none, or the run is never left out.

    Raises
    ------
    ArgumentError, MeasurementError
        As :meth:`RelativePredictor.fit` and :func:`msbgen.machines.splits.folds_of`; negative
        caution, or caution by rows.
    """
    if caution and split == "rows":
        raise ArgumentError("caution is of programs, runs or scales; rows hold nothing back whole.")
    machines, predictions = machines_of(runs), []
    left_out = held_rows(runs, split, folds, predictor.random_state)
    predicted = np.full((runs.sizes["run"], len(machines), len(machines)), np.nan)
    for k, held in enumerate(left_out):
        _check_shared(runs, np.asarray(~held.all(axis=1)))
        kept, rows_out = np.flatnonzero(~held.all(axis=1)), np.flatnonzero(held.any(axis=1))
        other = type(predictor)(**predictor.get_params())
        other.fit(runs.isel(run=kept), rows=~held[kept])
        parts = other.predict_parts(runs.isel(run=rows_out))
        for s in range(len(machines)):
            predicted[held[:, s], s] = parts.times([s])[held[rows_out, s]]
        predictions.append((rows_out, parts))
        if progress:
            progress(k + 1, len(left_out))
    if not caution:
        return predicted
    rows_out = np.concatenate([rows for rows, _ in predictions])
    names = {"runs": np.arange(runs.sizes["run"]), "programs": words_of(runs, "program")}
    unit = _numbered(names.get(split, words_of(runs, "scale"))[rows_out])
    _, log_width = fit_widths(joined([p for _, p in predictions]), unit, predictor.random_state)
    predicted[rows_out] *= np.exp(caution * np.nan_to_num(np.exp(log_width)))
    return predicted


def _numbered(names: NDArray[Any]) -> NDArray[np.int64]:
    """Number of each name, counted from 0 in their order."""
    return np.unique(names, return_inverse=True)[1].reshape(-1)


def _check_machine(name: str, known: Sequence[str], what: str) -> None:
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
        raise ArgumentError(
            f"{what} is '{name}', of which nothing was learned; the nearest name is '{near[0]}'."
        )


def _check_shared(runs: xr.Dataset, kept: NDArray[np.bool_] | slice = slice(None)) -> None:
    """Refuse runs, or kept runs, in which a pair of machines shares no run."""
    machines, ran = machines_of(runs), np.isfinite(runtimes_of(runs))
    if len(machines) < 2:
        raise MeasurementError(f"there is one machine, '{machines[0]}'; at least two are wanted.")
    program = words_of(runs, "program")
    if len(np.unique(program)) < 2:
        raise MeasurementError("there is 1 program; at least two are wanted.")
    if len(np.unique(program[kept])) < 2:
        raise MeasurementError(
            "there is 1 program beside those held back; at least two are wanted: run more, or ask "
            "for more folds."
        )
    for a, b in combinations(range(len(machines)), 2):
        both = ran[:, a] & ran[:, b]
        if not both.any():
            raise MeasurementError(
                f"machines '{machines[a]}' and '{machines[b]}' share no run; run some program on "
                f"both, or drop one of them."
            )
        if not both[kept].any():
            raise MeasurementError(
                f"machines '{machines[a]}' and '{machines[b]}' share {both.sum()} runs, all held "
                f"back at once; run other programs on both, ask for more folds, or drop one of "
                f"the machines."
            )


def _filled(log: Floats) -> Floats:
    """Log times with missing ones replaced by the sum of a run and a machine effect."""
    known = np.isfinite(log)
    if known.all():
        return log
    speed = np.zeros(log.shape[1])
    length = np.zeros(len(log))
    for _ in range(50):
        length = np.nanmean(log - speed, axis=1)
        speed = np.nanmean(log - length[:, None], axis=0)
    return np.where(known, log, length[:, None] + speed)
