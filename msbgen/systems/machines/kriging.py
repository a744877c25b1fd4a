"""Kriging of log ratios: a Gaussian process over counters, configurations and the source's time.

Standardised, the log ratio of the times on two machines is taken for a Gaussian process whose
covariance between two runs is

    v_0 + κ(z) { v_c c + ρ(w) exp(−r/ℓ_1) (v_1 + v_2 c) + exp(−r/ℓ_2 − |w|/ℓ_3) (v_3 + v_4 c) },

where r is the root mean square difference of their standardised counters, w that of log work, and
z that of log time per unit of work on the source.  κ and ρ are rational quadratic kernels.  The
terms are shared by all runs, by runs of similar programs, and by runs of almost the same program.
c = exp(−‖a − b‖²) is the similarity of configurations, with learned positions a and b.

Lengths ℓ, variances v, positions and noise maximise the marginal likelihood over whole programs,
with weak priors.  The covariance among machines is maximised analytically (Rasmussen and Williams
2006, chapter 5); all other parameters are shared by the machines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from msbgen.core.arrays import LOG_TIMES, LOGARITHMS, POSITIVE, Stored
from msbgen.core.gaussian_process import SeenCovariance, squares_between
from msbgen.core.records import Count, Within, check_fields
from msbgen.systems.machines.features import KrigingFeatures

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Logarithms of the parameters: lengths of r (far, near), z, w (far, near), then v_0, v_c, v_1 to
# v_4, then the noise.  The search starts here, at the mean of the prior.
_START = np.log([5.0, 0.15, 1.5, 5.0, 0.3, 0.2, 0.06, 0.8, 0.5, 0.01, 0.03, 0.002])
_LENGTHS, _PARAMETERS = 5, len(_START)
# Standard deviation of the prior, and the range of the search around the start.
_PRIOR, _FAR = 3.0, 6.0
# Added to the covariance among machines, whose log ratios are standardised.
_RIDGE = 1e-6
# Rows of a block of the covariance matrix, which limits memory.
_AT_A_TIME = 2048


@dataclass(frozen=True)
class KrigingSettings:
    """Sizes of kriging.

    Attributes
    ----------
    tuned : int
        Runs, of whole programs, from which parameters are fitted.
    most : int
        Most runs of the training set; of more, a random sample.
    places : int
        Dimensions of the positions of configurations.
    steps : int
        Most steps of the search for parameters.
    """

    tuned: Annotated[int, Within(2)] = 500
    most: Annotated[int, Within(2)] = 3000
    places: Count = 3
    steps: Count = 60

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, eq=False)
class Field:
    """Outputs with the same training runs."""

    outputs: Annotated[Indices, Stored(("m",), dtype="i8")]  # (m,), their indices
    training: KrigingFeatures  # the training runs, with standardised counters
    # (d,), means and deviations of the counters
    middle: Annotated[Floats, Stored(("d",))]
    spread: Annotated[Floats, Stored(("d",), POSITIVE)]
    # (12,), logarithms of the covariance parameters
    parameters: Annotated[Floats, Stored((_PARAMETERS,), LOGARITHMS)]
    places: Annotated[Floats, Stored(("configuration", "place"))]  # (n_configurations, q)
    weights: Annotated[Floats, Stored(("n", "m"))]  # (n, m)
    # (m,), mean and deviation of each output
    level: Annotated[Floats, Stored(("m",), LOG_TIMES)]
    scale: Annotated[Floats, Stored(("m",), (0.0, LOG_TIMES[1]))]

    def predict(self, runs: KrigingFeatures) -> Floats:
        """Outputs of runs, (n, m)."""
        runs = _standardised(runs, self.middle, self.spread)
        predicted = np.empty((len(runs.work), len(self.outputs)))
        for first in range(0, len(predicted), _AT_A_TIME):
            rows = slice(first, first + _AT_A_TIME)
            pairs = _Pairs.of(runs.some(rows), self.training)
            covariance = _covariance(pairs, self.parameters, self.places)
            predicted[rows] = self.level + covariance @ self.weights * self.scale
        return predicted


@dataclass(frozen=True, eq=False)
class Kriging:
    """Kriging of all outputs from the time on one machine."""

    # one for all outputs, or several where outputs have different training runs
    fields: tuple[Field, ...]

    def predict(self, runs: KrigingFeatures) -> Floats:
        """Outputs of every run, (n, n_outputs)."""
        return self._by_output([field.predict(runs) for field in self.fields])

    def beyond(self, runs: KrigingFeatures) -> NDArray[np.bool_]:
        """Whether runs do more, or less, work than all training runs, (n, n_outputs).

        The smooth process would extrapolate along its slopes there, and overshoot.
        """
        outside = []
        for field in self.fields:
            known = field.training.work
            beyond = (runs.work < known.min()) | (runs.work > known.max())
            outside.append(np.repeat(beyond[:, None], len(field.outputs), axis=1))
        return self._by_output(outside)

    def _by_output(self, columns: list[NDArray[Any]]) -> NDArray[Any]:
        """The columns of all fields in the order of the outputs."""
        order = np.argsort(np.concatenate([field.outputs for field in self.fields]))
        return np.hstack(columns)[:, order]


def fit_kriging(
    runs: KrigingFeatures,
    outputs: Floats,
    program: Indices,
    configurations: int,
    settings: KrigingSettings,
    seed: int,
) -> Kriging:
    """Kriging fitted to outputs (n, n_outputs) of runs.

    A run whose output is NaN is left out of the fit of that output.  `program` (n,) is counted from
    0, `configurations` is their number.
    """
    rng = np.random.default_rng([3, seed])
    known, of = np.unique(np.isfinite(outputs), axis=1, return_inverse=True)
    fields = []
    for k, there in enumerate(known.T):
        which = np.flatnonzero(of.reshape(-1) == k)
        rows = np.flatnonzero(there)
        if len(rows) > settings.most:
            rows = np.sort(rng.choice(rows, settings.most, replace=False))
        fields.append(
            _fit_field(
                runs.some(rows), outputs[np.ix_(rows, which)], which, program[rows],
                configurations, settings, rng,
            )
        )  # fmt: skip
    return Kriging(tuple(fields))


def _fit_field(
    runs: KrigingFeatures,
    outputs: Floats,
    which: Indices,
    program: Indices,
    configurations: int,
    settings: KrigingSettings,
    rng: np.random.Generator,
) -> Field:
    middle, spread = runs.counters.mean(axis=0), _nonzero(runs.counters.std(axis=0))
    training = _standardised(runs, middle, spread)
    level, scale = outputs.mean(axis=0), _nonzero(outputs.std(axis=0))
    targets = (outputs - level) / scale
    some = _some_programs(program, settings.tuned, rng)
    places = rng.normal(0.0, 0.5, (configurations, settings.places))
    parameters, places = _tuned(training.some(some), targets[some], places, settings.steps)
    covariance = _covariance(_Pairs.of(training, training), parameters, places)
    covariance[np.diag_indices_from(covariance)] += np.exp(parameters[-1])
    # in the order of a loaded array, since sums in another order differ in their last bits
    weights = np.ascontiguousarray(SeenCovariance.of(covariance).weights(targets))
    return Field(which, training, middle, spread, parameters, places, weights, level, scale)


def _standardised(runs: KrigingFeatures, middle: Floats, spread: Floats) -> KrigingFeatures:
    return replace(runs, counters=((runs.counters - middle) / spread).astype(np.float32))


def _nonzero(spread: Floats) -> Floats:
    """Standard deviations, with 1 in place of rounding errors."""
    return np.where(spread > 1e-9, spread, 1.0)


def _some_programs(program: Indices, most: int, rng: np.random.Generator) -> Indices:
    """Runs of randomly drawn whole programs, at most `most`, from one program at least."""
    names = rng.permutation(np.unique(program))
    counts = np.cumsum([np.count_nonzero(program == name) for name in names])
    whole = names[: max(1, int(np.searchsorted(counts, most, side="right")))]
    rows = np.flatnonzero(np.isin(program, whole))
    return rows if len(rows) <= most else np.sort(rng.choice(rows, most, replace=False))


# ------------------------------------------------------------------------------ covariance


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Differences between runs, (n, n') each, and their configurations, (n,), (n',)."""

    counters: Floats
    work: Floats
    time: Floats
    one: Indices
    other: Indices

    @classmethod
    def of(cls, one: KrigingFeatures, other: KrigingFeatures) -> _Pairs:
        a, b = one.counters.astype(float), other.counters.astype(float)
        return cls(
            counters=np.sqrt(squares_between(a, b) / max(a.shape[1], 1)),
            work=np.abs(one.work[:, None] - other.work),
            time=np.abs(one.time[:, None] - other.time),
            one=one.configuration,
            other=other.configuration,
        )


