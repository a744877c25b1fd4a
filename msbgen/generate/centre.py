"""Where the profiles of a context lie: a trend over contexts, and what the known ones depart.

At equal progress all runs are in the same phase, so the state (time and events per bin of
progress) depends smoothly on the context: log state = centre(β, bin) + residual.  The centre is
the trend and the local mean of what it leaves: a context's departure, log(mean of its runs/trend),
smoothed by a kernel over the contexts; of a single run's as much as its neighbours confirm.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.arrays import ANY, LOGARITHMS, NOT_NEGATIVE, POSITIVE, StoredArrays
from msbgen.core.contexts import gaussian_log_weights, scott_bandwidth
from msbgen.generate.partial import fill_means
from msbgen.generate.runs import Runs
from msbgen.trend.coordinates import COORDINATES
from msbgen.trend.fit import Trend, fit_trend
from msbgen.trend.smooth import FORMS

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# The least that Scott's rule may say of the kernel over contexts, in spacings of the known ones.
_LEAST_SPACINGS = 0.7


@dataclass(frozen=True, eq=False)
class Centre:
    """Amounts per bin of progress that the runs of a context vary about.

    Attributes
    ----------
    clock : int
        What tells progress: 0 for wall time, 1 + k for counter k.
    segments : int
        Segments of progress, of equally many bins each.
    bandwidth : float
        Of the kernel over contexts, as a multiple of Scott's rule over the known ones in the
        coordinates of the trend, or of 0.7 times their spacing where that is more.
    total : ndarray, (n_known, n_runs)
        What the clock counted in each run; NaN for runs that are missing or lost counts.
    pace : ndarray, (n_known, n_runs)
        How many times longer each run was measured to take than it is taken to; 1 where nothing
        was wrong.
    guessed : ndarray of bool, (n_known,)
        Known contexts whose time is what the others say of it.
    trend : Trend
        Amounts per bin at any context; the first quantity is time where it is not the clock.
    total_trend : Trend
        What the clock counts at any context.
    departure : ndarray, (n_known, bins, k)
        Log of each context's mean measured amounts over the fitted ones.
    trust : ndarray, (n_known, k)
        How much of a departure the local mean takes: 1, or of a single run, which may be noise,
        the share that its neighbours confirm.
    """

    clock: int
    segments: int
    bandwidth: float
    total: Floats
    pace: Floats
    guessed: NDArray[np.bool_]
    trend: Trend
    total_trend: Trend
    departure: Floats
    trust: Floats

    @classmethod
    def fit(
        cls,
        runs: Runs,
        state: Floats,
        trend: Trend,
        *,
        segments: int,
        bandwidth: float,
        pace: ArrayLike = 1.0,
        guessed: ArrayLike = False,
    ) -> Centre:
        """Fit the trend of the totals, and find what the known contexts depart from the trend.

        Parameters
        ----------
        runs : Runs
        state : ndarray, (n, bins, k)
            Amounts per bin of progress of each run, as `trend` was fitted to their means.
        trend : Trend
        segments, bandwidth, pace
            As the attributes.
        """
        total_trend = fit_trend(
            runs.contexts,
            runs.means(runs.run_total[:, None, None]),
            weights=runs.n_runs,
            find_caps=False,
        )
        means = fill_means(runs.amounts(state), trend)
        departure = log_ratio(means, trend.predict(runs.contexts))
        trust = np.ones((len(departure), departure.shape[2]))
        alone = runs.holders <= 1
        if alone.any():
            place = trend.scaled(runs.contexts) / _width(trend, bandwidth)
            means = np.nan_to_num(runs.means(runs.state))
            size = np.maximum(means.sum(axis=(0, 1)), 1e-300)
            share = confirmed(place, departure, alone[:, None] * means / size)
            trust = np.where(alone, share, trust)
        paces = np.broadcast_to(np.asarray(pace, dtype=float), runs.total.shape)
        mended = np.broadcast_to(np.asarray(guessed, dtype=bool), len(departure))
        return cls(
            runs.clock, segments, bandwidth, runs.total, paces, mended, trend, total_trend,
            departure, trust,
        )  # fmt: skip

    @cached_property
    def n_runs(self) -> Indices:
        """Runs of each known context that were learned from, (n_known,)."""
        return np.isfinite(self.total).sum(axis=1)

    @cached_property
    def scaled(self) -> bool:
        """Whether the time of any run is not what was measured."""
        return bool((self.pace != 1.0).any())

    @cached_property
    def width(self) -> Floats:
        """Bandwidth of the kernel over contexts in the coordinates of the trend, (n_resources,)."""
        return _width(self.trend, self.bandwidth)

    @cached_property
    def place(self) -> Floats:
        """Known contexts in bandwidths, (n_known, n_resources)."""
        return self.trend.scaled(self.trend.contexts) / self.width

    @cached_property
    def _trusted(self) -> Floats:
        """Departures as the local mean takes them, (n_known, bins, k)."""
        return self.departure * self.trust[:, None]

    @cached_property
    def _trusted_sums(self) -> Floats:
        """The same of sums over bins, (n_known, 1, k)."""
        states = self.known_states(), self._fitted
        sums = log_ratio(*(amounts.sum(axis=1, keepdims=True) for amounts in states))
        return sums * self.trust[:, None]

    @cached_property
    def _fitted(self) -> Floats:
        """The trend at the known contexts, (n_known, bins, k)."""
        return self.trend.predict(self.trend.contexts)

    def known_states(self) -> Floats:
        """Mean measured amounts per bin of each known context, (n_known, bins, k)."""
        return self._fitted * np.exp(self.departure)

    def of_known(self, holders: Indices) -> Floats:
        """What the runs of each known context are measured from, (n_known, bins, k).

        Their own mean; where there is one run only, the centre of what surrounds it.

        Parameters
        ----------
        holders : ndarray of int, (n_known, k)
            Runs of each context that hold each quantity.
        """
        states, alone = self.known_states(), holders <= 1
        rows = alone.any(axis=1)
        log_weight = gaussian_log_weights(self.place, self.place[rows])
        around = self._departed(self._fitted[rows], log_weight)
        states[rows] = np.where(alone[rows, None], around, states[rows])
        return states

    @cached_property
    def held_out(self) -> Floats:
        """The centre of each known context from all others, (n_known, bins, k).

        With the parameters of the trend and the departures of the others from the trend of all.
        """
        log_weight = gaussian_log_weights(self.place, self.place)
        np.fill_diagonal(log_weight, -np.inf)
        log_weight -= log_weight.max(axis=1, keepdims=True)
        return self._departed(self.trend.held_out, log_weight)

    def of_others(self, kept: Indices, states: Floats, trend: Trend) -> Centre:
        """The centre that some of the known contexts make, with a trend that was fitted to them.

        Parameters
        ----------
        kept : ndarray of int
        states : ndarray, (len(kept), bins, k)
            Their mean measured amounts.
        trend : Trend
        """
        return replace(
            self,
            total=self.total[kept],
            pace=self.pace[kept],
            guessed=self.guessed[kept],
            trend=trend,
            departure=log_ratio(states, trend.predict(trend.contexts)),
            trust=self.trust[kept],
        )

    def log_weights(self, query: Floats) -> Floats:
        """Log of the kernel between contexts and known ones, (q, n_known), 0 for the nearest."""
        return gaussian_log_weights(self.place, self.trend.scaled(query) / self.width)

    def amounts(self, query: Floats, log_weight: Floats) -> Floats:
        """Amounts per bin at contexts whose :meth:`log_weights` are known, (q, bins, k)."""
        return self._departed(self.trend.predict(query), log_weight)

    def _departed(self, fitted: Floats, log_weight: Floats) -> Floats:
        """The trend (q, bins, k) with the local mean of what known contexts depart from it.

        Where the trend takes the time as a whole from its sums, so do departures: bins hold the
        noise of placing counts there, and the mean of noisy logarithms is too low.
        """
        states = fitted * np.exp(_local_mean(log_weight, self._trusted))
        if not self.trend.whole:
            return states
        sums = fitted.sum(axis=1) * np.exp(_local_mean(log_weight, self._trusted_sums)[:, 0])
        states *= (sums / np.maximum(states.sum(axis=1), 1e-300))[:, None]
        return states

    def totals(self, query: Floats) -> Floats:
        """What the clock counts at contexts, (q,)."""
        return self.total_trend.predict(query)[:, 0, 0]

    def to_arrays(self) -> dict[str, tuple[tuple[str, ...], Any]]:
        """Everything but the settings as named arrays with their dimensions."""
        return {
            "total": (("known", "run"), self.total),
            **({"pace": (("known", "run"), self.pace)} if self.scaled else {}),
            **({"guessed": (("known",), self.guessed.astype(float))} if self.guessed.any() else {}),
            "departure": (("known", "bin", "quantity"), self.departure),
            "trust": (("known", "quantity"), self.trust),
            **_with_dims("trend_", self.trend),
            **_with_dims("clock_", self.total_trend),
        }

    @classmethod
    def from_arrays(
        cls,
        stored: StoredArrays,
        contexts: Floats,
        duration: Floats,
        *,
        clock: int,
        bins: int,
        segments: int,
        bandwidth: float,
    ) -> Centre:
        """Undo :meth:`to_arrays`.

        Raises
        ------
        ProfileError
            An array that is missing, of another shape, or of numbers that it cannot hold.
        """
        n = len(contexts)
        total = stored.numbers("total", duration.shape, within=NOT_NEGATIVE, missing=True)
        used = np.isfinite(total)
        stored.want(bool((total[used] > 0).all()), stored.named("total"), 0, "a positive number")
        stored.want(bool(used.any(axis=1).all()), stored.named("total"), "NaN", "a run a context")
        pace, guessed = np.ones(duration.shape), np.zeros(n, dtype=bool)
        if "pace" in stored.arrays:
            pace = stored.numbers("pace", duration.shape, within=POSITIVE)
        if "guessed" in stored.arrays:
            guessed = stored.numbers("guessed", (n,), within=(0.0, 1.0)) != 0
        trend = _stored_trend(stored.part("trend_"), contexts, bins, None)
        k = trend.mean.shape[0]
        stored.want(0 <= clock <= k, "clock", clock, f"0 to {k}")
        return cls(
            clock,
            segments,
            bandwidth,
            total,
            pace,
            guessed,
            trend,
            _stored_trend(stored.part("clock_"), contexts, 1, 1),
            stored.numbers("departure", (n, bins, k), within=LOGARITHMS),
            stored.numbers("trust", (n, k), within=(0.0, 1.0)),
        )


def _with_dims(prefix: str, trend: Trend) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
    return {
        f"{prefix}{key}": (tuple(f"{prefix}{key}_{i}" for i in range(array.ndim)), array)
        for key, array in trend.to_arrays().items()
    }


# Arrays of a trend by their axes: known contexts n, resources m, quantities q, bins b, caps c.
_TREND_AXES = {
    "contexts": "nm", "lengths": "qm", "nugget": "q", "offset": "q", "mean": "qb", "lowest": "qb",
    "highest": "qb", "coefficients": "qnb", "states": "nbq", "weights": "n", "cap_rate": "c",
    "cap_width": "c", "cap_gain": "c", "cap_nugget": "c", "cap_lengths": "cm", "cap_mean": "cb",
    "cap_highest": "cb", "cap_coefficients": "cnb",
}  # fmt: skip
_TREND_RANGES = {
    **dict.fromkeys(("weights", "lengths", "cap_rate", "cap_width", "cap_lengths"), POSITIVE),
    **dict.fromkeys(("nugget", "offset", "states", "cap_gain", "cap_nugget"), NOT_NEGATIVE),
    **dict.fromkeys(("mean", "lowest", "highest", "cap_mean", "cap_highest"), LOGARITHMS),
}
_NOT_ALWAYS_MEASURED = {"states"}


def _stored_trend(
    stored: StoredArrays, contexts: Floats, bins: int, quantities: int | None
) -> Trend:
    """The trend of a file, of so many bins and quantities (None for any number)."""
    n, m = contexts.shape
    q = stored.numbers("nugget", (quantities,)).size
    c = stored.numbers("cap_rate", (None,)).size
    sizes = {"n": n, "m": m, "q": q, "b": bins, "c": c}
    stored.want(q > 0, "number of quantities", q, "1 or more")
    stored.want(c < 2 and (q > 1 or c == 0), "number of caps", c, "0, or 1 of several quantities")
    arrays: dict[str, NDArray[Any]] = {}
    for name, axes in _TREND_AXES.items():
        shape = (0,) if name.startswith("cap_") and c == 0 else tuple(sizes[a] for a in axes)
        arrays[name] = stored.numbers(
            name,
            shape,
            within=_TREND_RANGES.get(name, ANY),
            missing=name in _NOT_ALWAYS_MEASURED,
        )
    stored.want(
        bool((arrays["contexts"] == contexts).all()),
        stored.named("contexts"),
        "others",
        "the model's",
    )
    form = stored.indices("form", (), below=len(FORMS))
    coordinates = stored.indices("coordinates", (m,), below=len(COORDINATES))
    curved = coordinates != COORDINATES.index("linear")
    stored.want(
        bool((contexts[:, curved] > 0).all()),
        stored.named("coordinates"),
        coordinates,
        "linear at 0",
    )
    counter = stored.indices("cap_counter", (c,), below=q)
    stored.want(
        bool((counter > 0).all()), stored.named("cap_counter"), counter, "a counter, not time"
    )
    resource = stored.indices("cap_resource", (c,), below=m)
    stored.want(
        bool((contexts[:, resource] > 0).all()),
        stored.named("cap_resource"),
        resource,
        "levels > 0",
    )
    own: dict[str, NDArray[Any]] = {"form": form, "coordinates": coordinates}
    own |= {"cap_counter": counter, "cap_resource": resource}
    part = stored.part("whole_")
    if part.arrays:
        whole = _stored_trend(part, contexts, 1, q)
        own |= {f"whole_{name}": array for name, array in whole.to_arrays().items()}
    law = stored.part("joint_")
    if law.arrays:
        stored.want(bool(part.arrays), stored.named("joint_parts"), "alone", "a trend of the sums")
        parts = law.numbers("parts", (m + q, bins), within=NOT_NEGATIVE)
        stored.want(
            bool((contexts[:, parts[:m].any(axis=1)] > 0).all()),
            law.named("parts"), "of a level of 0", "levels > 0",
        )  # fmt: skip
        own["joint_parts"] = parts
        own["joint_width"] = law.numbers("width", (bins,), within=POSITIVE)
        own["joint_common"] = law.numbers("common", (m + q + 1,), within=NOT_NEGATIVE)
        own["joint_summed"] = law.numbers("summed", (q - 1,), within=(0.0, 1.0))
    return Trend.from_arrays({**arrays, **own})


def _width(trend: Trend, bandwidth: float) -> Floats:
    """Of the kernel over contexts, in the coordinates of the trend: one a resource.

    Few contexts lie farther apart than Scott's rule reaches: a kernel much narrower than their
    spacing would know the nearest one only.
    """
    known = trend.scaled(trend.contexts)
    varies = np.ptp(known, axis=0) > 0
    per_resource = len(known) ** (1.0 / max(varies.sum(), 1))
    least = np.where(varies, _LEAST_SPACINGS / max(per_resource - 1.0, 1.0), 0.0)
    return bandwidth * np.maximum(scott_bandwidth(known), least)


def _local_mean(log_weight: Floats, departure: Floats) -> Floats:
    """Kernel mean of the departures (n_known, bins, k), log weights (q, n_known): (q, bins, k)."""
    weight = np.exp(log_weight)
    weight /= weight.sum(axis=1, keepdims=True)
    mean = weight @ departure.reshape(len(departure), -1)
    return mean.reshape(len(weight), *departure.shape[1:])


def confirmed(place: Floats, departure: Floats, weight: Floats) -> Floats:
    """Share of single runs' departures that is their context's and not noise, (k,).

    What the local mean of all other contexts has to be multiplied by to predict a departure best,
    in least squares with the given weights (n_known, bins, k); from 0 to 1.
    """
    if len(place) == 1:
        return np.ones(departure.shape[2])
    log_weight = gaussian_log_weights(place, place)
    np.fill_diagonal(log_weight, -np.inf)
    others = _local_mean(log_weight - log_weight.max(axis=1, keepdims=True), departure)
    agreement = (weight * departure * others).sum(axis=(0, 1))
    return np.clip(agreement / np.maximum((weight * others**2).sum(axis=(0, 1)), 1e-300), 0, 1)


def log_ratio(own: Floats, expected: Floats, typical: Floats | None = None) -> Floats:
    """Log of measured over fitted amounts, (n, bins, k), both kept from zero.

    The floor is a thousandth of the quantity's typical amount (k,), by default the mean fitted
    one: below it counts are rounding, and their logarithm would be noise without bound.
    """
    floor = np.maximum(1e-3 * (expected.mean(axis=(0, 1)) if typical is None else typical), 1e-300)
    return np.log(np.maximum(own, floor) / np.maximum(expected, floor))
