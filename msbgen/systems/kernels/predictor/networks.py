"""Time and energy of networks as sums over their kernels.

    time = Σ_k count_k · runtime_k + launches · overhead,
    energy = Σ_k count_k · runtime_k · power_k · (time / Σ_k count_k · runtime_k)

The overhead of a launch is fitted to other networks: the median over them of measured time minus
sum, per launch.  It may be negative, as a kernel may wait longer when it is measured alone.
Between launches the power is the mean power of the kernels.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.systems.kernels.predictor.kernel_predictor import KernelPredictor
from msbgen.systems.kernels.workloads import (
    counts_of,
    one_workload,
    validate_workload,
    workload_names,
)

Floats = NDArray[np.float64]


def sum_kernels(
    predictor: KernelPredictor, workload: xr.Dataset, configurations: ArrayLike
) -> tuple[Floats, Floats]:
    """Time [s] and energy [J] of all kernels of one workload in configurations, (m,) each.

    Energies are NaN where power was not measured. Several workloads, or kernels of a kind that was
    not measured, raise :class:`ArgumentError`, a dataset of another form :class:`ProfileError`.
    """
    validate_workload(workload, source="workload")
    if len(workload_names(workload)) > 1:
        raise ArgumentError(
            f"workloads are {', '.join(workload_names(workload))}; one of them is wanted."
        )
    seconds, watts = predictor.predict_product(workload, configurations)
    count = counts_of(workload).astype(float)
    return count @ seconds, count @ (seconds * watts)


def fit_overhead(
    predictor: KernelPredictor,
    workloads: xr.Dataset,
    times: dict[str, Floats],
    configurations: ArrayLike,
) -> Floats:
    """Time of a launch beyond its kernel [s] in every configuration, (m,), from whole networks.

    `times` are the measured times [s] of each network of the workloads in every configuration,
    (m,), NaN where not measured.
    """
    overheads = []
    for name, measured in times.items():
        launches = one_workload(workloads, name)
        seconds, _ = sum_kernels(predictor, launches, configurations)
        excess = np.asarray(measured, dtype=float) - seconds
        overheads.append(excess / counts_of(launches).sum())
    table = np.array(overheads).reshape(len(overheads), -1)
    if not len(overheads) or not np.isfinite(table).any(axis=0).all():
        raise MeasurementError(
            "no other network was measured in some configuration; measure one there, or predict "
            "without an overhead."
        )
    return np.nanmedian(table, axis=0)


def predict_network(
    predictor: KernelPredictor,
    workload: xr.Dataset,
    configurations: ArrayLike,
    overhead: Floats | None = None,
) -> tuple[Floats, Floats]:
    """Time [s] and energy [J] of a network in configurations, (m,) each.

    Parameters and errors are those of :func:`sum_kernels`.  Without an overhead the result is the
    plain sum.  With one, the time is at least half of the sum.
    """
    seconds, joules = sum_kernels(predictor, workload, configurations)
    if overhead is None:
        return seconds, joules
    whole = np.maximum(seconds + counts_of(workload).sum() * overhead, 0.5 * seconds)
    return whole, joules * whole / seconds