@dataclass(frozen=True, eq=False)
class _Terms:
    """Terms of the covariance, (n, n') each; see the formula of this module."""

    alike: Floats
    time: Floats
    far: Floats
    near: Floats


def _terms(pairs: _Pairs, parameters: Floats, places: Floats) -> _Terms:
    far, near, time, work, near_work = np.exp(parameters[:_LENGTHS])
    likeness = np.zeros((len(places) + 1, len(places) + 1))  # the last: unknown
    likeness[:-1, :-1] = _likeness(places)
    kappa = 1.0 / (1.0 + pairs.time**2 / (2.0 * time**2))
    rho = 1.0 / (1.0 + pairs.work**2 / (2.0 * work**2))
    return _Terms(
        alike=likeness[pairs.one][:, pairs.other],
        time=kappa,
        far=kappa * rho * np.exp(-pairs.counters / far),
        near=kappa * np.exp(-pairs.counters / near - pairs.work / near_work),
    )


def _likeness(places: Floats) -> Floats:
    """Similarity of configurations, 1 on the diagonal."""
    return np.exp(-((places[:, None] - places) ** 2).sum(axis=-1))


def _covariance(pairs: _Pairs, parameters: Floats, places: Floats) -> Floats:
    """Covariance without the noise, (n, n')."""
    terms = _terms(pairs, parameters, places)
    c = terms.alike
    v0, vc, v1, v2, v3, v4 = np.exp(parameters[_LENGTHS:-1])
    return v0 + vc * c * terms.time + (v1 + v2 * c) * terms.far + (v3 + v4 * c) * terms.near


