from copy import copy
from dataclasses import replace

import numpy as np
import pytest

from msbgen.core.errors import ArgumentError, MeasurementError, ProfileError
from msbgen.systems.graphs.devices import device_contexts
from msbgen.systems.graphs.predictor.factors import Factors
from msbgen.systems.graphs.predictor.forecaster import GraphForecaster
from msbgen.systems.graphs.predictor.predictor import GraphPredictor
from toy_board import FEW, GRAPHS, TRUE, cores_law, device_of, runs_of


def errors(predictor, runs, device, answer="predict"):
    found = []
    for i in range(runs.sizes["run"]):
        one = runs.isel(run=i)
        context = [float(one[c]) for c in device.columns]
        question = predictor.prepare(GRAPHS[str(one["graph"].values)], device)
        predicted = getattr(question, answer)(
            question.rows([context]), temperature=float(one["start_temperature"])
        )
        truth = np.array([float(one["makespan"]), float(one["energy"])])
        found.append(np.log(predicted[0, :2] / truth))
    return np.array(found)


def test_schedules_with_factors_and_residual_predict_new_runs(fitted, two, kinds):
    new = runs_of(two[0], kinds, 30, seed=9, law=cores_law)
    alone, both = (
        np.sqrt((errors(fitted, new, two[0], how) ** 2).mean(axis=0))
        for how in ("scheduled", "predict")
    )
    assert np.all(both < 0.05)
    assert both[0] < alone[0]
    assert fitted.residual_[0].weight[0] > 0.3


def test_intervals_cover_new_runs_at_about_the_nominal_rate(fitted, two, kinds):
    new = runs_of(two[0], kinds, 100, seed=9, law=cores_law)
    inside = []
    for i in range(100):
        one = new.isel(run=i)
        low, high = fitted.predict_interval(
            GRAPHS[str(one["graph"].values)],
            two[0],
            [[float(one[c]) for c in two[0].columns]],
            0.1,
            temperature=float(one["start_temperature"]),
        )
        truth = np.array([float(one["makespan"]), float(one["energy"])])
        inside.append((low[0] <= truth) & (truth <= high[0]))
    assert np.all(np.mean(inside, axis=0) > 0.8)
    wider = fitted.predict_interval(GRAPHS["family01"], two[0], [two[0].largest], 0.05)
    narrow = fitted.predict_interval(GRAPHS["family01"], two[0], [two[0].largest], 0.2)
    assert np.all(wider[0] <= narrow[0])
    assert np.all(wider[1] >= narrow[1])


def test_a_device_never_measured_is_predicted_but_not_bounded(fitted, kinds):
    new = device_of("new", base_power=3.0)
    predicted = fitted.predict(GRAPHS["family01"], new, [new.largest])
    assert np.all(predicted > 0)
    with pytest.raises(MeasurementError, match="no run is of the device 'new'"):
        fitted.predict_interval(GRAPHS["family01"], new, [new.largest])


def test_runs_of_a_new_device_make_it_known(two, kinds, profiles):
    runs = [runs_of(two[0], kinds, 120)]
    predictor = GraphPredictor(boosting=FEW, folds=2)
    predictor.fit(runs, devices=two, graphs=GRAPHS, profiles=profiles).calibrate()
    new = device_of("new", base_power=3.0)
    unlike = Factors(-TRUE.values)
    fresh = runs_of(new, kinds, 25, seed=5, factors=unlike)
    before = np.sqrt((errors(predictor, fresh, new) ** 2).mean())
    some = runs_of(new, kinds, 50, seed=6, factors=unlike)
    predictor.adapt(some, device=new, graphs=GRAPHS)
    after = np.sqrt((errors(predictor, fresh, new) ** 2).mean())
    assert after < 0.05 < 0.15 < before
    low, high = predictor.predict_interval(GRAPHS["family01"], new, [new.largest])
    assert np.all(low < high)
    assert predictor.devices_["new"].scores.shape == (50, 2)


