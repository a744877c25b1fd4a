"""Predictions of kernels, coverage of intervals, and refused arguments."""

import numpy as np
import pytest

from kernelling import CLOCKS, made_kernels
from msbgen.core.errors import ArgumentError, MeasurementError, ProfileError
from msbgen.systems.kernels.dataset import join as join_kernels
from msbgen.systems.kernels.dataset import make as make_kernels
from msbgen.systems.kernels.dataset import powers_of, runtimes_of
from msbgen.systems.kernels.predictor.kernel_predictor import KernelPredictor, cross_predict
from msbgen.systems.kernels.predictor.networks import fit_overhead, predict_network, sum_kernels
from msbgen.systems.kernels.workloads import make_workload

RUNS = made_kernels(noise=0.005)
NEW = made_kernels(sizes=(80, 160, 320), clocks=np.array([300.0, 700.0]))


@pytest.fixture(scope="module")
def predictor():
    return KernelPredictor().fit(RUNS)


def with_clock(runs, values):
    return runs.assign_coords(clock=("measurement", values, RUNS["clock"].attrs))


def test_kernels_and_clocks_that_were_not_measured(predictor):
    np.testing.assert_allclose(predictor.predict(NEW), runtimes_of(NEW), rtol=0.03)
    np.testing.assert_allclose(predictor.predict_power(NEW), powers_of(NEW), rtol=0.05)
    energy = runtimes_of(NEW) * powers_of(NEW)
    np.testing.assert_allclose(predictor.predict_energy(NEW), energy, rtol=0.06)
    assert not predictor.extrapolates(NEW).any()
    assert predictor.extrapolates(made_kernels(sizes=(32, 1024))).all()
    assert predictor.beyond([[100.0], [200.0], [1000.0], [1001.0]]).tolist() == [1, 0, 0, 1]


def test_runtimes_of_wanted_kernels_are_ignored(predictor):
    blind = NEW.assign(runtime=NEW["runtime"] * 0 + 1.0, power=NEW["power"] * 0 + 1.0)
    np.testing.assert_array_equal(predictor.predict(blind), predictor.predict(NEW))
    np.testing.assert_array_equal(predictor.predict_power(blind), predictor.predict_power(NEW))


def test_the_product_agrees_with_single_predictions(predictor):
    sizes = [80.0, 160, 320]
    launches = make_workload(["matmul"] * 3, [1, 2, 3], parameters=dict.fromkeys("mkn", sizes))
    seconds, watts = predictor.predict_product(launches, [[300.0], [700.0]])
    np.testing.assert_allclose(seconds.ravel(), predictor.predict(NEW), rtol=1e-9)
    np.testing.assert_allclose(watts.ravel(), predictor.predict_power(NEW), rtol=1e-9)


def test_intervals_cover_new_kernels():
    sizes = tuple(range(64, 704, 32))
    runs = made_kernels(sizes, noise=0.05)
    predictor = KernelPredictor().fit(runs)
    with pytest.raises(ArgumentError, match="not calibrated"):
        predictor.predict_interval(runs)
    predictor.calibrate(runs)
    new = made_kernels(tuple(range(72, 700, 32)), noise=0.05, seed=1)
    low, high = predictor.predict_interval(new, 0.1)
    inside = (low <= runtimes_of(new)) & (runtimes_of(new) <= high)
    assert 0.8 < inside.mean() <= 1
    with pytest.raises(MeasurementError, match="kernels of kind 'matmul'"):
        predictor.predict_interval(new, 0.001)


def test_cross_predictions_do_not_depend_on_the_predicted_kernel():
    seconds, watts = cross_predict(RUNS, KernelPredictor(), folds=7)
    assert np.abs(np.log(seconds / runtimes_of(RUNS))).mean() < 0.15
    changed = RUNS.copy(deep=True)
    first = changed["m"].values == 64
    changed["runtime"].values[first] *= 3
    again, _ = cross_predict(changed, KernelPredictor(), folds=7)
    np.testing.assert_array_equal(again[first], seconds[first])
    assert np.isfinite(watts).all()


