"""What is chosen on held-out contexts, where one knows what should be."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msbgen.trend import search
from msbgen.trend.coordinates import Coordinates
from msbgen.trend.folds import Folds
from msbgen.trend.problem import Problem, offsets
from msbgen.trend.search import LENGTHS, NUGGETS, Search, default_choice


def grid(*levels):
    return np.stack([a.ravel() for a in np.meshgrid(*levels, indexing="ij")], axis=1)


KNOWN = grid([1.0, 2.0, 4.0, 8.0], [1.0, 1.3, 1.6, 2.0])


def searching(states, known=KNOWN, names=("log", "log")):
    z = Coordinates.of(names, known).scaled(known)
    problem = Problem(z, states, np.ones(len(known)), offsets(states, 0.1), Folds.of(known))
    return problem, Search(known, problem)


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
    # limits on predictions, which a search does not know, only bring them closer
    exact = problem.held_out_errors(problem.held_out_logs(choice.parameters))
    found = [place.error for place in choice.places]
    assert np.all(exact <= np.array(found) * (1 + 1e-6))
    if exact.sum() > 0.9 * choice.error:
        np.testing.assert_allclose(exact, found, rtol=0.2)


def test_the_search_ends_where_no_neighbour_is_much_better():
    states = scattered(1, scale=0.02)
    problem, search = searching(states)
    (place, _) = search.improve(default_choice(("log", "log"), "gaussian-process", 2)).places
    values, smoother = problem.centred[..., 0], problem.smoother("gaussian-process")

    def error(lengths, nugget):
        left = smoother.left_out(
            values, problem.noise[..., 0], LENGTHS[lengths], NUGGETS[nugget], problem.folds
        )
        return problem.folds.weight @ left**2 @ problem.share[0]

    steps = [(0, 0, 1), (0, 0, -1), (0, 1, 0), (0, -1, 0), (1, 0, 0), (-1, 0, 0)]
    assert error(list(place.lengths), place.nugget) == pytest.approx(place.error, rel=1e-6)
    for first, second, nugget in steps:
        lengths = [place.lengths[0] + first, place.lengths[1] + second]
        inside = min(lengths) >= 0 and max(lengths) < len(LENGTHS)
        if inside and 0 <= place.nugget + nugget < len(NUGGETS):
            assert error(lengths, place.nugget + nugget) > 0.95 * place.error


def test_a_resource_without_effect_has_the_longer_scale():
    states = np.exp(np.sin(6 * np.log(KNOWN[:, 1:])))[:, None, :] * np.ones((1, 8, 1))
    states *= np.exp(0.001 * np.random.default_rng(0).standard_normal(states.shape))
    _, search = searching(states)
    choice = search.improve(default_choice(("log", "log"), "gaussian-process", 1))
    ((first, second),) = choice.parameters.lengths
    assert first > 2 * second


def test_noise_is_told_from_what_the_context_does():
    nuggets, scatter = [], np.random.default_rng(2).standard_normal((len(KNOWN), 40, 1))
    for scale in (1e-4, 0.3):
        states = np.exp(np.sin(3 * np.log(KNOWN[:, 1:]))[:, None] + scale * scatter)
        _, search = searching(states)
        choice = search.improve(default_choice(("log", "log"), "gaussian-process", 1))
        nuggets.append(choice.parameters.nugget[0])
    assert nuggets[0] < nuggets[1]


@pytest.mark.parametrize("name", ["linear", "reciprocal"])
def test_the_coordinate_in_which_the_logarithm_is_a_line_is_found(name):
    known = grid([1.0, 1.5, 2.2, 3.3, 5.0, 7.5], [1.0, 2.0])
    own = known[:, :1] if name == "linear" else 4.0 / known[:, :1]
    # the zigzag is one of that coordinate's alone
    states = np.exp(0.6 * own + 0.4 * np.sin(2 * own))[:, None] * np.ones((1, 4, 1))
    _, search = searching(states, known)
    start = search.improve(default_choice(("log", "log"), "gaussian-process", 1))
    best = search.improve_coordinates(start)
    assert best.names == (name, "log")
    assert best.error < 0.8 * start.error


def test_what_is_chosen_does_not_depend_on_the_threads(monkeypatch):
    _, one = searching(scattered(3))
    start, found = default_choice(("log", "log"), "gaussian-process", 2), []
    for cores in (1, 4):
        monkeypatch.setattr(search, "available_cores", lambda cores=cores: cores)
        found.append(one.improve_coordinates(one.improve(start)))
    assert found[0] == found[1]


def test_a_quantity_that_never_counted_is_left_where_it_is():
    states = scattered(4)
    states[..., 1] = 0.0
    _, search = searching(states)
    start = default_choice(("log", "log"), "gaussian-process", 2)
    place = search.improve(start).places[1]
    assert (place.lengths, place.nugget) == (start.places[1].lengths, start.places[1].nugget)
    assert place.error == 0.0


def test_bins_that_were_not_measured_take_no_part():
    states = scattered(8, bins=6, scale=0.05)
    holes = states.copy()
    holes[5, 2:, 0] = np.nan
    _, search = searching(holes)
    choice = search.improve(default_choice(("log", "log"), "gaussian-process", 2))
    assert np.isfinite(choice.error)