def test_scores_of_a_new_device_are_those_of_what_is_predicted_there(fitted, kinds):
    """With the residual at the half that counts there, as predictions are."""
    new = device_of("new", base_power=3.0)
    some = runs_of(new, kinds, 40, seed=6, law=cores_law)
    seen = {}

    class Spy:
        def __getattr__(self, name):
            return getattr(fitted.calibration_[0], name)

        def scores(self, features, error):
            seen["error"], seen["features"] = error, features
            return fitted.calibration_[0].scores(features, error)

    predictor = copy(fitted)
    predictor.devices_, predictor.calibration_ = dict(fitted.devices_), [Spy()]
    predictor.adapt(some, device=new, graphs=GRAPHS)
    bare = copy(predictor)
    bare.residual_ = []
    with_residual, features = seen["error"], seen["features"]
    bare.adapt(some, device=new, graphs=GRAPHS)
    added = predictor.residual_[0](features)
    assert np.abs(added).max() > 0.05
    np.testing.assert_allclose(seen["error"] - with_residual, 0.5 * added, atol=1e-9)


def test_times_in_another_unit_are_refused_though_powers_fit(two, kinds, profiles):
    runs = runs_of(two[0], kinds, 40)
    for times, predicted in ((1e3, "1e[+]03"), (1 / 60, "0.02")):
        other = runs.assign(makespan=times * runs["makespan"], energy=times * runs["energy"])
        for name in ("makespan", "energy"):
            other[name].attrs = runs[name].attrs
        with pytest.raises(
            MeasurementError, match=f"'{two[0].name}' take {predicted} times the time by its"
        ):
            GraphPredictor(residual=False).fit(
                [other], devices=two, graphs=GRAPHS, profiles=profiles
            )


def test_powers_unlike_those_of_the_sheet_are_warned_of(two, kinds, profiles, caplog):
    runs = runs_of(two[0], kinds, 20)
    given = {"devices": two, "graphs": GRAPHS, "profiles": profiles}
    GraphPredictor(residual=False, factor_runs=1).fit([runs], **given)
    assert not caplog.records
    for times, predicted in ((4.0, "4.5"), (0.25, "0.28")):
        other = runs.assign(energy=times * runs["energy"])
        other["energy"].attrs = runs["energy"].attrs
        caplog.clear()
        GraphPredictor(residual=False, factor_runs=1).fit([other], **given)
        assert f"'toy' draw {predicted} times the power" in caplog.text


def test_families_of_runs_count_where_graphs_have_none(two, kinds, profiles):
    runs = runs_of(two[0], kinds, 20)
    bare = {name: graph.assign_attrs(family="") for name, graph in GRAPHS.items()}
    given = {"devices": two, "profiles": profiles}
    result = GraphPredictor(residual=False, factor_runs=1).fit([runs], graphs=bare, **given)
    assert set(result.families_) == set(runs["family"].values.astype(str))
    nameless = runs.assign(family=("run", [""] * 20))
    alone = GraphPredictor(residual=False, factor_runs=1).fit([nameless], graphs=bare, **given)
    assert set(alone.families_) == set(runs["graph"].values.astype(str))
    other = runs.assign(family=("run", ["other"] * 20))
    with pytest.raises(ProfileError, match=r"is 'other' in run 0 and 'family.*' in its graph"):
        GraphPredictor(residual=False).fit([other], graphs=GRAPHS, **given)


def test_runs_of_another_order_are_not_learned_from(two, kinds, profiles):
    runs = runs_of(two[0], kinds, 20).assign_attrs(order="heft")
    given = {"devices": two, "graphs": GRAPHS, "profiles": profiles}
    with pytest.raises(ProfileError, match="'toy' started in the order heft, and the predictor's"):
        GraphPredictor(residual=False).fit([runs], **given)
    GraphPredictor(residual=False, order="heft", factor_runs=1).fit([runs], **given)