def test_wrong_data_and_arguments_are_refused(predictor):
    with pytest.raises(ArgumentError, match="the predictor is not fitted"):
        KernelPredictor().predict(NEW)
    with pytest.raises(MeasurementError, match="no kind has 4 measurements or more"):
        KernelPredictor().fit(RUNS.isel(measurement=slice(3)))
    zero = RUNS.copy(deep=True)
    zero = with_clock(zero, np.where(np.arange(35) == 0, 0.0, zero["clock"].values))
    with pytest.raises(ProfileError, match="resource 'clock' is 0 at measurement 0"):
        KernelPredictor().fit(zero)
    with pytest.raises(
        MeasurementError, match="resource 'clock' is 0 in measurement 0; a positive"
    ):
        predictor.predict(zero)
    sides = {name: [90, 90] for name in "mkn"}
    strange = make_workload(["matmull", "matmul"], [1, 3], parameters=sides)
    with pytest.raises(ArgumentError, match=r"'matmull', 25\.0% of the launches, were not"):
        predictor.predict_product(strange, [[500.0]])
    hertz = NEW.copy(deep=True)
    hertz["clock"].attrs["units"] = "Hz"
    with pytest.raises(ArgumentError, match="'clock' is in Hz; MHz is wanted"):
        predictor.predict(hertz)
    with pytest.raises(ArgumentError, match=r"contexts have shape \(1, 2\)"):
        predictor.predict_product(strange.isel(launch=[1]), [[1.0, 2.0]])
    with pytest.raises(ArgumentError, match="parameter is 'depth'"):
        KernelPredictor().set_params(depth=3)
    with pytest.raises(ArgumentError, match="folds is 1"):
        cross_predict(RUNS, KernelPredictor(), folds=1)
    with pytest.raises(MeasurementError, match="there are 7 kernels for 9 folds"):
        cross_predict(RUNS, KernelPredictor(), folds=9)


def test_energy_without_power_is_refused_kind_by_kind():
    bare = make_kernels(
        ["relu"] * 5,
        1e-6 * np.arange(1, 6),
        resources={"clock": CLOCKS},
        parameters={"size": np.arange(1, 6)},
        units={"clock": "MHz"},
    )
    predictor = KernelPredictor().fit(join_kernels([RUNS, bare]))
    assert np.isfinite(predictor.predict(bare)).all()
    with pytest.raises(ArgumentError, match="kind 'relu' was measured without power"):
        predictor.predict_energy(bare)
    with pytest.raises(ArgumentError, match="resources are threads; clock are wanted"):
        predictor.predict(
            make_kernels(["relu"], [1.0], resources={"threads": [1]}, parameters={"size": [1]})
        )


def gemms(rows, columns, **more):
    """Matrix products at three clocks, with times that follow from their sizes."""
    clock = np.tile([400.0, 700.0, 1000.0], len(rows))
    rows, columns = (np.repeat(np.asarray(side, dtype=float), 3) for side in (rows, columns))
    seconds = 1e-5 + np.nan_to_num(rows, nan=1.0) * 64.0 / clock / 1e4
    named = {"rows": rows, "columns": columns}
    return make_kernels(
        ["gemm"] * rows.size, seconds, resources={"clock": clock}, parameters=named, **more
    )


def test_a_product_of_size_one_is_a_product():
    sides = [1, 64, 96, 128, 256, 512]
    runs = gemms(sides, sides)
    predictor = KernelPredictor().fit(runs)
    together = predictor.predict(runs)
    alone = predictor.predict(runs.isel(measurement=slice(3)))
    np.testing.assert_allclose(alone, together[:3], rtol=1e-12)


def test_kernels_that_cannot_exist_are_refused():
    with pytest.raises(ArgumentError, match="kernel 0, a gemm, has a size of 0; 1 or more"):
        KernelPredictor().fit(gemms([0, 64, 96, 128], [8] * 4))
    with pytest.raises(ArgumentError, match="kernel 3, a gemm, lacks a parameter that others"):
        KernelPredictor().fit(gemms([64, np.nan, 96, 128], [8] * 4))


def test_launches_must_have_the_measured_parameters():
    predictor = KernelPredictor().fit(gemms([64, 96, 128, 256], [8, 16, 8, 32]))

    def predict(**sides):
        launches = make_workload(["gemm"], [3], parameters={k: [v] for k, v in sides.items()})
        return predictor.predict_product(launches, [[500.0]])[0]

    assert predict(rows=96, columns=16, padding=np.nan).shape == (1, 1)
    for sides in ({"rows": 96}, {"rows": 96, "columns": np.nan}):
        with pytest.raises(ArgumentError, match="has no parameter 'columns', which every measured"):
            predict(**sides)
    with pytest.raises(
        ArgumentError, match="parameter 'depth', which no measured one has; use row"
    ):
        predict(rows=96, columns=16, depth=3)
    with pytest.raises(ArgumentError, match="has a size of 0"):
        predict(rows=0, columns=16)
    with pytest.raises(ArgumentError, match="a gemm, has rows 1e-308; 0, or a number from 1e-15"):
        predict(rows=1e-308, columns=16)


