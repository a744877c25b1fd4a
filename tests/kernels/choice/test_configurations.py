"""Programs over configurations: what conditioning gives, what left-out families choose."""

import dataclasses
import warnings

import numpy as np
import pytest

from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.kernels.choice import configurations
from msbgen.kernels.choice.configurations import ConfigurationModel
from msbgen.kernels.choice.costs import Costs

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


def asked(costs, row, given):
    time, power = np.full((2, costs.contexts.shape[0]), np.nan)
    time[given], power[given] = costs.time[row, given], costs.power[row, given]
    return time, power


def test_two_clocks_tell_the_others_and_beat_one():
    others, _ = programs(40, noise=0.002)
    new, _ = programs(8, seed=1)
    model = ConfigurationModel().fit(others)
    errors = []
    for given in ([5], [0, 5]):
        off = [
            np.abs(np.log(model.predict(*asked(new, r, given))[0] / new.time[r])).mean()
            for r in range(8)
        ]
        errors.append(np.mean(off))
    assert errors[1] < 0.01 < errors[0]


def test_conditioning_is_that_of_a_gaussian_with_a_free_scale():
    """Against the limit taken by hand: contrasts of the times, whatever their unit."""
    others, _ = programs(30, noise=0.05)
    new, _ = programs(1, seed=3, noise=0.05)
    model = ConfigurationModel(noise=1e-3).fit(others)
    time, power = asked(new, 0, [1, 4])
    seconds, watts = model.predict(time, power)
    minutes, same = model.predict(time / 60, power)
    np.testing.assert_allclose(minutes * 60, seconds, rtol=1e-4)
    np.testing.assert_allclose(same, watts, rtol=1e-4)
    np.testing.assert_allclose(seconds[[1, 4]], time[[1, 4]])
    mean, covariance = model.likely_.mean, model.likely_.covariance
    # rows: log t4 - log t1, log p1, log p4; the free scale drops out of the first
    pick = np.zeros((3, 12))
    pick[0, [4, 1]] = 1, -1
    pick[1, 7] = pick[2, 10] = 1
    told = np.array([np.log(time[4] / time[1]), np.log(power[1]), np.log(power[4])])
    noise = 1e-3 * np.array([[2, 0, 0], [0, 1, 0], [0, 0, 1]])
    gain = covariance @ pick.T @ np.linalg.inv(pick @ covariance @ pick.T + noise)
    by_hand = mean + gain @ (told - pick @ mean)
    np.testing.assert_allclose(np.log(watts[[0, 2, 3, 5]]), by_hand[[6, 8, 9, 11]], rtol=2e-3)


def test_an_incomplete_table_is_learned_from():
    others, _ = programs(60, noise=0.001)
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
        seconds, _ = model.predict(*asked(new, row, [0, 5]))
        assert np.abs(np.log(seconds / new.time[row])).max() < 0.03


def test_counters_are_used_where_they_help_alone():
    others, share = programs(40, noise=0.001)
    rng = np.random.default_rng(5)
    model = ConfigurationModel().fit(others, np.hstack([share, rng.random((40, 1))]))
    bare = ConfigurationModel().fit(others, rng.random((40, 2)))
    assert model.uses_counters_
    assert not bare.uses_counters_
    new, own = programs(4, seed=7)
    with_them, without = [], []
    for row in range(4):
        known = asked(new, row, [5])
        seconds, _ = model.predict(*known, np.append(own[row], 0.5))
        with_them.append(np.abs(np.log(seconds / new.time[row])).mean())
        without.append(np.abs(np.log(bare.predict(*known)[0] / new.time[row])).mean())
    assert np.mean(with_them) < 0.5 * np.mean(without)
    with pytest.raises(ArgumentError, match="counters are not given"):
        model.predict(*asked(new, 0, [5]))


def test_noise_is_chosen_by_left_out_families():
    quiet, loud = (programs(40, noise=n)[0] for n in (1e-4, 0.1))
    assert ConfigurationModel().fit(quiet).noise_ < ConfigurationModel().fit(loud).noise_


def test_what_to_measure_next_lies_far_from_what_is_known():
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


def test_a_resource_that_the_others_lack():
    others, _ = programs(30, noise=0.002)
    batches = np.array([1.0, 2, 4, 8])
    contexts = np.array([(f, b) for f in CLOCKS for b in batches])
    time = (0.7 / contexts[:, 0] + 0.15) * contexts[:, 1] ** 0.9
    watts = 10 + 2 * contexts[:, 0] ** 3
    model = ConfigurationModel().fit(others, resources=("clock", "batch"), contexts=contexts)
    given = model.design(6)
    known, power = np.full((2, len(contexts)), np.nan)
    known[given], power[given] = time[given], watts[given]
    seconds, said = model.predict(known, power)
    assert np.abs(np.log(seconds / time)).mean() < 0.03
    assert np.abs(np.log(said / watts)).mean() < 0.05


def test_clocks_between_those_of_the_others():
    others, _ = programs(30, noise=0.001)
    _, share = programs(3, seed=4)
    between = np.array([[0.65], [1.25], [2.0]])
    model = ConfigurationModel().fit(others, contexts=between)
    truth = share[0] / between[:, 0] + (1 - share[0]) / 2
    seconds, _ = model.predict(np.array([truth[0], np.nan, truth[2]]), np.full(3, np.nan))
    assert abs(np.log(seconds[1] / truth[1])) < 0.03


