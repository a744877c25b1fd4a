"""Networks as sums of their kernels, and of what lies between them.

    time = Σ_k count_k · runtime_k + launches · overhead,
    energy = Σ_k count_k · runtime_k · power_k

The overhead of a launch, positive or, where kernels that are measured alone wait for more than
those of a network do, negative, is that of other networks: the median over them of what was
measured beyond the sum, by launch.  Between launches a machine draws what its kernels draw on
average.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.kernels.predictor.predictor import KernelPredictor
from msbgen.kernels.workloads import counts_of, one_workload, workload_names

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Overhead:
    """What a launch costs beyond its kernel [s], in every configuration.

    Attributes
    ----------
    seconds : ndarray, (m,)
    """

    seconds: Floats


def sum_kernels(
    predictor: KernelPredictor, workload: xr.Dataset, configurations: ArrayLike
) -> tuple[Floats, Floats]:
    """Time [s] and energy [J] of all kernels of one workload in configurations, (m,) each.

    Parameters
    ----------
    predictor : KernelPredictor
    workload : xarray.Dataset
        ``msbgen-workload/1``, of one network.
    configurations : array_like, (m, n_resources)

    Returns
    -------
    seconds, joules : ndarray, (m,)
        Joules are NaN where no meter was read.

    Raises
    ------
    ArgumentError
        Several workloads; kernels that are not known, with their share of the launches.
    """
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
) -> Overhead:
    """Learn what a launch costs from networks that were measured whole.

    Parameters
    ----------
    predictor : KernelPredictor
    workloads : xarray.Dataset
        ``msbgen-workload/1`` of several networks.
    times : dict of str to ndarray, (m,)
        Measured time of each network in every configuration [s], NaN where it was not.
    configurations : array_like, (m, n_resources)

    Raises
    ------
    ArgumentError
        A network without a workload.
    MeasurementError
        No network was measured in some configuration.
    """
    found = []
    for name, measured in times.items():
        own = one_workload(workloads, name)
        seconds, _ = sum_kernels(predictor, own, configurations)
        found.append((np.asarray(measured, dtype=float) - seconds) / counts_of(own).sum())
    table = np.array(found).reshape(len(found), -1)
    if not len(found) or not np.isfinite(table).any(axis=0).all():
        raise MeasurementError(
            "no other network was measured in some configuration; measure one there, or sum up "
            "without an overhead."
        )
    return Overhead(np.nanmedian(table, axis=0))


def predict_network(
    predictor: KernelPredictor,
    workload: xr.Dataset,
    configurations: ArrayLike,
    overhead: Overhead | None = None,
) -> tuple[Floats, Floats]:
    """Time [s] and energy [J] of a network in configurations, (m,) each.

    Parameters and errors as :func:`sum_kernels`; without an overhead the plain sum.  A time is
    never less than half of the sum, whatever the overhead.
    """
    seconds, joules = sum_kernels(predictor, workload, configurations)
    if overhead is None:
        return seconds, joules
    whole = np.maximum(seconds + counts_of(workload).sum() * overhead.seconds, 0.5 * seconds)
    return whole, joules * whole / seconds
