"""Time and power of a program in every configuration, from a few of them and from other programs.

The model of log times and log powers of a program over the configurations is Gaussian:

    (log t, log p) ~ N(μ + λ·(1, 0), Σ + δ²·K + ν²·I),    λ with a flat prior.

The level λ is the duration of the program.  The prior mean μ and covariance Σ are fitted to the
other programs, with the same weight for every family (expectation and maximisation where some
configurations were not measured).  A new program is no mixture of the others.  Its departures from
them are smooth over the logarithms of the resources: K is a Gaussian kernel, separate for time and
power.  The posterior is conditional on the measurements of the program, optionally on its counters.

Measurements have noise.  Its variances, of time and of power, are estimated from neighbouring
contexts (:mod:`msbgen.kernels.choice.smoothing`), and the prior is fitted to curves without it.

Leave-one-family-out errors choose the nugget ν², the size δ and the length of the departures,
whether counters are used, and what to measure next.

A resource that the others were not measured over, such as a batch size, gets a smooth covariance:
log time and log power are linear in its logarithm, with smooth departures.
"""

from collections.abc import Sequence
from itertools import product
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.core.records import Positive, checks_arguments
from msbgen.data.schema import same_level
from msbgen.systems.kernels.choice.costs import Costs
from msbgen.systems.kernels.choice.posterior import ProgramPosterior
from msbgen.systems.kernels.choice.prior import (
    LEVEL_VARIANCE,
    LeftOutFamilies,
    ProgramPrior,
    fit_prior,
)
from msbgen.systems.kernels.choice.smoothing import smooth_curves
from msbgen.systems.learn.parameters import Parameters

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.int64]

# Variances of the noise to choose from.
NOISES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
# Standard deviations of departures from other programs, and their lengths as shares of the range
# of a resource's logarithm, to choose from.
DEPARTURES = (0.01, 0.03, 0.1, 0.3)
LENGTHS = (0.15, 0.3, 0.6, 1.0, 2.0)
# Departures are chosen with at most so many measured configurations, out of at most so many.
_MOST_MEASURED, _MOST_TRIED = 4, 32
# Prior variances over a new resource: slope of log time, level and slope of log power.
_SLOPE, _POWER_LEVEL, _POWER_SLOPE = 1.0, 0.1, 0.01
# Departures over a new resource: standard deviation, length over it, and length over the others,
# as shares of the range.  Chosen on each of two boards of one family, with the same result.
DEPARTURE, _NEW_LENGTH, _OLD_LENGTH = 0.1, 0.6, 0.5
# The most families that are left out one by one.
_MOST_FAMILIES = 12
# Share of an error that does not matter: within it the larger noise, or the simpler model, wins.
_TOLERANCE = 0.02