def test_without_a_residual_the_schedule_alone_answers(two, kinds, profiles):
    runs = [runs_of(d, kinds, 60) for d in two]
    plain = GraphPredictor(residual=False)
    plain.fit(runs, devices=two, graphs=GRAPHS, profiles=profiles)
    question = plain.prepare(GRAPHS["family01"], two[0])
    rows = question.rows([two[0].largest])
    assert np.array_equal(question.predict(rows), question.scheduled(rows)[:, :2])
    with pytest.raises(ArgumentError, match="residual is False"):
        plain.calibrate()
    with pytest.raises(ArgumentError, match="a schedule alone, fitted without held-out families"):
        plain.predict_interval(GRAPHS["family01"], two[0], [two[0].largest])


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"runs": []}, ArgumentError, "runs are none"),
        ({"devices": []}, ProfileError, "'toy', whose sheet is not among none"),
        ({"graphs": {}}, ProfileError, "runs of graph 'family.*', which is not given"),
        ({"profiles": {}}, ProfileError, "no kind has profiles"),
    ],
)
def test_what_is_missing_is_named(two, kinds, profiles, change, error, sentence):
    given = {
        "runs": [runs_of(two[0], kinds, 40)],
        "devices": two,
        "graphs": GRAPHS,
        "profiles": profiles,
        **change,
    }
    with pytest.raises(error, match=sentence):
        GraphPredictor(residual=False).fit(given.pop("runs"), **given)


def test_runs_of_one_device_in_two_parts_are_refused(two, kinds, profiles):
    part = runs_of(two[0], kinds, 8)
    with pytest.raises(ProfileError, match="in 2 parts; one is wanted: join them"):
        GraphPredictor(residual=False).fit(
            [part, part], devices=[two[0]] * 2, graphs=GRAPHS, profiles=profiles
        )


def test_a_graph_whose_name_is_mistyped_is_suggested(two, kinds, profiles):
    runs = [runs_of(two[0], kinds, 5, names=("family01",))]
    near = {"family_01": GRAPHS["family01"]}
    with pytest.raises(ProfileError, match="did you mean 'family_01'"):
        GraphPredictor(residual=False).fit(runs, devices=two, graphs=near, profiles=profiles)


def test_fewer_families_than_folds_or_than_a_rate_wants_are_refused(two, kinds, profiles):
    few = tuple(name for name in GRAPHS if name.startswith(("family1", "family2")))[:6]
    runs = [runs_of(two[0], kinds, 80, names=few)]
    given = {"devices": two, "graphs": GRAPHS, "profiles": profiles}
    with pytest.raises(MeasurementError, match="3 families for 5 folds"):
        GraphPredictor(boosting=FEW).fit(runs, **given)
    small = GraphPredictor(boosting=FEW, folds=3).fit(runs, **given).calibrate()
    with pytest.raises(MeasurementError, match=r"at least 19 .*families.* there are 80 runs of 3"):
        small.predict_interval(GRAPHS["family11"], two[0], [two[0].largest], 0.05)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"temperature": np.nan}, "temperature is nan °C; a number from -100 to 300 is wanted"),
        ({"temperature": 1e308}, r"temperature is 1e\+308 °C; a number"),
        ({"temperature": [25, -300]}, r"temperature has shape \(2,\); one number, or one for each"),
        ({"temperature": "x"}, "temperature is 'x'; numbers are wanted"),
        ({"contexts": "x"}, "contexts are 'x'; numbers in rows of"),
        ({"contexts": 10**400}, "contexts are 100.*; numbers in rows of"),
    ],
)
def test_what_is_no_question_is_refused(fitted, two, given, sentence):
    asked = {"graph": GRAPHS["family01"], "device": two[0], "contexts": [two[0].largest]}
    for ask in (fitted.predict, fitted.predict_interval):
        with pytest.raises(ArgumentError, match=f"^{sentence}"):
            ask(**{**asked, **given})


def test_contexts_that_are_masked_are_refused(fitted, two):
    hidden = np.ma.masked_all((1, len(two[0].columns)))
    with pytest.raises(ArgumentError, match=r"^contexts are masked in part"):
        fitted.extrapolated(GRAPHS["family01"], two[0], hidden)


