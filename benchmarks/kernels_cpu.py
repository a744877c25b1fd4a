"""Networks never seen, on a CPU: from kernels of other networks, and random kernels.

The measurements ship (``profiles/kernels``). A network is left out with every kernel that it
launches. Its predicted sum is compared with the sum of its measured kernels and, with a launch
overhead learned from other networks, with its own time.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

import msbgen
from msbgen.systems.kernels.dataset import (
    configurations_of,
    kernels_of,
    parameter_names,
    parameter_table,
)
from msbgen.systems.kernels.dataset import make as make_kernels
from msbgen.systems.kernels.predictor.kernel_predictor import KernelPredictor
from msbgen.systems.kernels.predictor.law_and_residual import ModelParts
from msbgen.systems.kernels.variability import compare_groups
from msbgen.systems.kernels.workloads import counts_of, workload_names

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
# From known kernels and others to the times of the others [s].
Method = Callable[[xr.Dataset, xr.Dataset], Floats]

NETWORK = "network/"


@dataclass(frozen=True, eq=False)
class Measured:
    """The measurements that ship, in order.

    ``kernels`` has a row for each kernel in each configuration, the median over the sessions, whose
    times [s] are (n_rows, n_sessions), NaN where one is missing. ``whole`` are times [s] of a
    network's passes in each session, by workload and configuration, ``rows`` the row of each launch
    by configuration.
    """

    kernels: xr.Dataset
    sessions: Floats
    whole: dict[tuple[str, float], list[Floats]]
    workloads: xr.Dataset
    rows: dict[float, Indices]

    def time(self, name: str, threads: float) -> float:
        """Time of a network: the median of its sessions' medians [s]."""
        return float(np.median([np.median(passes) for passes in self.whole[name, threads]]))


def load(kernels: str = "kernels/cpu.nc", workloads: str = "kernels/cpu.workloads.nc") -> Measured:
    every = msbgen.kernels.read(msbgen.shipped_file(kernels))
    launched = msbgen.kernels.read_workload(msbgen.shipped_file(workloads))
    return arrange(every, launched)


def arrange(every: xr.Dataset, workloads: xr.Dataset) -> Measured:
    """Medians over sessions, and the rows of the networks' launches among them."""
    words = every["kind"].values.astype(str)
    nets = np.char.startswith(words, NETWORK)
    threads = every["threads"].values.astype(float)
    run, time = every["run"].values, every["runtime"].values.astype(float)
    whole: dict[tuple[str, float], list[Floats]] = {}
    for name in np.unique(words[nets]):
        for level in np.unique(threads):
            own = (words == name) & (threads == level)
            sessions = [time[own & (run == r)] for r in np.unique(run[own])]
            whole[str(name).removeprefix(NETWORK), float(level)] = sessions

    parts = every.isel(measurement=np.flatnonzero(~nets))
    kernels, (levels, at) = kernels_of(parts), configurations_of(parts)
    cell = kernels.of * len(levels) + at
    many = len(kernels.kind) * len(levels)
    table = np.full((many, int(run.max()) + 1), np.nan)
    table[cell, parts["run"].values] = parts["runtime"].values
    names = parameter_names(parts)
    repeated = np.repeat(np.arange(len(kernels.kind)), len(levels))
    medians = make_kernels(
        kernels.kind[repeated].tolist(),
        np.nanmedian(table, axis=1),
        resources={"threads": np.tile(levels[:, 0], len(kernels.kind))},
        parameters={name: kernels.parameters[repeated, j] for j, name in enumerate(names)},
        units={"threads": str(every["threads"].attrs["units"])},
    )
    place = {key: i for i, key in enumerate(_keys(kernels.kind, kernels.parameters))}
    launched = _keys(workloads["kind"].values.astype(str), parameter_table(workloads))
    first = np.array([place[key] * len(levels) for key in launched])
    rows = {float(level): first + j for j, level in enumerate(levels[:, 0])}
    return Measured(medians, table, whole, workloads, rows)


def _keys(kinds: NDArray[np.str_], table: Floats) -> list[tuple[object, ...]]:
    return [(str(kind), *row) for kind, row in zip(kinds, np.nan_to_num(table, nan=-1.0).tolist())]


def network_of(workload: str) -> str:
    """``resnet18-1x224`` → ``resnet18``."""
    return workload.rpartition("-")[0]


def default(known: xr.Dataset, new: xr.Dataset) -> Floats:
    return KernelPredictor().fit(known).predict(new)


def without(**parts: bool) -> Method:
    def method(known: xr.Dataset, new: xr.Dataset) -> Floats:
        return KernelPredictor(parts=ModelParts(**parts)).fit(known).predict(new)

    return method


