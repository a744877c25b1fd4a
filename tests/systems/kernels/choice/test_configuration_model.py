"""Programs over configurations: conditioning, and settings chosen by left-out families."""

import dataclasses
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.systems.kernels.choice import configuration_model
from msbgen.systems.kernels.choice.configuration_model import ConfigurationModel
from msbgen.systems.kernels.choice.costs import Costs
from msbgen.systems.kernels.choice.prior import LEVEL_VARIANCE, LeftOutFamilies, fit_prior

CLOCKS = np.array([0.5, 0.8, 1.1, 1.4, 1.7, 2.0])


def programs(count, *, noise=0.0, seed=0, families=4):
    """Time = work × (share/f + rest); watts = base + share × f³."""
    rng = np.random.default_rng(seed)
    work, share = np.exp(rng.normal(0, 2, (count, 1))), rng.uniform(0.1, 1, (count, 1))
    time = work * (share / CLOCKS + (1 - share) / 2)
    watts = rng.uniform(8, 12, (count, 1)) + 3 * share * CLOCKS**3
    time, watts = (x * np.exp(noise * rng.standard_normal(x.shape)) for x in (time, watts))
    names = tuple(f"p{i}" for i in range(count))
    kin = tuple(f"f{i % families}" for i in range(count))
    made = Costs(names, kin, ("clock",), ("GHz",), CLOCKS[:, None], time, time * watts)
    return made, share


def measurements(costs, row, measured):
    time, power = np.full((2, costs.contexts.shape[0]), np.nan)
    time[measured] = costs.time[row, measured]
    power[measured] = costs.power[row, measured]
    return time, power


def test_conditioning_is_that_of_a_gaussian_with_a_flat_prior_of_the_level():
    """Against the limit by hand: contrasts of the times, in any unit."""
    others, _ = programs(30, noise=0.05)
    new, _ = programs(1, seed=3, noise=0.05)
    model = ConfigurationModel(noise=1e-3).fit(others)
    time, power = measurements(new, 0, [1, 4])
    seconds, watts = model.predict(time, power)
    minutes, same = model.predict(time / 60, power)
    np.testing.assert_allclose(minutes * 60, seconds, rtol=1e-4)
    np.testing.assert_allclose(same, watts, rtol=1e-4)
    np.testing.assert_allclose(seconds[[1, 4]], time[[1, 4]])
    mean, covariance = model.prior_.mean, model.prior_.covariance
    # rows: log t4 - log t1, log p1, log p4; the level drops out of the first
    pick = np.zeros((3, 12))
    pick[0, [4, 1]] = 1, -1
    pick[1, 7] = pick[2, 10] = 1
    observed = np.array([np.log(time[4] / time[1]), np.log(power[1]), np.log(power[4])])
    noise = 1e-3 * np.array([[2, 0, 0], [0, 1, 0], [0, 0, 1]])
    gain = covariance @ pick.T @ np.linalg.inv(pick @ covariance @ pick.T + noise)
    by_hand = mean + gain @ (observed - pick @ mean)
    np.testing.assert_allclose(np.log(watts[[0, 2, 3, 5]]), by_hand[[6, 8, 9, 11]], rtol=2e-3)


def test_an_incomplete_table_can_be_fitted():
    others, _ = programs(25, noise=0.001)
    rng = np.random.default_rng(0)
    gone = rng.random(others.time.shape) < 0.2
    gone[:, 5] = False
    time, energy = (np.where(gone, np.nan, x) for x in (others.time, others.energy))
    holes = Costs(
        others.programs, others.families, others.resources, others.units, others.contexts,
        time, energy,
    )  # fmt: skip
    new, _ = programs(6, seed=2)
    model = ConfigurationModel().fit(holes)
    for row in range(6):
        seconds, _ = model.predict(*measurements(new, row, [0, 5]))
        assert np.abs(np.log(seconds / new.time[row])).max() < 0.03


def test_counters_are_used_only_where_they_help():
    others, share = programs(40, noise=0.001)
    rng = np.random.default_rng(5)
    model = ConfigurationModel().fit(others, np.hstack([share, rng.random((40, 1))]))
    bare = ConfigurationModel().fit(others, rng.random((40, 2)))
    assert model.uses_counters_
    assert not bare.uses_counters_
    new, new_share = programs(4, seed=7)
    with_them, without = [], []
    for row in range(4):
        known = measurements(new, row, [5])
        seconds, _ = model.predict(*known, np.append(new_share[row], 0.5))
        with_them.append(np.abs(np.log(seconds / new.time[row])).mean())
        without.append(np.abs(np.log(bare.predict(*known)[0] / new.time[row])).mean())
    assert np.mean(with_them) < 0.5 * np.mean(without)
    with pytest.raises(ArgumentError, match="counters are missing"):
        model.predict(*measurements(new, 0, [5]))


def test_noise_is_chosen_by_left_out_families():
    quiet, loud = (programs(40, noise=n)[0] for n in (1e-4, 0.1))
    assert ConfigurationModel().fit(quiet).noise_ < ConfigurationModel().fit(loud).noise_


