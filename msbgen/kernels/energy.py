"""Energy of generated profiles, mended by the power of other programs.

Two clocks do not show how power bends between them: generated from them, energy at a third is off
by a tenth.  Other programs that were measured at all of them show it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.data.energy import energy_counter, scale_energy
from msbgen.data.schema import context_table, mean_duration, resource_names
from msbgen.kernels.choice.configurations import ConfigurationModel
from msbgen.kernels.choice.costs import costs_of

Floats = NDArray[np.float64]

# Contexts that are asked for at once: the covariance of all would take gigabytes.
_BLOCK = 256


class EnergyMender:
    """Gives generated profiles the energy that other programs make likely.

    Parameters
    ----------
    measured : xarray.Dataset
        Profiles of a task with a counter in joules, from which others are generated.
    others : sequence of xarray.Dataset
        Measured profiles of other tasks on the same platform, with such a counter too.  Those of
        this task are left aside.

    Raises
    ------
    ArgumentError
        No counter in joules; resources or units that the task was not measured with.
    MeasurementError
        Fewer than two other programs.
    """

    def __init__(self, measured: xr.Dataset, others: Sequence[xr.Dataset]):
        energy_counter(measured)
        self._own, rest = costs_of(measured), costs_of(list(others))
        mine = dict(zip(self._own.resources, self._own.units))
        for name, units in zip(rest.resources, rest.units):
            if mine.get(name) != units:
                raise ArgumentError(
                    f"other programs were measured over '{name}' in {units}, this one over "
                    f"{', '.join(f'{n} in {u}' for n, u in mine.items())}; the same are wanted."
                )
        self._others = rest.without(self._own.families)
        if len(self._others.programs) < 2:
            raise MeasurementError(
                f"there are {len(self._others.programs)} other programs; two or more, whose power "
                f"says how that of '{self._own.programs[0]}' bends, are wanted."
            )

    def power(self, contexts: Floats) -> Floats:
        """Mean power [W] of the task in contexts (n, n_resources), (n,)."""
        blocks = [self._power(contexts[i : i + _BLOCK]) for i in range(0, len(contexts), _BLOCK)]
        return np.concatenate(blocks)

    def _power(self, wanted: Floats) -> Floats:
        known = self._own.contexts
        contexts, at = np.unique(np.vstack([known, wanted]), axis=0, return_inverse=True)
        at = at.reshape(-1)
        own, asked = at[: len(known)], at[len(known) :]
        time, power = np.full(len(contexts), np.nan), np.full(len(contexts), np.nan)
        time[own], power[own] = self._own.time[0], self._own.power[0]
        model = ConfigurationModel().fit(
            self._others, resources=self._own.resources, contexts=contexts
        )
        return np.exp(model.believe(time, power).logs[2, asked])

    def mend(self, generated: xr.Dataset) -> xr.Dataset:
        """Profiles generated of the task, their energy mended.

        In each context the mean energy of a run becomes the mean duration that was generated times
        the power that follows from this task's measured contexts and from the others
        (:class:`~msbgen.kernels.choice.configurations.ConfigurationModel`).  Its course over time
        stays, and so does what makes samples differ.

        Raises
        ------
        ArgumentError
            Other resources than measured, or no counter in joules.
        """
        if tuple(resource_names(generated)) != self._own.resources:
            raise ArgumentError(
                f"generated profiles have the resources {', '.join(resource_names(generated))}; "
                f"{', '.join(self._own.resources)}, as measured, are wanted."
            )
        joules = mean_duration(generated) * self.power(context_table(generated))
        return scale_energy(generated, joules)