def boosting(known: xr.Dataset, new: xr.Dataset) -> Floats:
    """The paper's model of each kind: xgboost on raw parameters, logarithms of times.

    Its settings are in the middle of the paper's Table 2, on a logarithmic scale if it has one.
    """
    from xgboost import XGBRegressor

    predicted = np.empty(new.sizes["measurement"])
    names = parameter_names(known)
    for kind in np.unique(new["kind"].values):
        columns = []
        for dataset in (known, new):
            own = dataset.isel(measurement=np.flatnonzero(dataset["kind"].values == kind))
            table = np.column_stack([own[name].values for name in (*names, "threads")])
            columns.append((table, own["runtime"].values))
        model = XGBRegressor(
            n_estimators=1000, max_depth=8, min_child_weight=6, subsample=0.9,
            colsample_bytree=0.9, learning_rate=0.02, reg_alpha=1e-3, reg_lambda=1e-3,
            n_jobs=1, random_state=0,
        )  # fmt: skip
        model.fit(columns[0][0], np.log(columns[0][1]))
        predicted[new["kind"].values == kind] = np.exp(model.predict(columns[1][0]))
    return predicted


METHODS: dict[str, Method] = {
    "default": default,
    "paper's boosting": boosting,
    "terms alone": without(process=False, trees=False),
    "without terms": without(terms=False),
    "without process": without(process=False),
    "without trees": without(trees=False),
}

# Kernels to learn from, besides all.
SAMPLES = {
    "drawn": "drawn kernels alone",
    "mixed": "as many, half of them networks'",
    "networks": "networks' kernels alone",
}