def test_a_level_of_zero_counts_where_nothing_is_asked_between_or_beside():
    others, _ = programs(10)
    idle = np.concatenate([[[0.0]], others.contexts[1:]])
    others = dataclasses.replace(others, contexts=idle)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = ConfigurationModel().fit(others)
    assert np.isfinite(model.predict(*asked(others, 0, [5]))[0]).all()
    between = np.append(idle, [[0.1]], axis=0)
    with pytest.raises(MeasurementError, match="'clock' is 0 in a configuration; a positive"):
        ConfigurationModel().fit(others, contexts=between)
    beside = np.column_stack([idle, np.ones(len(idle))])
    with pytest.raises(MeasurementError, match="'clock' is 0 in a configuration; a positive"):
        ConfigurationModel().fit(others, resources=("clock", "batch"), contexts=beside)


def test_intervals_hold_the_mean_and_are_nothing_where_it_was_measured():
    others, _ = programs(30, noise=0.01)
    model = ConfigurationModel().fit(others)
    time, power = asked(others, 0, [5])
    low, high = model.predict_interval(time, power)
    middle = np.stack(model.predict(time, power))
    assert (low <= middle + 1e-12).all()
    assert (middle <= high + 1e-12).all()
    np.testing.assert_allclose(low[:, 5], high[:, 5])
    assert (high[:, :5] > low[:, :5]).all()


def test_what_cannot_be_learned_is_refused():
    others, _ = programs(10)
    model = ConfigurationModel()
    nothing = np.full(6, np.nan)
    with pytest.raises(ArgumentError, match="not fitted"):
        model.predict(nothing, nothing)
    with pytest.raises(MeasurementError, match="nothing was measured of the program"):
        model.fit(others).predict(nothing, nothing)
    with pytest.raises(MeasurementError, match=f"other programs are {others.programs[0]}; two"):
        model.fit(others.take([0]))
    with pytest.raises(ArgumentError, match="noise is -1"):
        ConfigurationModel(noise=-1.0).fit(others)
    with pytest.raises(ArgumentError, match="counters is 'maybe'"):
        ConfigurationModel(counters="maybe").fit(others)
    with pytest.raises(ArgumentError, match="clock, which the others were measured over"):
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
    with pytest.raises(MeasurementError, match=r"measured in clock=\S+ \S+ alone; two contexts"):
        model.fit(alone, contexts=others.contexts)


def test_what_is_believed_is_what_is_predicted():
    others, _ = programs(20, noise=0.01)
    model = ConfigurationModel().fit(others)
    given = asked(others, 0, [1, 4])
    belief = model.believe(*given)
    np.testing.assert_allclose(np.exp(belief.logs[[0, 2]]), model.predict(*given))
    low, high = model.predict_interval(*given, deviations=1.0)
    np.testing.assert_allclose(np.log(high / low)[0, [0, 5]], 2 * belief.deviations[0, [0, 5]])


def bent(costs, seed):
    """The same programs, each with a smooth bend of its own that no mixture of others has."""
    rng = np.random.default_rng(seed)
    place = np.linspace(-1, 1, len(CLOCKS))
    shapes = np.array([place**2, place**3, place**4])
    bend = np.exp(0.1 * rng.standard_normal((len(costs.programs), 3)) @ shapes)
    return dataclasses.replace(costs, time=costs.time * bend, energy=costs.energy * bend)


def mean_error(model, new, given):
    n = len(new.programs)
    said = np.array([model.predict(*asked(new, r, given))[0] for r in range(n)])
    return np.abs(np.log(said / new.time)).mean()


def test_programs_that_bend_as_no_other_does_are_met_better_where_they_may_depart(monkeypatch):
    few, _ = programs(4, noise=0.003, families=4)
    others, new = bent(few, 0), bent(programs(20, seed=1)[0], 2)
    free = ConfigurationModel().fit(others)
    assert free.departure_ > 0
    monkeypatch.setattr(configurations, "DEPARTURES", ())
    bound = ConfigurationModel().fit(others)
    assert bound.departure_ == 0
    given = [0, 2, 3, 5]
    assert mean_error(free, new, given) < 0.8 * mean_error(bound, new, given)


def test_departures_are_positive_definite_and_leave_what_was_measured():
    others = bent(programs(8, noise=0.003)[0], 0)
    model = ConfigurationModel().fit(others)
    n = 2 * len(CLOCKS)
    spectrum = np.linalg.eigvalsh(model.likely_.covariance[:n, :n])
    assert spectrum.min() > -1e-12
    time, power = asked(others, 0, [1, 5])
    seconds, watts = model.predict(time, power)
    np.testing.assert_allclose(seconds[[1, 5]], time[[1, 5]])
    np.testing.assert_allclose(watts[[1, 5]], power[[1, 5]])


def test_the_order_of_configurations_does_not_matter_to_departures():
    others = bent(programs(8, noise=0.003)[0], 0)
    order = np.array([3, 0, 4, 1, 2, 5])  # the highest stays the last
    turned = dataclasses.replace(
        others,
        contexts=others.contexts[order],
        time=others.time[:, order],
        energy=others.energy[:, order],
    )
    straight, mixed = (ConfigurationModel().fit(costs) for costs in (others, turned))
    for name in ("noise_", "departure_", "reach_"):
        assert getattr(straight, name) == getattr(mixed, name)


def test_levels_of_which_one_is_zero_are_placed_as_they_are():
    others = programs(8, noise=0.003)[0]
    costs = dataclasses.replace(others, contexts=others.contexts - CLOCKS[0])
    model = ConfigurationModel().fit(costs)
    time, power = asked(costs, 0, [0, 5])
    assert np.isfinite(model.predict(time, power)).all()