def test_the_next_configuration_lies_far_from_the_measured_ones():
    others, _ = programs(40, noise=0.003)
    model = ConfigurationModel().fit(others)
    design = model.design(3)
    assert design[0] == 5
    assert len(set(design.tolist())) == 3
    known = np.zeros(6, dtype=bool)
    known[5] = True
    assert model.next_configuration(known) == design[1]
    with pytest.raises(ArgumentError, match="all configurations are measured"):
        model.next_configuration(np.ones(6, dtype=bool))
    with pytest.raises(ArgumentError, match="count is 7; a number from 1 to 6"):
        model.design(7)


def test_a_resource_that_other_programs_lack_is_predicted():
    others, _ = programs(30, noise=0.002)
    batches = np.array([1.0, 2, 4, 8])
    contexts = np.array([(f, b) for f in CLOCKS for b in batches])
    time = (0.7 / contexts[:, 0] + 0.15) * contexts[:, 1] ** 0.9
    watts = 10 + 2 * contexts[:, 0] ** 3
    model = ConfigurationModel().fit(others, resources=("clock", "batch"), contexts=contexts)
    measured = model.design(6)
    known, power = np.full((2, len(contexts)), np.nan)
    known[measured], power[measured] = time[measured], watts[measured]
    seconds, predicted_watts = model.predict(known, power)
    assert np.abs(np.log(seconds / time)).mean() < 0.03
    assert np.abs(np.log(predicted_watts / watts)).mean() < 0.05


def test_clocks_between_those_of_other_programs_are_predicted():
    others, _ = programs(30, noise=0.001)
    _, share = programs(3, seed=4)
    between = np.array([[0.65], [1.25], [2.0]])
    model = ConfigurationModel().fit(others, contexts=between)
    truth = share[0] / between[:, 0] + (1 - share[0]) / 2
    seconds, _ = model.predict(np.array([truth[0], np.nan, truth[2]]), np.full(3, np.nan))
    assert abs(np.log(seconds[1] / truth[1])) < 0.03


def test_a_level_of_zero_is_refused_only_where_it_is_interpolated():
    others, _ = programs(10)
    idle = np.concatenate([[[0.0]], others.contexts[1:]])
    others = dataclasses.replace(others, contexts=idle)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = ConfigurationModel().fit(others)
    assert np.isfinite(model.predict(*measurements(others, 0, [5]))[0]).all()
    between = np.append(idle, [[0.1]], axis=0)
    with pytest.raises(MeasurementError, match="'clock' is 0 in a configuration; a positive"):
        ConfigurationModel().fit(others, contexts=between)
    beside = np.column_stack([idle, np.ones(len(idle))])
    with pytest.raises(MeasurementError, match="'clock' is 0 in a configuration; a positive"):
        ConfigurationModel().fit(others, resources=("clock", "batch"), contexts=beside)


def test_intervals_and_the_posterior_agree_with_predictions():
    others, _ = programs(30, noise=0.01)
    model = ConfigurationModel().fit(others)
    known = measurements(others, 0, [1, 5])
    low, high = model.predict_interval(*known, deviations=1.0)
    middle = np.stack(model.predict(*known))
    assert (low <= middle + 1e-12).all()
    assert (middle <= high + 1e-12).all()
    np.testing.assert_allclose(low[:, [1, 5]], high[:, [1, 5]])
    np.testing.assert_allclose(middle[:, [1, 5]], [x[[1, 5]] for x in known])
    rest = [0, 2, 3, 4]
    assert (high[:, rest] > low[:, rest]).all()
    posterior = model.posterior(*known)
    np.testing.assert_allclose(np.exp(posterior.logs[[0, 2]]), middle)
    half = posterior.deviations[[0, 2]][:, rest]
    np.testing.assert_allclose(np.log(high / low)[:, rest], 2 * half)


def test_arguments_that_cannot_be_fitted_are_refused():
    others, _ = programs(10)
    model = ConfigurationModel()
    nothing = np.full(6, np.nan)
    with pytest.raises(ArgumentError, match="not fitted"):
        model.predict(nothing, nothing)
    with pytest.raises(MeasurementError, match="the program was measured in no configuration"):
        model.fit(others).predict(nothing, nothing)
    with pytest.raises(MeasurementError, match=f"other programs are {others.programs[0]}; at"):
        model.fit(others.take([0]))
    with pytest.raises(ArgumentError, match="noise is -1"):
        ConfigurationModel(noise=-1.0).fit(others)
    with pytest.raises(ArgumentError, match="counters is 'maybe'"):
        ConfigurationModel(counters="maybe").fit(others)
    with pytest.raises(ArgumentError, match="clock, a resource of the other programs, is missing"):
        model.fit(others, resources=("batch",), contexts=np.ones((2, 1)))
    where = others.describe(1)
    with pytest.raises(MeasurementError, match=f"no other program has a time in {where}; measure"):
        model.fit(others.only([0, 2, 3, 4, 5]))
    bare = np.full((len(others.programs), 1), np.nan)
    with pytest.raises(
        MeasurementError, match="no other program has counter 0; count it, or leave"
    ):
        ConfigurationModel(counters="yes").fit(others, bare)
    alone = others.take(np.arange(len(others.programs)))
    alone = dataclasses.replace(
        alone, contexts=alone.contexts[:1], time=alone.time[:, :1], energy=alone.energy[:, :1]
    )
    with pytest.raises(MeasurementError, match=r"measured in clock=\S+ \S+ only; two contexts"):
        model.fit(alone, contexts=others.contexts)