def leave_networks_out(
    measured: Measured,
    method: Method,
    drawn: str = "all",
    together: int = 1,
    session: int | None = None,
) -> dict[tuple[str, float], tuple[float, float, float]]:
    """Predicted sum, measured sum and whole time [s] of each left-out (workload, threads).

    Kernels to learn from are "all", the random ones ("drawn"), those of other "networks", or
    "mixed": as many as are random, half of them from networks (the paper's weighted sampling).
    `together` networks are left out at once; more need fewer fits. Learned are the times of one
    session, or medians over all.
    """
    names = np.array([str(word) for word in measured.workloads["workload"].values])
    owner = np.array([network_of(name) for name in names])
    kernel = {level: rows // len(measured.rows) for level, rows in measured.rows.items()}
    of_networks = np.unique(np.concatenate(list(kernel.values())))
    n_levels = len(measured.rows)
    every = np.arange(measured.kernels.sizes["measurement"] // n_levels)
    alone = np.setdiff1d(every, of_networks)
    some = {
        "all": every,
        "drawn": alone,
        "networks": of_networks,
        "mixed": _halves(alone, of_networks),
    }[drawn]
    taught = measured.kernels
    if session is not None:
        taught = taught.assign(runtime=("measurement", measured.sessions[:, session]))
        taught["runtime"].attrs = measured.kernels["runtime"].attrs
    kinds = measured.kernels["kind"].values[::n_levels].astype(str)
    count = counts_of(measured.workloads).astype(float)
    truth = measured.kernels["runtime"].values
    found = {}
    networks = list(dict.fromkeys(owner.tolist()))
    parts = -(-len(networks) // together)
    for part in range(parts):
        rows = np.flatnonzero(np.isin(owner, networks[part::parts]))
        own = np.unique(next(iter(kernel.values()))[rows])
        left = np.setdiff1d(some, own)
        # random kernels stand in for kinds that no other network launches
        only = np.setdiff1d(kinds[own], kinds[left])
        left = np.union1d(left, np.setdiff1d(np.flatnonzero(np.isin(kinds, only)), of_networks))
        learned = _rows(left, n_levels)
        learned = learned[np.isfinite(taught["runtime"].values[learned])]
        known = taught.isel(measurement=learned)
        new = measured.kernels.isel(measurement=_rows(own, n_levels))
        predicted = np.full(len(truth), np.nan)
        predicted[_rows(own, n_levels)] = method(known, new)
        for name in dict.fromkeys(names[rows].tolist()):
            launches = np.flatnonzero(names == name)
            for level, where in measured.rows.items():
                sums = [values[where[launches]] @ count[launches] for values in (predicted, truth)]
                found[name, level] = (*map(float, sums), measured.time(name, level))
    return found


def _halves(one: Indices, other: Indices) -> Indices:
    """As many random kernels as `one` has, half of them of `other`."""
    rng = np.random.default_rng(0)
    half = min(len(one) // 2, len(other))
    return np.union1d(rng.permutation(one)[: len(one) - half], rng.permutation(other)[:half])


def _rows(kernels: Indices, n_levels: int) -> Indices:
    return (kernels[:, None] * n_levels + np.arange(n_levels)).ravel()


def with_overhead(
    measured: Measured, found: Mapping[tuple[str, float], tuple[float, float, float]]
) -> dict[tuple[str, float], tuple[float, float]]:
    """Time of each network from its predicted and its measured sum, with launch overhead.

    The overhead of a launch is the median over other networks of their time beyond their sum.
    """
    launches = {
        name: counts_of(
            measured.workloads.isel(
                launch=np.flatnonzero(measured.workloads["workload"].values == name)
            )
        ).sum()
        for name in workload_names(measured.workloads)
    }
    times = {}
    for (name, level), (predicted, total, _) in found.items():
        others = [
            (time - own) / launches[other]
            for (other, at), (_, own, time) in found.items()
            if at == level and network_of(other) != network_of(name)
        ]
        extra = launches[name] * float(np.median(others))
        times[name, level] = (predicted + extra, total + extra)
    return times


def errors(measured: Measured, method: Method, **how: Any) -> dict[str, dict[str, float]]:
    """Mean errors of each network over images and threads, and of all networks as ``mean``."""
    found = leave_networks_out(measured, method, **how)
    times = with_overhead(measured, found)
    rows: dict[str, list[list[float]]] = {}
    for key, (predicted, total, time) in found.items():
        ratios = (predicted / total, times[key][0] / time, times[key][1] / time, total / time)
        rows.setdefault(network_of(key[0]), []).append([abs(ratio - 1) for ratio in ratios])
    names = ("sum", "time", "time from measured kernels", "time as their plain sum")
    means = {network: np.mean(table, axis=0) for network, table in rows.items()}
    means["mean"] = np.mean(list(means.values()), axis=0)
    return {network: dict(zip(names, map(float, row))) for network, row in means.items()}


def repeatability(measured: Measured) -> dict[str, float]:
    """Differences between sessions: of networks, of kernels, and of sums of kernels.

    Means of absolute relative differences to the median of medians, and the share of networks whose
    sessions follow different laws (Anderson-Darling, Kolmogorov-Smirnov at 1 %).
    """
    networks, different, apart = [], [], []
    for sessions in measured.whole.values():
        several = [passes for passes in sessions if len(passes) >= 2]
        if len(several) < 2:
            continue
        middle_sum = compare_groups(several)
        networks.append(np.abs(middle_sum.medians).mean())
        different.append(middle_sum.anderson_p <= 0.01)
        apart.append(middle_sum.kolmogorov_p <= 0.01)
    middle = np.nanmedian(measured.sessions, axis=1)
    kernels = np.nanmean(np.abs(measured.sessions / middle[:, None] - 1), axis=1)
    count = counts_of(measured.workloads).astype(float)
    names = measured.workloads["workload"].values.astype(str)
    sums = []
    for name in workload_names(measured.workloads):
        launches = np.flatnonzero(names == name)
        for where in measured.rows.values():
            middle_sum = count[launches] @ measured.sessions[where[launches]]
            middle_sum = middle_sum[np.isfinite(middle_sum)]
            sums.append(np.abs(middle_sum / np.median(middle_sum) - 1).mean())
    return {
        "networks": float(np.mean(networks)),
        "kernels": float(np.mean(kernels)),
        "sums of kernels": float(np.mean(sums)),
        "networks whose sessions differ, Anderson-Darling": float(np.mean(different)),
        "networks whose sessions differ, Kolmogorov-Smirnov": float(np.mean(apart)),
    }


def cpu(
    measured: Measured, methods: Mapping[str, Method] = METHODS, together: int = 1
) -> dict[str, Any]:
    """All figures: each network by the default and the paper's boosting, then means of parts."""
    own = errors(measured, default, together=together)
    theirs = errors(measured, boosting, together=together)
    table = {
        name: {**row, "boosting: sum": theirs[name]["sum"], "boosting: time": theirs[name]["time"]}
        for name, row in own.items()
    }
    parts = {
        name: errors(measured, method, together=together)["mean"]
        for name, method in methods.items()
        if method not in (default, boosting)
    }
    for drawn, title in SAMPLES.items():
        parts[title] = errors(measured, default, drawn=drawn, together=together)["mean"]
    # one machine was measured: sessions stand for nodes, and the fullest session for one node
    fullest = int(np.isfinite(measured.sessions).sum(axis=0).argmax())
    alone = errors(measured, default, together=together, session=fullest)
    parts["one session of several"] = alone["mean"]
    return {
        "networks": {name: row for name, row in table.items() if name != "mean"},
        "mean": table["mean"],
        "parts": parts,
        "repeatability": repeatability(measured),
    }