WANTED = np.array([[400.0], [1000.0]])


@pytest.fixture(scope="module")
def exact():
    return KernelPredictor().fit(made_kernels())


def networks():
    sizes = [80.0, 160, 320, 80, 320]
    names = ["one", "one", "one", "two", "two"]
    return make_workload(
        ["matmul"] * 5, [1, 4, 2, 10, 3], workload=names, parameters=dict.fromkeys("mkn", sizes)
    )


def test_a_network_is_the_sum_of_its_kernels(exact):
    one = networks().isel(launch=slice(3))
    seconds, watts = exact.predict_product(one, WANTED)
    total, joules = sum_kernels(exact, one, WANTED)
    np.testing.assert_allclose(total, seconds[0] + 4 * seconds[1] + 2 * seconds[2])
    energy = seconds * watts
    np.testing.assert_allclose(joules, energy[0] + 4 * energy[1] + 2 * energy[2])
    np.testing.assert_array_equal(predict_network(exact, one, WANTED)[0], total)
    with pytest.raises(ProfileError, match=r"^workload: variable 'count' is -1 at launch 0"):
        predict_network(exact, one.assign(count=-one["count"] // one["count"]), WANTED)


def test_the_overhead_is_fitted_to_other_networks(exact):
    both = networks()
    one, two = both.isel(launch=slice(3)), both.isel(launch=slice(3, 5))
    cost = np.array([3e-6, 1e-6])
    times = {"two": sum_kernels(exact, two, WANTED)[0] + 13 * cost}
    overhead = fit_overhead(exact, both, times, WANTED)
    np.testing.assert_allclose(overhead, cost)
    whole, joules = predict_network(exact, one, WANTED, overhead)
    plain, energy = sum_kernels(exact, one, WANTED)
    np.testing.assert_allclose(whole, plain + 7 * cost)
    np.testing.assert_allclose(joules / whole, energy / plain)


def test_workloads_that_cannot_be_summed_are_refused(exact):
    with pytest.raises(ArgumentError, match="workloads are one, two; one of them is wanted"):
        sum_kernels(exact, networks(), WANTED)
    gone = {"one": np.array([np.nan, 1.0])}
    with pytest.raises(MeasurementError, match="no other network was measured in some"):
        fit_overhead(exact, networks(), gone, WANTED)
    with pytest.raises(ArgumentError, match="workload is 'three'"):
        fit_overhead(exact, networks(), {"three": np.ones(2)}, WANTED)


def test_kinds_with_too_few_measurements_are_named(caplog):
    kinds = np.where(np.arange(RUNS.sizes["measurement"]) < 3, "rare", "matmul")
    predictor = KernelPredictor().fit(RUNS.assign(kind=("measurement", kinds)))
    assert list(predictor.kinds_) == ["matmul"]
    assert "kinds with fewer than 4 measurements are not in the model: 'rare'" in caplog.text


def test_unknown_kinds_are_said_and_products_are_known_by_their_sides(caplog):
    def called(word, runs):
        return runs.assign(kind=("measurement", [word] * runs["kind"].size, runs["kind"].attrs))

    gemm = KernelPredictor().fit(called("gemm", RUNS)).predict(called("gemm", NEW))
    np.testing.assert_allclose(gemm, runtimes_of(NEW), rtol=0.03)
    assert not caplog.messages
    KernelPredictor().fit(called("mine", RUNS.rename(m="a", k="b", n="c")))
    assert caplog.messages[0].startswith("the operations of kind 'mine' are unknown")
    assert len(caplog.messages) == 1


def test_one_kernel_is_calibrated_by_its_left_out_configurations():
    clocks = np.array([300.0, 450, 700, 1100, 1500, 1900])
    seconds = 0.004 + 20 / clocks
    runs = make_kernels(["copy"] * 6, seconds, resources={"clock": clocks}, units={"clock": "MHz"})
    predictor = KernelPredictor().fit(runs)
    predictor.calibrate(runs)
    assert len(predictor.scores_.runtime) == 6
    assert np.median(predictor.scores_.runtime) < 0.01
    wanted = make_kernels(["copy"], [1.0], resources={"clock": [900.0]}, units={"clock": "MHz"})
    assert predictor.predict(wanted) == pytest.approx([0.004 + 20 / 900], rel=0.01)
