"""Fits of every method on the same splits of the runtimes, each kept in a file.

A case is a way to hold out, the known share and a replicate. Known runs, and those for learning and
calibration, are the same for all methods. A fit is a model file (the predictor and the paper
preset) or the predicted log runtimes of all runs (peers and ablations).
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from runtimes_peers import PEERS, Data
from tables import store
from timing import replaced

from msbgen.systems.runtimes.dataset import features_of, run_table
from msbgen.systems.runtimes.predictor import RuntimePredictor
from msbgen.systems.runtimes.runs import Observations
from msbgen.systems.runtimes.scaling import Scaling
from msbgen.systems.runtimes.towers import TowerSettings

Mask = NDArray[np.bool_]

# Ways to hold out, and known shares.
SETTINGS = (("rows", 0.1), ("rows", 0.5), ("rows", 0.9), ("cells", 0.5), ("runs", 0.5))
# Replicates of each method; slow methods have fewer, and leave whole runs out.
REPLICATES, DEAR_REPLICATES, ABLATION_REPLICATES = 5, 2, 1
MODELS = ("default", "paper preset")
DEAR = ("paper preset", "boosting", "neural network", "attention")
ABLATED = (("rows", 0.1), ("rows", 0.5))
# Share of the known units that calibrates bounds.
CALIBRATION = 0.12
# Seeds of the known runs, of the calibration runs, and of fits.
KNOWN_SEED, CALIBRATION_SEED, FIT_SEED = 1301, 1302, 1303


@dataclass(frozen=True)
class Case:
    """A way to hold out, the known share, and a replicate."""

    split: str
    share: float
    replicate: int

    def __str__(self) -> str:
        return f"{self.split}-{self.share:g}-{self.replicate}"


@dataclass(frozen=True, eq=False)
class Part:
    """Runs of a case that are known, learned from, calibrated with, and their units, (n,) each."""

    known: Mask
    kept: Mask
    held: Mask
    unit: NDArray[np.int64]


@dataclass(frozen=True)
class Ablation:
    """The predictor without one of its parts.

    It has other parameters, replaced functions and constants of the package (by dotted names), or
    no features of workloads or of platforms. It learns from runs alone, or is not shown the
    neighbours of a run.
    """

    settings: Mapping[str, Any]
    replacements: Mapping[str, Any]
    features: tuple[bool, bool] = (True, True)
    learns_alone: bool = False
    sees_beside: bool = True


def _no_scaling(workload, platform, log_runtime, shape) -> Scaling:
    """Scaling with equal lengths of workloads and equal speeds of platforms."""
    return Scaling(np.full(shape[0], log_runtime.mean()), np.zeros(shape[1]))


def _no_second_opinion(runs: Observations, *rest: Any) -> NDArray[np.float32]:
    """No cell is moved."""
    return np.zeros(runs.shape, np.float32)


def _unshrunk(interference: NDArray, usual: float) -> NDArray:
    """The mean over the members, without shrinkage."""
    return interference.mean(axis=0)


ABLATIONS: dict[str, Ablation] = {
    "log runtime, not the residual": Ablation(
        {}, {"msbgen.systems.runtimes.predictor.fit_scaling": _no_scaling}
    ),
    "no features": Ablation({}, {}, (False, False)),
    "no features of workloads": Ablation({}, {}, (False, True)),
    "no features of platforms": Ablation({}, {}, (True, False)),
    "interference discarded": Ablation({}, {}, learns_alone=True, sees_beside=False),
    "interference ignored": Ablation({}, {}, sees_beside=False),
    "no rectifier": Ablation(
        {},
        {
            "msbgen.systems.runtimes.towers.LEAK": 1.0,
            "msbgen.systems.runtimes.embeddings.LEAK": 1.0,
        },
    ),
    "squared loss": Ablation({"towers": TowerSettings(width=None)}, {}),
    "one member": Ablation({"members": 1}, {}),
    "no kriging": Ablation({"kriging": False}, {}),
    "no second opinion": Ablation(
        {},
        {
            "msbgen.systems.runtimes.predictor.krige_platforms": _no_second_opinion,
            "msbgen.systems.runtimes.predictor.shrunk_mean": _unshrunk,
        },
    ),
}


class Fits:
    """Fits of a dataset, in a folder."""

    def __init__(self, dataset: xr.Dataset, folder: Path) -> None:
        self.dataset, self._folder = dataset, folder
        self.table = run_table(dataset)
        self.runtime = dataset["runtime"].values.astype(float)

    @cached_property
    def data(self) -> Data:
        features = features_of(self.dataset, "workload"), features_of(self.dataset, "platform")
        table = self.table
        shape = len(features[0]), len(features[1])
        runs = Observations(table[:, 0], table[:, 1], table[:, 2:], shape)
        return Data(runs, np.log(self.runtime), features)

    def part(self, case: Case) -> Part:
        unit = self._units(case.split)
        at = int(100 * case.share), case.replicate
        known = _drawn(unit, case.share, np.random.default_rng([KNOWN_SEED, *at]))
        rng = np.random.default_rng([CALIBRATION_SEED, *at])
        kept = known & _drawn(unit, 1.0 - CALIBRATION, rng)
        # every workload and platform that is known alone stays in the runs to learn from
        alone = self.data.runs.n_neighbours == 0
        for of in (self.data.runs.workload, self.data.runs.platform):
            missing = np.setdiff1d(of[known & alone], of[kept & alone])
            kept |= known & np.isin(unit, unit[known & np.isin(of, missing)])
        return Part(known, kept, known & ~kept, unit)

    def _units(self, split: str) -> NDArray[np.int64]:
        """Number of the unit of each run, (n,); units are held out as a whole."""
        if split == "rows":
            return np.arange(len(self.table))
        key = self.dataset["run"].values if split == "runs" else self.data.runs.cell
        return np.unique(key, return_inverse=True)[1]

    def tested_rows(self, case: Case) -> NDArray[np.int64]:
        """Held-out rows of workloads and platforms with known runs alone."""
        part, runs = self.part(case), self.data.runs
        alone = part.kept & (runs.n_neighbours == 0)
        fine = np.isin(runs.workload, runs.workload[alone])
        fine &= np.isin(runs.platform, runs.platform[alone])
        return np.flatnonzero(~part.known & fine)

    def has(self, name: str, case: Case) -> bool:
        return self._path(name, case).exists()

    def make(self, name: str, case: Case) -> None:
        """Fit, unless the file is there."""
        if self.has(name, case):
            return
        started, path = time.perf_counter(), self._path(name, case)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = self.part(case)
        if name in MODELS:
            preset = "paper" if name == "paper preset" else "default"
            features = self.data.features
            predictor = RuntimePredictor(*features, preset=preset, random_state=case.replicate)
            predictor.fit(self.table[part.kept], self.runtime[part.kept]).save(path)
        else:
            rng = np.random.default_rng([FIT_SEED, case.replicate])
            found = (
                PEERS[name](self.data, part.kept, rng)
                if name in PEERS
                else self._without(ABLATIONS[name], part, case)
            )
            half = path.with_suffix(".half")
            with half.open("wb") as file:
                np.save(file, found.astype(np.float32))
            half.rename(path)
        print(f"{name}, {case}: {time.perf_counter() - started:.0f} s", flush=True)

    def predicted(self, name: str, case: Case) -> NDArray[np.float64]:
        """Log runtimes of all runs as predicted by a peer, (n,)."""
        return np.load(self._path(name, case)).astype(float)

    def predictor(self, name: str, case: Case) -> RuntimePredictor:
        """One of `MODELS`, calibrated."""
        predictor, part = RuntimePredictor.load(self._path(name, case)), self.part(case)
        return predictor.calibrate(
            self.table[part.held], self.runtime[part.held], groups=part.unit[part.held]
        )

    def kept(self, what: str, name: str, case: Case, make: Callable[[], Any]) -> Any:
        """A figure of a fit: stored if newer than the fit, computed otherwise."""
        fit = self._path(name, case)
        path = fit.with_name(f"{case}-{what}.json")
        if path.exists() and path.stat().st_mtime > fit.stat().st_mtime:
            return json.loads(path.read_text())
        made = make()
        half = path.with_suffix(".half")
        store(half, made)
        half.rename(path)
        return made

    def _without(self, ablation: Ablation, part: Part, case: Case) -> NDArray[np.float64]:
        kept, table = part.kept, self.table.copy()
        if ablation.learns_alone:
            kept = kept & (self.data.runs.n_neighbours == 0)
        if not ablation.sees_beside:
            table[:, 2:] = -1
        shown = [
            features if shown_too else np.empty((len(features), 0))
            for features, shown_too in zip(self.data.features, ablation.features)
        ]
        predictor = RuntimePredictor(*shown, random_state=case.replicate, **ablation.settings)
        with replaced(ablation.replacements):
            predictor.fit(table[kept], self.runtime[kept])
            fine = predictor.answers(table)
            found = np.full(len(table), np.nan)
            found[fine] = np.log(predictor.predict(table[fine]))
        return found

    def _path(self, name: str, case: Case) -> Path:
        suffix = "nc" if name in MODELS else "npy"
        return self._folder / name.replace(" ", "-") / f"{case}.{suffix}"


def _drawn(unit: NDArray[np.int64], share: float, rng: np.random.Generator) -> Mask:
    """Runs of units that are drawn with the probability `share`, (n,)."""
    return (rng.random(int(unit.max()) + 1) < share)[unit]


def jobs() -> Iterator[tuple[str, Case]]:
    """Every fit, those of the first replicates first."""
    for replicate in range(REPLICATES):
        for name in (*MODELS, *PEERS):
            for split, share in SETTINGS:
                if name not in DEAR or (replicate < DEAR_REPLICATES and split != "runs"):
                    yield name, Case(split, share, replicate)
        if replicate < ABLATION_REPLICATES:
            for name in ABLATIONS:
                for split, share in ABLATED:
                    yield name, Case(split, share, replicate)