class ConfigurationModel(Parameters):
    """Time and power of a program in every configuration, from a few and from other programs.

    ``fit → condition, predict, next_configuration``.  Parameters are only stored; names of fitted
    attributes end in ``_``.

    Parameters
    ----------
    noise : float or None
        Variance of the logarithms that no other program explains; None to choose it by left-out
        families.
    counters : {"auto", "yes", "no"}
        Whether the posterior is conditional on counters; "auto" decides by left-out families.

    Attributes
    ----------
    prior_ : ProgramPrior
    noise_ : float
    measurement_noise_ : ndarray, (2,)
        Variances of the noise of measured log times and log powers; 0 where too few contexts show
        none.
    departure_, length_ : float
        Standard deviation of departures from other programs, and their length.
    uses_counters_ : bool
    contexts_ : ndarray, (n, m)
        Configurations of the predictions.

    Examples
    --------
    >>> import numpy as np
    >>> from msbgen.systems.kernels.choice.costs import Costs
    >>> clock, share = np.array([[0.5], [1.0], [1.5], [2.0]]), np.linspace(0, 1, 9)[:, None]
    >>> time = share / clock.T + (1 - share)
    >>> names = tuple(f"p{i}" for i in range(9))
    >>> others = Costs(names, names, ("clock",), ("GHz",), clock, time, time * (2 + clock.T**2))
    >>> model = ConfigurationModel().fit(others)
    >>> time = np.array([1.75, np.nan, np.nan, 0.625])  # three quarters scale with the clock
    >>> seconds, watts = model.predict(time, time * np.nan)
    >>> print(seconds.round(2), watts.round(1))
    [1.75 1.01 0.76 0.62] [2.3 3.  4.2 6. ]
    """

    @checks_arguments
    def __init__(
        self, *, noise: Positive | None = None, counters: Literal["auto", "yes", "no"] = "auto"
    ) -> None:
        self.noise = noise
        self.counters = counters

    # --------------------------------------------------------------- fitting

    def fit(
        self,
        others: Costs,
        counters: Floats | None = None,
        *,
        resources: tuple[str, ...] | None = None,
        contexts: Floats | None = None,
    ) -> Self:
        """Fit the prior to other programs.

        Parameters
        ----------
        others : Costs
            Programs measured over some or all configurations.
        counters : ndarray, (n_programs, c), or None
            Of each program, in one configuration that is the same for all; NaN where missing.
        resources, contexts : tuple of str, ndarray (n, m)
            Configurations to predict, by default those of the others.  They may have resources
            that the others lack.

        Raises
        ------
        ArgumentError
            Parameters out of range; resources that the contexts lack.
        MeasurementError
            Fewer than two programs, or a configuration in which none was measured.
        """
        if len(others.programs) < 2:
            raise MeasurementError(
                f"other programs are {', '.join(others.programs) or 'none'}; at least two are "
                f"wanted."
            )
        self.resources_ = others.resources if resources is None else tuple(resources)
        self.contexts_ = others.contexts if contexts is None else np.asarray(contexts, dtype=float)
        self._place(others)
        with np.errstate(invalid="ignore"):
            logs = np.log(np.hstack([others.time, others.power]))
        counted = logs[:, :0] if counters is None else np.asarray(counters, dtype=float)
        self._check_columns(others, logs, counted)
        names = np.unique(others.families, return_inverse=True)[1].reshape(-1)
        if len(np.unique(names)) < 2:  # one family: its programs are left out one by one
            names = np.arange(len(names)) % _MOST_FAMILIES
        self._families = names.astype(np.int64)
        self._measured_rows = logs
        self._rows, self.measurement_noise_ = self._without_noise(others)
        self._standardise(counted)
        self.uses_counters_ = self.counters == "yes" and self._counts.shape[1] > 0
        self.noise_ = NOISES[2] if self.noise is None else float(self.noise)
        self.departure_, self.length_ = 0.0, 1.0
        self._left_out = self._leave_out()
        if self.noise is None:
            self.noise_ = self._best_noise()
        if self.counters == "auto" and self._counts.shape[1]:
            self._choose_counters()
        self._choose_departures(others)
        prior = fit_prior(self._table(self._rows), self._families, self._width)
        self.prior_ = prior.with_departures(self._departures)
        return self

    def _check_columns(self, others: Costs, logs: Floats, counters: Floats) -> None:
        """Refuse a configuration or a counter that no program has."""
        empty = ~np.isfinite(logs).any(axis=0)
        if empty.any():
            part, context = divmod(int(np.argmax(empty)), self._width)
            raise MeasurementError(
                f"no other program has a {('time', 'power')[part]} in {others.describe(context)}; "
                f"measure one there, or leave it out."
            )
        empty = ~np.isfinite(counters).any(axis=0)
        if empty.any():
            raise MeasurementError(
                f"no other program has counter {int(np.argmax(empty))}; count it, or leave it out."
            )

    def _without_noise(self, others: Costs) -> tuple[Floats, Floats]:
        """Logarithms without noise, and the variance of the noise of time and of power, (2,)."""
        weight = 1.0 / np.bincount(self._families)[self._families]
        places, rows = _placed(others.contexts), self._measured_rows
        parts = [smooth_curves(part, weight, places) for part in np.hsplit(rows, 2)]
        return np.hstack([part.curves for part in parts]), np.array([x.noise for x in parts])

    def _standardise(self, counters: Floats) -> None:
        self._counter_mean = np.nanmean(counters, axis=0) if counters.shape[1] else counters[0]
        deviation = np.nanstd(counters, axis=0) if counters.shape[1] else counters[0]
        self._counter_scale = np.where(deviation > 0, deviation, 1.0)
        self._counts = (counters - self._counter_mean) / self._counter_scale

    def _place(self, others: Costs) -> None:
        """Locate the wanted configurations among those of the others."""
        lacking = [name for name in others.resources if name not in self.resources_]
        if lacking:
            raise ArgumentError(
                f"resources are {', '.join(self.resources_)}; {lacking[0]}, a resource of the "
                f"other programs, is missing: add it."
            )
        columns = [self.resources_.index(name) for name in others.resources]
        wanted = self.contexts_[:, columns]
        n = len(others.contexts)
        self._width = n
        self._mix = np.zeros((len(wanted), n))
        for row, context in enumerate(wanted):
            same = same_level(others.contexts, context).all(axis=1)
            if same.any():
                self._mix[row, int(np.argmax(same))] = 1.0
                continue
            if wanted.shape[1] > 1:
                raise ArgumentError(
                    f"context {context.tolist()} is none of those of the other programs; with "
                    f"several resources no context between them can be predicted."
                )
            if n < 2:
                raise MeasurementError(
                    f"other programs were measured in {others.describe(0)} only; two contexts or "
                    f"more are wanted to interpolate at {context[0]:g}."
                )
            at = int(np.clip(np.searchsorted(others.contexts[:, 0], context[0]), 1, n - 1))
            near = np.append(others.contexts[at - 1 : at + 1, 0], context[0])
            low, high, between = _log_levels(near[:, None], others.resources)[:, 0]
            share = (between - low) / (high - low)
            self._mix[row, at - 1 : at + 1] = 1.0 - share, share
        new = [i for i in range(self.contexts_.shape[1]) if i not in columns]
        names = [self.resources_[i] for i in new]
        self._new = _log_levels(self.contexts_[:, new], names)
        # levels of the old resources matter only where there are new ones
        self._old = _log_levels(wanted, others.resources) if new else wanted[:, :0]

    # --------------------------------------------------------------- left-out families

    def _table(self, rows: Floats) -> Floats:
        return np.hstack([rows, self._counts]) if self.uses_counters_ else rows

    def _leave_out(self) -> LeftOutFamilies:
        table, width = self._table(self._rows), self._width
        priors: list[ProgramPrior] = []
        family = np.full(len(table), -1)
        for name in np.unique(self._families)[:_MOST_FAMILIES]:
            rows = self._families == name
            if (~rows).sum() >= 2 and np.isfinite(table[~rows]).any(axis=0).all():
                family[rows] = len(priors)
                priors.append(fit_prior(table[~rows], self._families[~rows], width))
        kept = family >= 0
        measurement = np.zeros(table.shape[1])
        measurement[: 2 * width] = np.repeat(self.measurement_noise_, width)
        return LeftOutFamilies.from_priors(
            priors, table[kept], family[kept], width,
            observed=self._table(self._measured_rows)[kept], measurement=measurement,
        )  # fmt: skip

    def _best_noise(self) -> float:
        """The largest variance whose error is within the tolerance of the least error."""
        n = self._width
        pairs = [np.unique([n - 1, j]) for j in range(max(n - 1, 1))]
        errors = np.mean([self._left_out.errors(pair, n, NOISES) for pair in pairs], axis=0)
        enough = errors <= (1.0 + _TOLERANCE) * errors.min()
        return NOISES[int(np.flatnonzero(enough)[-1])]

    def _choose_departures(self, others: Costs) -> None:
        """Choose size and length of departures, and the noise, by the error of left-out families.

        They are predicted from two and more configurations, chosen one by one for the least error.
        """
        n, without = self._width, self._left_out
        levels = _placed(others.contexts)
        tried = np.unique(np.linspace(0, n - 1, min(n, _MOST_TRIED)).round().astype(np.int64))
        measured = [tried[-1:]]
        while len(measured) < min(_MOST_MEASURED, n - 1):
            measured.append(self._with_next(measured[-1], np.setdiff1d(tried, measured[-1])))
        noises = NOISES if self.noise is None else (self.noise_,)
        self._departures: Floats = np.zeros((2 * n, 2 * n))
        (least,) = self._log_errors(measured[1:], (self.noise_,))
        for departure, length in product(DEPARTURES, LENGTHS):
            block = departure**2 * _gaussian_kernel(levels, length)
            departures: Floats = np.asarray(np.kron(np.eye(2), block), dtype=np.float64)
            self._left_out = without.with_departures(departures)
            errors = self._log_errors(measured[1:], noises)
            best = int(np.argmin(errors))
            if errors[best] < least:
                least, self._departures, self.noise_ = errors[best], departures, noises[best]
                self.departure_, self.length_ = departure, length
        self._left_out = without.with_departures(self._departures)

    def _log_errors(self, measured: Sequence[Indices], noises: Sequence[float]) -> Floats:
        """Mean logarithms of errors of left-out families over sets of configurations, by noise."""
        if not measured:
            return np.zeros(len(noises))
        errors = [self._left_out.errors(one, self._width, noises) for one in measured]
        logs: Floats = np.log(np.maximum(errors, 1e-12))
        return logs.mean(axis=0)

    def _with_next(self, measured: Indices, others: Indices) -> Indices:
        """Some configurations and the one of others with which left-out families err least."""
        errors = [self._left_out_error(np.append(measured, j)) for j in others]
        return np.append(measured, others[int(np.argmin(errors))])

    def _choose_counters(self) -> None:
        """Use counters if they make the error of left-out families smaller."""
        n = self._width
        measured = np.unique([n // 2, n - 1])
        errors = []
        for uses in (False, True):
            self.uses_counters_ = uses
            self._left_out = self._leave_out()
            errors.append(self._left_out_error(measured))
        self.uses_counters_ = errors[1] < errors[0] * (1.0 - _TOLERANCE)
        self._left_out = self._leave_out()

    def _left_out_error(self, measured: Indices) -> float:
        """Mean error of log time and power of left-out families, from some configurations."""
        (error,) = self._left_out.errors(measured, self._width, (self.noise_,))
        return float(error)

    # --------------------------------------------------------------- predictions

    def condition(
        self, time: Floats, power: Floats, counters: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Posterior mean and covariance of log times, then log powers, (2n,) and (2n, 2n).

        They are of a new measurement in each configuration.  Without noise it is the measured one.

        Parameters
        ----------
        time, power : ndarray, (n,)
            Measured times [s] and powers [W] of one program, NaN where not measured;
            one time at least is wanted.
        counters : ndarray, (c,)
            Those of the program, if the fit uses counters.
        """
        self._check_fitted()
        if not np.isfinite(time).any():
            raise MeasurementError(
                "the program was measured in no configuration; its time in at least one is wanted."
            )
        with np.errstate(invalid="ignore", divide="ignore"):
            observed = np.log(np.concatenate([time, power]))
        mean, covariance = self._prior_moments()
        size = len(observed)
        if self.uses_counters_:
            if counters is None:
                raise ArgumentError("counters are missing; the same as in the fit are wanted.")
            scaled = (np.asarray(counters, dtype=float) - self._counter_mean) / self._counter_scale
            observed = np.concatenate([observed, scaled])
        else:
            mean, covariance = mean[:size], covariance[:size, :size]
        at = np.flatnonzero(np.isfinite(observed))
        measurement = np.zeros(len(observed))
        measurement[:size] = np.repeat(self.measurement_noise_, size // 2)
        covariance = covariance + self.noise_ * np.eye(len(observed))
        inner = covariance[np.ix_(at, at)] + np.diag(measurement[at])
        gain = np.linalg.solve(inner, covariance[at]).T
        exact = at[measurement[at] == 0]
        mean = mean + gain @ (observed - mean)[at]
        covariance = covariance - gain @ covariance[at]
        mean[exact] = observed[exact]
        covariance[exact] = 0.0
        covariance[:, exact] = 0.0
        covariance = covariance[:size, :size] + np.diag(measurement[:size])
        return mean[:size], 0.5 * (covariance + covariance.T)

    def posterior(self, time: Floats, power: Floats) -> ProgramPosterior:
        """:meth:`condition` as a :class:`.posterior.ProgramPosterior`."""
        return ProgramPosterior(*self.condition(time, power))

    def predict(
        self, time: Floats, power: Floats, counters: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Time [s] and power [W] in every configuration, (n,) each; parameters as `condition`."""
        mean, _ = self.condition(time, power, counters)
        seconds, watts = np.exp(mean).reshape(2, -1)
        return seconds, watts

    def predict_interval(
        self, time: Floats, power: Floats, deviations: float = 1.645
    ) -> tuple[Floats, Floats]:
        """Lower and upper ends of times and powers, (2, n) each, as a number of deviations.

        A Gaussian lies within 1.645 deviations with probability 90 %.  Other families of programs
        do so less often: decisions should use the conformal margins of
        :mod:`msbgen.kernels.choice`.
        """
        mean, covariance = self.condition(time, power)
        half = deviations * np.sqrt(np.maximum(covariance.diagonal(), 0.0))
        return np.exp(mean - half).reshape(2, -1), np.exp(mean + half).reshape(2, -1)

    def next_configuration(self, measured: Bools) -> int:
        """Number of the configuration to measure next, for the least error in all of them.

        It is the one with the least error on left-out families. Where the others lack a resource,
        it is the one with the least posterior standard deviation. `measured` is bool, (n,).
        """
        self._check_fitted()
        left = np.flatnonzero(~np.asarray(measured, dtype=bool))
        if len(left) == 0:
            raise ArgumentError("all configurations are measured; leave at least one out.")
        before = np.flatnonzero(measured)
        exact = self._new.shape[1] == 0 and len(self._mix) == self._width
        if exact and (self._mix == np.eye(self._width)).all():
            return int(self._with_next(before, left)[-1])
        deviations = [self._expected_deviation(np.append(before, j)) for j in left]
        return int(left[int(np.argmin(deviations))])

    def design(self, count: int, first: int | None = None) -> Indices:
        """Numbers of configurations to measure, the most useful first, (count,).

        `first` is the first of them, by default the last configuration.
        """
        self._check_fitted()
        n = len(self.contexts_)
        if not 1 <= count <= n:
            raise ArgumentError(f"count is {count}; a number from 1 to {n} is wanted.")
        chosen = [n - 1 if first is None else first]
        while len(chosen) < count:
            measured = np.zeros(n, dtype=bool)
            measured[chosen] = True
            chosen.append(self.next_configuration(measured))
        return np.array(chosen)

    # --------------------------------------------------------------- parts

    def _prior_moments(self) -> tuple[Floats, Floats]:
        """Prior mean and covariance over the wanted configurations."""
        n, width = len(self.contexts_), self._width
        rest = len(self.prior_.mean) - 2 * width
        mix = np.zeros((2 * n + rest, 2 * width + rest))
        mix[:n, :width] = mix[n : 2 * n, width : 2 * width] = self._mix
        mix[2 * n :, 2 * width :] = np.eye(rest)
        mean, covariance = mix @ self.prior_.mean, mix @ self.prior_.covariance @ mix.T
        time = np.zeros(len(mean))
        time[:n] = 1.0
        watts = np.zeros(len(mean))
        watts[n : 2 * n] = 1.0
        if self._new.shape[1]:
            across = _gaussian_kernel(self._new, _NEW_LENGTH)
            both = across * _gaussian_kernel(self._old, _OLD_LENGTH)
            blocks = np.ones((2, 2))
            covariance[: 2 * n, : 2 * n] *= np.kron(blocks, across)
            covariance[: 2 * n, : 2 * n] += DEPARTURE**2 * np.kron(np.eye(2), across + both)
            covariance += _POWER_LEVEL * np.outer(watts, watts)
            for column in (self._new - self._new.mean(axis=0)).T:
                for part, slope in ((slice(0, n), _SLOPE), (slice(n, 2 * n), _POWER_SLOPE)):
                    line = np.zeros(len(mean))
                    line[part] = column
                    covariance += slope * np.outer(line, line)
        return mean, covariance + LEVEL_VARIANCE * np.outer(time, time)

    def _expected_deviation(self, measured: Indices) -> float:
        """Mean posterior standard deviation of the logarithms, given some configurations."""
        n = len(self.contexts_)
        _, covariance = self._prior_moments()
        covariance = covariance[: 2 * n, : 2 * n]
        at = np.concatenate([measured, measured + n])
        inner = covariance[np.ix_(at, at)] + self.noise_ * np.eye(len(at))
        left = covariance.diagonal() - np.einsum(
            "ij,ji->i", covariance[:, at], np.linalg.solve(inner, covariance[at])
        )
        return float(np.sqrt(np.maximum(left, 0.0)).mean())

    def _check_fitted(self) -> None:
        if not hasattr(self, "prior_"):
            raise ArgumentError("the model is not fitted; call fit first.")


def _log_levels(levels: Floats, names: Sequence[str]) -> Floats:
    """Logarithms of positive resources, (n, n_resources)."""
    faulty = np.argwhere(~(levels > 0))
    if len(faulty):
        row, column = faulty[0]
        raise MeasurementError(
            f"resource '{names[column]}' is {levels[row, column]:g} in a configuration; a positive "
            f"number is wanted to predict configurations that other programs lack."
        )
    return np.log(levels)


def _placed(contexts: Floats) -> Floats:
    """Logarithms of resources where all are positive, their levels otherwise."""
    positive = (contexts > 0).all(axis=0)
    return np.where(positive, np.log(np.where(positive, contexts, 1.0)), contexts)


def _gaussian_kernel(columns: Floats, length: float) -> Floats:
    """Gaussian kernel over columns, with a length in shares of their ranges, (n, n)."""
    span = np.ptp(columns, axis=0)
    scaled = columns[:, span > 0] / (length * span[span > 0])
    square = ((scaled[:, None, :] - scaled[None, :, :]) ** 2).sum(axis=2)
    return np.exp(-0.5 * square)
