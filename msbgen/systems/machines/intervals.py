"""Conformal intervals of relative performance, for each pair of machines, with programs left out.

Programs are exchangeable, with their runs nested in them (:mod:`msbgen.core.conformal`): ten runs
of one program count as much as one run of another.  The score of a run is the error of its
predicted log time on a machine, from a fit without its program, in units of a learned width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from msbgen.core.arrays import LOG_TIMES, Stored
from msbgen.core.conformal import check_rate, group_quantile
from msbgen.core.errors import MeasurementError
from msbgen.systems.machines.predictions import PartPredictions
from msbgen.systems.machines.widths import IntervalWidths, fit_widths

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class MachineCalibration:
    """Predictions of n runs by fits without their programs, and the widths of intervals."""

    predictions: PartPredictions
    # (n,), program of each run; programs are exchangeable
    program: Annotated[Indices, Stored(("n",), dtype="i8", below="n")]
    widths: IntervalWidths
    # (n, n_sources, n_machines), log widths of these runs, from trees grown without their programs
    log_width: Annotated[Floats, Stored(("n", "machine", "machine"), LOG_TIMES, missing=True)]

    def half_widths(
        self, new: PartPredictions, sources: Sequence[int], miscoverage: float, names: Sequence[str]
    ) -> Floats:
        """Half width of the interval of log time of new runs on every machine, (n, n_machines).

        It is 0 on the `sources`, the machines that the new runs were measured on.

        Raises
        ------
        ArgumentError
            The rate is not in (0, 1).
        MeasurementError
            Too few programs ran on both machines for the rate.
        """
        measured = np.isfinite(self.predictions.log[:, list(sources)]).all(axis=1)
        predictions = self.predictions.some(np.flatnonzero(measured))
        error = np.abs(predictions.log_times(sources) - predictions.log)
        width = np.exp(self.log_width[measured][:, list(sources)].mean(axis=1))
        new_width = np.exp(self.widths.log_width(new, sources))
        halves = np.zeros_like(new.log)
        for m in range(error.shape[1]):
            if m in sources:
                continue
            rows = np.flatnonzero(np.isfinite(error[:, m]))
            if not len(rows):
                raise MeasurementError(
                    f"no run is on '{names[m]}' and the source; run a program on both."
                )
            groups = self.program[measured][rows]
            check_rate(miscoverage, len(np.unique(groups)), len(rows), "programs")
            scores = error[rows, m] / width[rows, m]
            halves[:, m] = group_quantile(scores, groups, miscoverage) * new_width[:, m]
        return halves


def calibrate_widths(
    predictions: PartPredictions, program: Indices, seed: int
) -> MachineCalibration:
    """Calibration from predictions of runs by fits without their programs."""
    return MachineCalibration(predictions, program, *fit_widths(predictions, program, seed))
