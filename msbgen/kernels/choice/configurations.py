"""Time and power of a program in every configuration, from a few of them and from other programs.

Over the configurations, log times and log powers of the programs that were measured are taken for
jointly Gaussian, the scale of the time aside, on which nothing is known beforehand:

    (log t, log p) ~ N(μ + λ·(1, 0), Σ + δ²·K + σ²·I),    λ free.

μ and Σ are those of the other programs, every family counting the same (expectation and
maximisation where some were not measured).  A new program is no mixture of these: it departs from
them smoothly over the logarithms of the resources, as K says (a Gaussian kernel, time and power
apart).  What was measured of a program conditions it; its counters may, too.  Families of other
programs, left out one by one, say how large the noise σ² and the departures δ are, how smooth
these, whether counters help, and what to measure next.

A resource that the others were not measured over, as a batch size where they know clocks alone,
gets a smooth covariance of its own: log time and log power are a line over its logarithm and
departures from it, alike where it is alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.data.schema import same_level
from msbgen.kernels.choice.costs import Costs
from msbgen.kernels.choice.posterior import Belief
from msbgen.kernels.choice.prior import FREE, LeftOut, Likely, learn
from msbgen.learn.parameters import Parameters

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.int64]

# Variances of noise that left-out families choose among.
NOISES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
# Deviations of departures from other programs, and how far these are alike, as shares of the range
# of a resource's logarithm; left-out families choose among these, too.
DEPARTURES = (0.01, 0.03, 0.1, 0.3)
REACHES = (0.15, 0.3, 0.6, 1.0, 2.0)
# The most configurations that are known of them meanwhile, and that these are chosen from.
_MOST_KNOWN, _MOST_TRIED = 4, 32
# Variances of what nothing is known of: the slope of a time over a new resource, and the level
# and slope of a power.
_SLOPE, _POWER_LEVEL, _POWER_SLOPE = 1.0, 0.1, 0.01
# Departures over a new resource: their deviation, and how far in its logarithm they are alike, of
# its range.  The same for two boards of one family, of which each chose it for the other.
DEPARTURE, _ALIKE, _ALIKE_OLD = 0.1, 0.6, 0.5
# The most families that are left out one by one.
_MOST_FAMILIES = 12
# Share of an error that does not matter: of two answers the steadier, or simpler, is taken.
_NEXT_TO_NOTHING = 0.02


class ConfigurationModel(Parameters):
    """What a program takes in every configuration, from a few and from other programs.

    ``fit → condition, predict, next_configuration``.  Parameters are only stored, what is fitted
    ends in ``_``.

    Parameters
    ----------
    noise : float or None
        Variance of the logarithms; None to let left-out families choose.
    counters : {"auto", "yes", "no"}
        Whether counters are conditioned on; "auto" lets left-out families decide.

    Attributes
    ----------
    likely_ : Likely
    noise_ : float
    departure_, reach_ : float
        Deviation of departures from other programs, and how far they are alike.
    uses_counters_ : bool
    contexts_ : ndarray, (n, m)
        Configurations that answers are about.

    Examples
    --------
    >>> import numpy as np
    >>> from msbgen.kernels.choice.costs import Costs
    >>> clock, share = np.array([[0.5], [1.0], [1.5], [2.0]]), np.linspace(0, 1, 9)[:, None]
    >>> time = share / clock.T + (1 - share)
    >>> names = tuple(f"p{i}" for i in range(9))
    >>> others = Costs(names, names, ("clock",), ("GHz",), clock, time, time * (2 + clock.T**2))
    >>> model = ConfigurationModel().fit(others)
    >>> known = np.array([1.75, np.nan, np.nan, 0.625])  # three quarters wait for the clock
    >>> seconds, watts = model.predict(known, known * np.nan)
    >>> print(seconds.round(2), watts.round(1))
    [1.75 1.01 0.76 0.62] [2.3 3.  4.2 6. ]
    """

    def __init__(
        self, *, noise: float | None = None, counters: Literal["auto", "yes", "no"] = "auto"
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
        """Learn from other programs.

        Parameters
        ----------
        others : Costs
            Programs measured over some or all configurations.
        counters : ndarray, (n_programs, c), or None
            Of each program, in one configuration that is the same for all; NaN where none.
        resources, contexts : tuple of str, ndarray (n, m)
            Configurations that answers are wanted for; those of the others where not given.  They
            may have resources that the others lack.

        Raises
        ------
        ArgumentError
            Parameters out of range; resources that the contexts lack.
        MeasurementError
            Fewer than two programs, or a configuration in which none was measured.
        """
        if self.counters not in ("auto", "yes", "no"):
            raise ArgumentError(f"counters is {self.counters!r}; auto, yes or no is wanted.")
        if self.noise is not None and not 0 < self.noise < np.inf:
            raise ArgumentError(f"noise is {self.noise}; a positive number is wanted.")
        if len(others.programs) < 2:
            raise MeasurementError(
                f"other programs are {', '.join(others.programs) or 'none'}; two at least are "
                f"wanted."
            )
        self.resources_ = others.resources if resources is None else tuple(resources)
        self.contexts_ = others.contexts if contexts is None else np.asarray(contexts, dtype=float)
        self._place(others)
        with np.errstate(invalid="ignore"):
            logs = np.log(np.hstack([others.time, others.power]))
        counted = logs[:, :0] if counters is None else np.asarray(counters, dtype=float)
        self._check_seen(others, logs, counted)
        names = np.unique(others.families, return_inverse=True)[1].reshape(-1)
        if len(np.unique(names)) < 2:  # of one family: its programs are left out
            names = np.arange(len(names)) % _MOST_FAMILIES
        self._rows = logs
        self._standardise(counted)
        self._families = names.astype(np.int64)
        self.uses_counters_ = self.counters == "yes" and self._counts.shape[1] > 0
        self.noise_ = NOISES[2] if self.noise is None else float(self.noise)
        self.departure_, self.reach_ = 0.0, 1.0
        self._left_out = self._leave_out()
        if self.noise is None:
            self.noise_ = self._best_noise()
        if self.counters == "auto" and self._counts.shape[1]:
            self._choose_counters()
        self._choose_departures(others)
        self.likely_ = learn(self._table(), self._families, self._width).departing(self._smooth)
        return self

    def _check_seen(self, others: Costs, logs: Floats, counters: Floats) -> None:
        unseen = ~np.isfinite(logs).any(axis=0)
        if unseen.any():
            part, context = divmod(int(np.argmax(unseen)), self._width)
            raise MeasurementError(
                f"no other program has a {('time', 'power')[part]} in {others.describe(context)}; "
                f"measure one there, or leave it out."
            )
        empty = ~np.isfinite(counters).any(axis=0)
        if empty.any():
            raise MeasurementError(
                f"no other program has counter {int(np.argmax(empty))}; count it, or leave it out."
            )

    def _standardise(self, counters: Floats) -> None:
        self._counter_mean = np.nanmean(counters, axis=0) if counters.shape[1] else counters[0]
        deviation = np.nanstd(counters, axis=0) if counters.shape[1] else counters[0]
        self._counter_scale = np.where(deviation > 0, deviation, 1.0)
        self._counts = (counters - self._counter_mean) / self._counter_scale

    def _place(self, others: Costs) -> None:
        """Where the configurations wanted lie among those of the others."""
        lacking = [name for name in others.resources if name not in self.resources_]
        if lacking:
            raise ArgumentError(
                f"resources are {', '.join(self.resources_)}; {lacking[0]}, which the others were "
                f"measured over, is wanted too."
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
                    f"context {context.tolist()} is none of the others'; one of them is wanted "
                    f"where there are several resources."
                )
            if n < 2:
                raise MeasurementError(
                    f"the others were measured in {others.describe(0)} alone; two contexts or "
                    f"more, between which {context[0]:g} is placed, are wanted."
                )
            at = int(np.clip(np.searchsorted(others.contexts[:, 0], context[0]), 1, n - 1))
            near = np.append(others.contexts[at - 1 : at + 1, 0], context[0])
            low, high, own = _log_levels(near[:, None], others.resources)[:, 0]
            share = (own - low) / (high - low)
            self._mix[row, at - 1 : at + 1] = 1.0 - share, share
        new = [i for i in range(self.contexts_.shape[1]) if i not in columns]
        names = [self.resources_[i] for i in new]
        self._new = _log_levels(self.contexts_[:, new], names)
        # only beside new resources are the old ones more than names
        self._old = _log_levels(wanted, others.resources) if new else wanted[:, :0]

    # --------------------------------------------------------------- left-out families

    def _table(self) -> Floats:
        return np.hstack([self._rows, self._counts]) if self.uses_counters_ else self._rows

    def _leave_out(self) -> LeftOut:
        table, width = self._table(), self._width
        known: list[Likely] = []
        family = np.full(len(table), -1)
        for name in np.unique(self._families)[:_MOST_FAMILIES]:
            own = self._families == name
            if (~own).sum() >= 2 and np.isfinite(table[~own]).any(axis=0).all():
                family[own] = len(known)
                known.append(learn(table[~own], self._families[~own], width))
        return LeftOut.of(known, table[family >= 0], family[family >= 0], width)

    def _best_noise(self) -> float:
        """The largest variance that costs left-out families next to nothing."""
        n = self._width
        errors = []
        for noise in NOISES:
            self.noise_ = noise
            pairs = [np.unique([n - 1, j]) for j in range(max(n - 1, 1))]
            errors.append(float(np.mean([self._left_out_error(pair) for pair in pairs])))
        enough = np.array(errors) <= (1.0 + _NEXT_TO_NOTHING) * min(errors)
        return NOISES[int(np.flatnonzero(enough)[-1])]

    def _choose_departures(self, others: Costs) -> None:
        """Let programs depart from the others where families that were left out are met better.

        What is known of these is what tells most of them, two configurations and more.
        """
        n, plain = self._width, self._left_out
        levels = _placed(others.contexts)
        tried = np.unique(np.linspace(0, n - 1, min(n, _MOST_TRIED)).round().astype(np.int64))
        given = [tried[-1:]]
        while len(given) < min(_MOST_KNOWN, n - 1):
            given.append(self._with_next(given[-1], np.setdiff1d(tried, given[-1])))
        noises = NOISES if self.noise is None else (self.noise_,)
        self._smooth: Floats = np.zeros((2 * n, 2 * n))
        least = self._log_error(given[1:])
        for departure, reach in product(DEPARTURES, REACHES):
            alike = departure**2 * _alike(levels, reach)
            smooth: Floats = np.asarray(np.kron(np.eye(2), alike), dtype=np.float64)
            self._left_out = plain.departing(smooth)
            for noise in noises:
                before, self.noise_ = self.noise_, noise
                error = self._log_error(given[1:])
                if error < least:
                    least, self._smooth = error, smooth
                    self.departure_, self.reach_ = departure, reach
                else:
                    self.noise_ = before
        self._left_out = plain.departing(self._smooth)

    def _log_error(self, known: Sequence[Indices]) -> float:
        """Mean logarithm of the errors of left-out families, from several sets that are known."""
        errors = [self._left_out_error(given) for given in known]
        return float(np.log(np.maximum(errors, 1e-12)).mean()) if errors else 0.0

    def _with_next(self, given: Indices, left: Indices) -> Indices:
        """Some configurations and the one of others after which left-out families are met best."""
        worth = [self._left_out_error(np.append(given, j)) for j in left]
        return np.append(given, left[int(np.argmin(worth))])

    def _choose_counters(self) -> None:
        """Use counters if families that were left out are met better with them."""
        n = self._width
        given = np.unique([n // 2, n - 1])
        errors = []
        for uses in (False, True):
            self.uses_counters_ = uses
            self._left_out = self._leave_out()
            errors.append(self._left_out_error(given))
        self.uses_counters_ = errors[1] < errors[0] * (1.0 - _NEXT_TO_NOTHING)
        self._left_out = self._leave_out()

    def _left_out_error(self, given: Indices) -> float:
        """Mean error of log time and power of left-out families, from some configurations."""
        return self._left_out.error(given, self._width, self.noise_)

    # --------------------------------------------------------------- answers

    def condition(
        self, time: Floats, power: Floats, counters: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Mean and covariance of the log times, then log powers, of one program, (2n,), (2n, 2n).

        Parameters
        ----------
        time, power : ndarray, (n,)
            Measured [s], [W], NaN where they were not.
        counters : ndarray, (c,)
            Those of the program, where the fit uses them.

        Raises
        ------
        MeasurementError
            No time was measured.
        """
        self._check_fitted()
        if not np.isfinite(time).any():
            raise MeasurementError(
                "nothing was measured of the program; its time in one configuration at least is "
                "wanted."
            )
        with np.errstate(invalid="ignore", divide="ignore"):
            told = np.log(np.concatenate([time, power]))
        mean, covariance = self._prior()
        size = len(told)
        if self.uses_counters_:
            if counters is None:
                raise ArgumentError("counters are not given; those of the fit are wanted.")
            scaled = (np.asarray(counters, dtype=float) - self._counter_mean) / self._counter_scale
            told = np.concatenate([told, scaled])
        else:
            mean, covariance = mean[:size], covariance[:size, :size]
        at = np.flatnonzero(np.isfinite(told))
        inner = covariance[np.ix_(at, at)] + self.noise_ * np.eye(len(at))
        gain = np.linalg.solve(inner, covariance[at]).T
        mean = mean + gain @ (told - mean)[at]
        covariance = covariance - gain @ covariance[at]
        own = at[at < size]
        mean[own] = told[own]
        noisy = np.full(size, self.noise_)
        noisy[own] = 0.0
        covariance = covariance[:size, :size] + np.diag(noisy)
        covariance[own] = 0.0
        covariance[:, own] = 0.0
        return mean[:size], 0.5 * (covariance + covariance.T)

    def believe(self, time: Floats, power: Floats) -> Belief:
        """The same as :meth:`condition`, as :mod:`msbgen.kernels.choice` takes it."""
        return Belief(*self.condition(time, power))

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
        """Lowest and highest times and powers within some deviations, (2, n) each.

        Of a Gaussian 90 % lie within 1.645; of other families of programs fewer do, so that
        decisions want the conformal margins of :mod:`msbgen.kernels.choice`.
        """
        mean, covariance = self.condition(time, power)
        half = deviations * np.sqrt(np.maximum(covariance.diagonal(), 0.0))
        return np.exp(mean - half).reshape(2, -1), np.exp(mean + half).reshape(2, -1)

    def next_configuration(self, measured: Bools) -> int:
        """Number of the configuration that is best measured next, for the whole table.

        The one after which left-out families are met best; where the others lack a resource, the
        one that leaves the least expected deviation.

        Parameters
        ----------
        measured : ndarray of bool, (n,)

        Raises
        ------
        ArgumentError
            All are measured.
        """
        self._check_fitted()
        left = np.flatnonzero(~np.asarray(measured, dtype=bool))
        if len(left) == 0:
            raise ArgumentError("all configurations are measured; none is left.")
        known = np.flatnonzero(measured)
        exact = self._new.shape[1] == 0 and len(self._mix) == self._width
        if exact and (self._mix == np.eye(self._width)).all():
            return int(self._with_next(known, left)[-1])
        worth = [self._expected_deviation(np.append(known, j)) for j in left]
        return int(left[int(np.argmin(worth))])

    def design(self, count: int, first: int | None = None) -> Indices:
        """Configurations to measure, the most telling first, (count,).

        Parameters
        ----------
        count : int
        first : int
            The one to begin with; the last where not given.
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

    def _prior(self) -> tuple[Floats, Floats]:
        """Mean and covariance over the configurations wanted, before anything is measured."""
        n, width = len(self.contexts_), self._width
        rest = len(self.likely_.mean) - 2 * width
        mix = np.zeros((2 * n + rest, 2 * width + rest))
        mix[:n, :width] = mix[n : 2 * n, width : 2 * width] = self._mix
        mix[2 * n :, 2 * width :] = np.eye(rest)
        mean, covariance = mix @ self.likely_.mean, mix @ self.likely_.covariance @ mix.T
        time = np.zeros(len(mean))
        time[:n] = 1.0
        watts = np.zeros(len(mean))
        watts[n : 2 * n] = 1.0
        if self._new.shape[1]:
            across = _alike(self._new, _ALIKE)
            both = across * _alike(self._old, _ALIKE_OLD)
            blocks = np.ones((2, 2))
            covariance[: 2 * n, : 2 * n] *= np.kron(blocks, across)
            covariance[: 2 * n, : 2 * n] += DEPARTURE**2 * np.kron(np.eye(2), across + both)
            covariance += _POWER_LEVEL * np.outer(watts, watts)
            for column in (self._new - self._new.mean(axis=0)).T:
                for part, slope in ((slice(0, n), _SLOPE), (slice(n, 2 * n), _POWER_SLOPE)):
                    line = np.zeros(len(mean))
                    line[part] = column
                    covariance += slope * np.outer(line, line)
        return mean, covariance + FREE * np.outer(time, time)

    def _expected_deviation(self, given: Indices) -> float:
        """Mean deviation of the logarithms if some configurations were measured."""
        n = len(self.contexts_)
        _, covariance = self._prior()
        covariance = covariance[: 2 * n, : 2 * n]
        at = np.concatenate([given, given + n])
        inner = covariance[np.ix_(at, at)] + self.noise_ * np.eye(len(at))
        left = covariance.diagonal() - np.einsum(
            "ij,ji->i", covariance[:, at], np.linalg.solve(inner, covariance[at])
        )
        return float(np.sqrt(np.maximum(left, 0.0)).mean())

    def _check_fitted(self) -> None:
        if not hasattr(self, "likely_"):
            raise ArgumentError("the model is not fitted; call fit first.")


def _log_levels(levels: Floats, names: Sequence[str]) -> Floats:
    """Logarithms of resources, (n, n_resources), which must be positive where they are likened."""
    faulty = np.argwhere(~(levels > 0))
    if len(faulty):
        row, column = faulty[0]
        raise MeasurementError(
            f"resource '{names[column]}' is {levels[row, column]:g} in a configuration; a positive "
            f"number is wanted where others lie between or beside those measured."
        )
    return np.log(levels)


def _placed(contexts: Floats) -> Floats:
    """Logarithms of resources where all are positive, their levels otherwise."""
    positive = (contexts > 0).all(axis=0)
    return np.where(positive, np.log(np.where(positive, contexts, 1.0)), contexts)


def _alike(columns: Floats, length: float) -> Floats:
    """Gaussian kernel over columns in shares of their ranges, (n, n)."""
    span = np.ptp(columns, axis=0)
    scaled = columns[:, span > 0] / (length * span[span > 0])
    square = ((scaled[:, None, :] - scaled[None, :, :]) ** 2).sum(axis=2)
    return np.exp(-0.5 * square)