# ------------------------------------------------------------------------------ likelihood


def _tuned(
    runs: KrigingFeatures, outputs: Floats, places: Floats, steps: int
) -> tuple[Floats, Floats]:
    """Parameters and positions that maximise the marginal likelihood near the start."""
    from scipy.optimize import minimize

    pairs, shape = _Pairs.of(runs, runs), places.shape

    def cost(x: Floats) -> tuple[float, Floats]:
        value, slope, slopes = _misfit(
            pairs, outputs, x[: len(_START)], x[len(_START) :].reshape(shape)
        )
        return value, np.concatenate([slope, slopes.ravel()])

    start = np.concatenate([_START, places.ravel()])
    reach = np.concatenate([np.full(len(_START), _FAR), np.full(places.size, np.inf)])
    optimum = minimize(
        cost, start, jac=True, method="L-BFGS-B",
        bounds=np.stack([start - reach, start + reach], axis=1), options={"maxiter": steps},
    )  # fmt: skip
    return optimum.x[: len(_START)], optimum.x[len(_START) :].reshape(shape)


def _misfit(
    pairs: _Pairs, outputs: Floats, parameters: Floats, places: Floats
) -> tuple[float, Floats, Floats]:
    """Negative log posterior for each observation, with gradients of parameters and positions."""
    n, m = outputs.shape
    terms = _terms(pairs, parameters, places)
    slopes = _slopes(pairs, terms, parameters)
    noise = np.exp(parameters[-1])
    covariance = _covariance(pairs, parameters, places) + noise * np.eye(n)
    seen = SeenCovariance.of(covariance)
    inverse = seen.precision
    weights = inverse @ outputs
    among = outputs.T @ weights / n + _RIDGE * np.eye(m)
    size = m * seen.half_log_determinant + n / 2.0 * np.linalg.slogdet(among)[1]
    size += (((parameters - _START) / _PRIOR) ** 2).sum() / 2.0 + (places**2).sum() / 2.0
    # derivative by the covariance of each pair
    cost = (m * inverse - weights @ np.linalg.solve(among, weights.T)) / 2.0
    slope = [*((cost * each).sum() for each in slopes), noise * np.trace(cost)]
    slope += (parameters - _START) / _PRIOR**2
    configuration = np.eye(len(places))[pairs.one]
    v = np.exp(parameters[_LENGTHS:-1])
    by_likeness = cost * (v[1] * terms.time + v[3] * terms.far + v[5] * terms.near)
    pull = configuration.T @ by_likeness @ configuration * _likeness(places)
    pull += pull.T
    moves = -2.0 * (pull.sum(axis=1)[:, None] * places - pull @ places) + places
    return float(size) / n / m, np.asarray(slope) / n / m, moves / n / m


def _slopes(pairs: _Pairs, terms: _Terms, parameters: Floats) -> Sequence[NDArray[Any]]:
    """Derivatives of the covariance by the logarithms of all parameters but the noise."""
    far, near, time, work, near_work = np.exp(parameters[:_LENGTHS])
    v0, vc, v1, v2, v3, v4 = np.exp(parameters[_LENGTHS:-1])
    c = terms.alike
    by_configuration, by_far = vc * c * terms.time, (v1 + v2 * c) * terms.far
    by_near = (v3 + v4 * c) * terms.near
    timed = by_configuration + by_far + by_near
    return (
        by_far * pairs.counters / far,
        by_near * pairs.counters / near,
        # of κ = 1 / (1 + z²/2ℓ²) the derivative by log ℓ is κ² z²/ℓ²
        timed * terms.time * pairs.time**2 / time**2,
        by_far * pairs.work**2 / (work**2 + pairs.work**2 / 2.0),
        by_near * pairs.work / near_work,
        np.full_like(c, v0),
        by_configuration,
        v1 * terms.far,
        v2 * c * terms.far,
        v3 * terms.near,
        v4 * c * terms.near,
    )