def bent(costs, seed):
    """The same programs, each with a different smooth bend that no mixture of others has."""
    rng = np.random.default_rng(seed)
    place = np.linspace(-1, 1, len(CLOCKS))
    shapes = np.array([place**2, place**3, place**4])
    bend = np.exp(0.1 * rng.standard_normal((len(costs.programs), 3)) @ shapes)
    return dataclasses.replace(costs, time=costs.time * bend, energy=costs.energy * bend)


def mean_error(model, new, measured):
    rows = range(len(new.programs))
    predicted = np.array([model.predict(*measurements(new, r, measured))[0] for r in rows])
    return np.abs(np.log(predicted / new.time)).mean()


def test_departures_predict_programs_better_that_differ_from_all_others(monkeypatch):
    few, _ = programs(4, noise=0.003, families=4)
    others, new = bent(few, 0), bent(programs(20, seed=1)[0], 2)
    departing = ConfigurationModel().fit(others)
    assert departing.departure_ > 0
    n = 2 * len(CLOCKS)
    assert np.linalg.eigvalsh(departing.prior_.covariance[:n, :n]).min() > -1e-12
    monkeypatch.setattr(configuration_model, "DEPARTURES", ())
    plain = ConfigurationModel().fit(others)
    assert plain.departure_ == 0
    measured = [0, 2, 3, 5]
    assert mean_error(departing, new, measured) < 0.8 * mean_error(plain, new, measured)


def test_families_have_the_same_weight_for_any_number_of_programs():
    rows = np.log(np.array([[1.0, 2.0, 5.0, 6.0]] * 9 + [[1.0, 4.0, 9.0, 6.0]]))
    family = np.array([0] * 9 + [1])
    prior = fit_prior(rows, family, 2)
    np.testing.assert_allclose(prior.mean[2], (np.log(5) + np.log(9)) / 2)
    np.testing.assert_allclose(prior.mean[1] - prior.mean[0], (np.log(2) + np.log(4)) / 2)


def slow_error(priors, rows, observed, family, chosen, width, noise):
    """Row by row: its expectation given some configurations, and all counters."""
    errors = []
    for f, prior in enumerate(priors):
        covariance = prior.covariance.copy()
        covariance[:width, :width] += LEVEL_VARIANCE
        missed = []
        for row, measured in zip(rows[family == f], observed[family == f]):
            counters = range(2 * width, len(row))
            seen = [*chosen, *(j + width for j in chosen), *counters]
            seen = [j for j in seen if np.isfinite(row[j])]
            inner = covariance[np.ix_(seen, seen)] + np.diag(noise[seen])
            weight = np.linalg.inv(inner) @ (measured - prior.mean)[seen]
            off = np.abs(prior.mean + covariance[:, seen] @ weight - row)[: 2 * width]
            off[[*chosen, *(j + width for j in chosen)]] = 0.0
            missed.extend(off[np.isfinite(off)])
        errors.append(np.mean(missed))
    return np.mean(errors)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2), st.sampled_from([0.0, 0.3]))
def test_errors_agree_with_a_row_by_row_computation(seed, counters, missing):
    rng = np.random.default_rng(seed)
    width, family = 3, rng.permutation([0, 0, 0, 1, 1, 2])
    rows = rng.standard_normal((6, 2 * width + counters))
    priors = [fit_prior(rows[family != f], family[family != f], width) for f in range(3)]
    hidden = rng.random(rows.shape) < missing
    hidden[:, 0] = False
    rows = np.where(hidden, np.nan, rows)
    chosen = rng.permutation(width)[:2]
    measurement = rng.uniform(0, 0.2, rows.shape[1])
    observed = rows + rng.standard_normal(rows.shape)
    left_out = LeftOutFamilies.from_priors(
        priors, rows, family, width, observed=observed, measurement=measurement
    )
    wanted = [
        slow_error(priors, rows, observed, family, chosen, width, noise + measurement)
        for noise in (0.1, 0.001)
    ]
    assert left_out.errors(chosen, width, (0.1, 0.001)) == pytest.approx(wanted, rel=1e-6)


def test_without_left_out_families_the_error_is_infinite():
    none = np.empty((0, 4))
    empty = LeftOutFamilies.from_priors(
        [], none, np.empty(0, dtype=np.int64), 2, observed=none, measurement=np.zeros(4)
    )
    assert list(empty.errors(np.array([1]), 2, (0.1, 1.0))) == [np.inf, np.inf]
