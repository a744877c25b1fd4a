"""Other predictors of durations by setting, from the mean durations of the known settings.

Each takes known levels (n, m), their durations (n,) [s] and asked levels (q, m), and returns the
asked durations (q,) [s].
"""

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import LinearNDInterpolator, NearestNDInterpolator
from scipy.optimize import nnls

Floats = NDArray[np.float64]
Peer = Callable[[Floats, Floats, Floats], Floats]


def linear(levels: Floats, seconds: Floats, asked: Floats) -> Floats:
    """Linear interpolation; over triangles of scaled levels where there are two resources."""
    if levels.shape[1] == 1:
        order = np.argsort(levels[:, 0])
        return np.interp(asked[:, 0], levels[order, 0], seconds[order])
    low, span = levels.min(axis=0), np.ptp(levels, axis=0)
    known, wanted = (levels - low) / span, (asked - low) / span
    inside = LinearNDInterpolator(known, seconds)(wanted)
    nearest = NearestNDInterpolator(known, seconds)(wanted)
    return np.where(np.isfinite(inside), inside, nearest)


def log_log(levels: Floats, seconds: Floats, asked: Floats) -> Floats:
    """Linear interpolation of logarithms over logarithms."""
    return np.exp(linear(np.log(levels), np.log(seconds), np.log(asked)))


def law(levels: Floats, seconds: Floats, asked: Floats) -> Floats:
    """Least relative squares of a + b/x + cx with a, b, c ≥ 0 and one x for each resource."""

    def terms(at: Floats) -> Floats:
        return np.hstack([np.ones((len(at), 1)), 1 / at, at / levels.max(axis=0)])

    coefficients, _ = nnls(terms(levels) / seconds[:, None], np.ones(len(seconds)))
    return terms(asked) @ coefficients


def gaussian_process(levels: Floats, seconds: Floats, asked: Floats) -> Floats:
    """A Gaussian process of logarithms, fitted by marginal likelihood: Matérn 5/2 plus noise."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    z = np.log(levels)
    middle, scale = z.mean(axis=0), z.std(axis=0)
    matern = Matern([1.0] * levels.shape[1], (1e-1, 1e2), nu=2.5)
    kernel = ConstantKernel(1.0) * matern + WhiteKernel(1e-4, (1e-7, 1e-1))
    process = GaussianProcessRegressor(
        kernel, normalize_y=True, n_restarts_optimizer=2, random_state=0
    )
    with warnings.catch_warnings(action="ignore"):  # of an optimum at the edge of its box
        process.fit((z - middle) / scale, np.log(seconds))
    return np.exp(process.predict((np.log(asked) - middle) / scale))


def extra_p(levels: Floats, seconds: Floats, asked: Floats) -> Floats:
    """The performance model of Extra-P, with negative exponents allowed (Calotoiu et al., 2013)."""
    from extrap.entities.callpath import Callpath
    from extrap.entities.coordinate import Coordinate
    from extrap.entities.experiment import Experiment
    from extrap.entities.measurement import Measurement
    from extrap.entities.metric import Metric
    from extrap.entities.parameter import Parameter
    from extrap.modelers.model_generator import ModelGenerator

    experiment, place, metric = Experiment(), Callpath("program"), Metric("time")
    for j in range(levels.shape[1]):
        experiment.add_parameter(Parameter(f"x{j}"))
    experiment.add_callpath(place)
    experiment.add_metric(metric)
    for row, value in zip(levels.tolist(), seconds.tolist()):
        experiment.add_coordinate(Coordinate(*row))
        experiment.add_measurement(Measurement(Coordinate(*row), place, metric, [value]))
    generator = ModelGenerator(experiment)
    modeler = generator.modeler
    getattr(modeler, "single_parameter_modeler", modeler).allow_negative_exponents = True
    with warnings.catch_warnings(action="ignore"):  # of few points for each parameter
        generator.model_all()
    function = generator.models[place, metric].hypothesis.function
    return function.evaluate(asked.T)


PEERS: dict[str, Peer] = {
    "linear": linear,
    "log-log": log_log,
    "a + b/x + cx": law,
    "Gaussian process": gaussian_process,
    "Extra-P": extra_p,
}
