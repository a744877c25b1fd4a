"""The choice on left-out contexts, where the right choice is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msbgen.engine.trend import search
from msbgen.engine.trend.coordinates import Coordinates
from msbgen.engine.trend.folds import Folds
from msbgen.engine.trend.problem import Problem, offsets
from msbgen.engine.trend.search import LENGTHS, NUGGETS, ParameterSearch, default_choice
from rooflines import grid

KNOWN = grid([1.0, 2.0, 4.0, 8.0], [1.0, 1.3, 1.6, 2.0])


def searching(states, known=KNOWN, names=("log", "log")):
    z = Coordinates.of(names, known).scaled(known)
    problem = Problem(z, states, np.ones(len(known)), offsets(states, 0.1), Folds.of(known))
    return problem, ParameterSearch(known, problem)


def scattered(seed, bins=4, scale=0.2, k=2):
    rng = np.random.default_rng(seed)
    return np.exp(rng.normal(0, scale, (len(KNOWN), bins, k)) - 0.5 * np.log(KNOWN[:, :1, None]))


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["gaussian-process", "local-linear"]))
def test_the_error_of_a_choice_is_that_of_its_parameters_and_no_worse_than_before(seed, form):
    problem, search = searching(scattered(seed))
    choice = search.improve(default_choice(("log", "log"), form, 2))
    again = search.improve(choice)
    assert again.error <= choice.error
    # limits on predictions, which a search omits, only lower the error
    exact = problem.left_out_errors(problem.left_out_logs(choice.parameters))
    found = [point.error for point in choice.points]
    assert np.all(exact <= np.array(found) * (1 + 1e-6))
    if exact.sum() > 0.9 * choice.error:
        np.testing.assert_allclose(exact, found, rtol=0.2)


def test_the_search_ends_at_a_local_minimum():
    states = scattered(1, scale=0.02)
    problem, search = searching(states)
    (point, _) = search.improve(default_choice(("log", "log"), "gaussian-process", 2)).points
    values, smoother = problem.centred[..., 0], problem.smoother("gaussian-process")

    def error(lengths, nugget):
        left = smoother.left_out(
            values, problem.noise[..., 0], LENGTHS[lengths], NUGGETS[nugget], problem.folds
        )
        return problem.folds.weight @ left**2 @ problem.share[0]

    steps = [(0, 0, 1), (0, 0, -1), (0, 1, 0), (0, -1, 0), (1, 0, 0), (-1, 0, 0)]
    assert error(list(point.lengths), point.nugget) == pytest.approx(point.error, rel=1e-6)
    for first, second, nugget in steps:
        lengths = [point.lengths[0] + first, point.lengths[1] + second]
        inside = min(lengths) >= 0 and max(lengths) < len(LENGTHS)
        if inside and 0 <= point.nugget + nugget < len(NUGGETS):
            assert error(lengths, point.nugget + nugget) > 0.95 * point.error


@pytest.mark.parametrize("name", ["linear", "reciprocal"])
def test_the_coordinate_in_which_the_logarithm_is_a_line_is_found(name):
    known = grid([1.0, 1.5, 2.2, 3.3, 5.0, 7.5], [1.0, 2.0])
    coordinate = known[:, :1] if name == "linear" else 4.0 / known[:, :1]
    # the wave is regular in that coordinate only
    states = np.exp(0.6 * coordinate + 0.4 * np.sin(2 * coordinate))[:, None] * np.ones((1, 4, 1))
    _, search = searching(states, known)
    start = search.improve(default_choice(("log", "log"), "gaussian-process", 1))
    best = search.improve_coordinates(start)
    assert best.names == (name, "log")
    assert best.error < 0.8 * start.error


def test_the_choice_does_not_depend_on_the_threads(monkeypatch):
    _, one = searching(scattered(3))
    start, found = default_choice(("log", "log"), "gaussian-process", 2), []
    for cores in (1, 4):
        monkeypatch.setattr(search, "available_cores", lambda cores=cores: cores)
        found.append(one.improve_coordinates(one.improve(start)))
    assert found[0] == found[1]


def test_a_quantity_that_is_always_zero_keeps_its_point():
    states = scattered(4)
    states[..., 1] = 0.0
    _, search = searching(states)
    start = default_choice(("log", "log"), "gaussian-process", 2)
    point = search.improve(start).points[1]
    assert (point.lengths, point.nugget) == (start.points[1].lengths, start.points[1].nugget)
    assert point.error == 0.0
