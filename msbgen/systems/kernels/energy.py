"""Energy of generated profiles, corrected by the power of other programs.

Two measured clocks do not show how power bends between them: energy generated at a third clock is
off by a tenth.  Other programs that were measured at all clocks show the bend.
"""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.data.energy import energy_counter, scale_energy
from msbgen.data.profiles import Profiles
from msbgen.data.quality import warn_of_generated
from msbgen.systems.kernels.choice.configuration_model import ConfigurationModel
from msbgen.systems.kernels.choice.costs import costs_of

Floats = NDArray[np.float64]

# Contexts that are predicted at once: the covariance of all would take gigabytes.
_BLOCK = 256


class EnergyCorrector:
    """Corrects the energy of generated profiles by the power of other programs.

    Parameters
    ----------
    measured : xarray.Dataset
        Measured profiles of a task with a counter in joules.
    others : sequence of xarray.Dataset
        Measured profiles of other tasks on the same platform, with such a counter, too.  Profiles
        of the same task are not used.

    Raises
    ------
    ArgumentError
        No counter in joules; resources or units that the task was not measured with.
    MeasurementError
        Fewer than two other programs.
    """

    def __init__(self, measured: xr.Dataset, others: Sequence[xr.Dataset]):
        energy_counter(measured)
        for dataset in others:
            warn_of_generated(Profiles.of(dataset))
        self._task, rest = costs_of(measured), costs_of(list(others))
        task_units = dict(zip(self._task.resources, self._task.units))
        for name, units in zip(rest.resources, rest.units):
            if task_units.get(name) != units:
                raise ArgumentError(
                    f"other programs were measured over '{name}' in {units}, this one over "
                    f"{', '.join(f'{n} in {u}' for n, u in task_units.items())}; the same are "
                    f"wanted."
                )
        self._others = rest.without(self._task.families)
        if len(self._others.programs) < 2:
            raise MeasurementError(
                f"there are {len(self._others.programs)} other programs; two or more are wanted "
                f"to predict the power of '{self._task.programs[0]}'."
            )

    def power(self, contexts: Floats) -> Floats:
        """Mean power [W] of the task in contexts (n, n_resources), (n,)."""
        blocks = [self._power(contexts[i : i + _BLOCK]) for i in range(0, len(contexts), _BLOCK)]
        return np.concatenate(blocks)

    def _power(self, wanted: Floats) -> Floats:
        measured = self._task.contexts
        contexts, at = np.unique(np.vstack([measured, wanted]), axis=0, return_inverse=True)
        at = at.reshape(-1)
        at_measured, at_wanted = at[: len(measured)], at[len(measured) :]
        time, power = np.full(len(contexts), np.nan), np.full(len(contexts), np.nan)
        time[at_measured], power[at_measured] = self._task.time[0], self._task.power[0]
        model = ConfigurationModel().fit(
            self._others, resources=self._task.resources, contexts=contexts
        )
        return np.exp(model.posterior(time, power).logs[2, at_wanted])

    def correct(self, generated: xr.Dataset) -> xr.Dataset:
        """Generated profiles of the task with corrected energy.

        In each context the mean energy of a run becomes the mean generated duration times the
        power that :class:`~msbgen.systems.kernels.choice.configuration_model.ConfigurationModel`
        predicts. The energy over time and the differences between samples are scaled, not changed
        otherwise.

        Raises
        ------
        ArgumentError
            Other resources than measured, or no counter in joules.
        """
        profiles = Profiles.of(generated)
        if tuple(profiles.resources) != self._task.resources:
            raise ArgumentError(
                f"generated profiles have the resources {', '.join(profiles.resources)}; "
                f"{', '.join(self._task.resources)}, as measured, are wanted."
            )
        joules = profiles.mean_duration * self.power(profiles.contexts)
        return scale_energy(generated, joules)
