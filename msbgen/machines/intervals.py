"""Conformal intervals of relative performance: per pair of machines, whole programs left out.

Exchangeable are programs, with their runs nested in them (:mod:`msbgen.core.conformal`): ten runs
of a program say less than one of ten.  A score is how far the log time predicted of a run on
a machine, by a fit that its program was left out of, falls from the truth, in units of a width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.core.conformal import check_rate
from msbgen.core.contexts import weighted_quantile
from msbgen.core.errors import MeasurementError
from msbgen.machines.predictions import Answers
from msbgen.machines.widths import Widths, fit_widths

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Calibration:
    """Predictions of programs by fits that they were left out of.

    Attributes
    ----------
    answers : Answers
    program : ndarray of int, (n,)
        What is exchangeable.
    widths : Widths
    log_width : ndarray, (n, n_sources, n_machines)
        Of these runs, by trees that did not see their programs.
    """

    answers: Answers
    program: Indices
    widths: Widths
    log_width: Floats

    def half_widths(
        self, new: Answers, sources: Sequence[int], miscoverage: float, names: Sequence[str]
    ) -> Floats:
        """Half width of the interval of log time of new runs on every machine, (n, n_machines).

        0 on the sources, whose time is known.

        Raises
        ------
        ArgumentError, MeasurementError
            A rate that is none, or that the programs which ran on both machines do not support.
        """
        log, halves = self.answers.log, np.zeros_like(new.log)
        there = np.isfinite(log[:, list(sources)]).all(axis=1)
        known = self.answers.some(np.flatnonzero(there))
        off = np.abs(known.log_times(sources) - known.log)
        program = self.program[there]
        own = np.exp(self.log_width[there][:, list(sources)].mean(axis=1))
        theirs = np.exp(self.widths.log_width(new, sources))
        for m in range(log.shape[1]):
            if m in sources:
                continue
            rows = np.flatnonzero(np.isfinite(off[:, m]))
            unit = np.unique(program[rows], return_inverse=True)[1].reshape(-1)
            n = int(unit.max()) + 1 if len(unit) else 0
            if n == 0:
                raise MeasurementError(f"no run is on '{names[m]}' and the source; run some.")
            check_rate(miscoverage, n, len(rows), "programs")
            share = (1.0 / np.bincount(unit))[unit][None]
            level = min((1.0 - miscoverage) * (1.0 + 1.0 / n), 1.0)
            score = off[rows, m] / own[rows, m]
            halves[:, m] = weighted_quantile(score, share, level)[0, 0] * theirs[:, m]
        return halves


def calibrate_answers(answers: Answers, program: Indices, seed: int) -> Calibration:
    """Learn widths, and keep the scores, from what was said of programs left out."""
    return Calibration(answers, program, *fit_widths(answers, program, seed))