def test_parameters_and_another_sheet_of_the_same_name_are_looked_at(fitted):
    other = device_of("toy", base_power=9.0)
    with pytest.raises(ArgumentError, match="differs from the fitted one"):
        fitted.predict(GRAPHS["family01"], other, [other.largest])
    for name, value in {"order": "random", "folds": 1, "factor_runs": 0}.items():
        with pytest.raises(ArgumentError, match=f"{name} is"):
            GraphPredictor(**{name: value})
    with pytest.raises(ArgumentError, match="not fitted"):
        GraphPredictor().predict(GRAPHS["family01"], other, [other.largest])
    assert GraphPredictor(folds=7).get_params()["folds"] == 7
    with pytest.raises(ArgumentError, match="parameter is 'fold'"):
        GraphPredictor().set_params(fold=3)


def end_temperature(device, start, time, energy):
    """Temperature after a run of constant power."""
    goal = device.ambient + device.resistance * energy / time
    return goal + (start - goal) * np.exp(-time / device.time_constant)


def test_a_forecast_is_what_the_predictor_says(fitted, device):
    contexts, graph = device_contexts(device)[::7], next(iter(GRAPHS.values()))
    start = device.ambient + 3.0
    predicted = GraphForecaster(fitted, device, 0.2).forecast(graph, contexts, start)
    expected = fitted.predict(graph, device, contexts, temperature=start)
    _, upper = fitted.predict_interval(graph, device, contexts, 0.2, temperature=start)
    np.testing.assert_allclose(np.stack([predicted.time, predicted.energy], axis=1), expected)
    np.testing.assert_allclose(
        np.stack([predicted.time_bound, predicted.energy_bound], axis=1), upper
    )
    # close to a run of constant power, and as much hotter as more energy makes it
    constant = end_temperature(device, start, predicted.time, predicted.energy)
    assert np.abs(predicted.temperature - constant).max() < 0.3 * np.abs(constant - start).max()
    more = end_temperature(device, start, predicted.time, predicted.energy_bound) - constant
    np.testing.assert_allclose(predicted.temperature_bound - predicted.temperature, more, rtol=1e-6)
    assert (more > 0).all()
    assert (predicted.peak_bound >= predicted.temperature_bound).all()


def test_without_bounds_they_are_what_is_expected(fitted, device):
    contexts, graph = device_contexts(device)[::7], next(iter(GRAPHS.values()))
    quick = GraphForecaster(fitted, device, None)
    predicted = quick.forecast(graph, contexts, device.ambient)
    np.testing.assert_array_equal(predicted.time, predicted.time_bound)
    np.testing.assert_array_equal(predicted.temperature, predicted.temperature_bound)
    part = quick.forecast(graph, contexts[:2], device.ambient)
    np.testing.assert_array_equal(part.energy, predicted.energy[:2])
    bare = copy(fitted)
    bare.calibration_ = []
    with pytest.raises(ArgumentError, match="not calibrated"):
        GraphForecaster(bare, device)


def test_what_is_changed_in_place_is_forecast_anew(fitted, device):
    contexts, graph = device_contexts(device)[::7], next(iter(GRAPHS.values())).copy(deep=True)
    forecaster = GraphForecaster(fitted, device, 0.2)
    before = forecaster.forecast(graph, contexts, device.ambient)
    graph["work"].values[:] *= 3.0
    slower = forecaster.forecast(graph, contexts, device.ambient)
    assert (slower.time > 2.0 * before.time).all()
    contexts[:] = contexts[::-1].copy()
    turned = forecaster.forecast(graph, contexts, device.ambient)
    np.testing.assert_array_equal(turned.time, slower.time[::-1])
    known = fitted.devices_[device.name]
    other = Factors(known.factors.values + 0.5)
    forecaster.predictor = copy(fitted)
    forecaster.predictor.devices_ = {device.name: replace(known, factors=other)}
    adapted = forecaster.forecast(graph, contexts, device.ambient)
    assert (adapted.time > turned.time).all()
