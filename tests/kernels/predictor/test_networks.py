"""Networks: sums of kernels, and the overhead of launches."""

import numpy as np
import pytest

from kernelling import made_kernels
from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.kernels.predictor.kernel_predictor import KernelPredictor
from msbgen.kernels.predictor.networks import fit_overhead, predict_network, sum_kernels
from msbgen.kernels.workloads import make_workload

CLOCKS = np.array([[400.0], [1000.0]])


@pytest.fixture(scope="module")
def predictor():
    return KernelPredictor().fit(made_kernels())


def networks():
    sizes = [80.0, 160, 320, 80, 320]
    names = ["one", "one", "one", "two", "two"]
    return make_workload(
        ["matmul"] * 5, [1, 4, 2, 10, 3], workload=names, parameters=dict.fromkeys("mkn", sizes)
    )


def test_a_network_is_the_sum_of_its_kernels(predictor):
    one = networks().isel(launch=slice(3))
    seconds, watts = predictor.predict_product(one, CLOCKS)
    total, joules = sum_kernels(predictor, one, CLOCKS)
    np.testing.assert_allclose(total, seconds[0] + 4 * seconds[1] + 2 * seconds[2])
    energy = seconds * watts
    np.testing.assert_allclose(joules, energy[0] + 4 * energy[1] + 2 * energy[2])
    np.testing.assert_array_equal(predict_network(predictor, one, CLOCKS)[0], total)


def test_the_overhead_is_fitted_to_other_networks(predictor):
    both = networks()
    one, two = both.isel(launch=slice(3)), both.isel(launch=slice(3, 5))
    cost = np.array([3e-6, 1e-6])
    times = {"two": sum_kernels(predictor, two, CLOCKS)[0] + 13 * cost}
    overhead = fit_overhead(predictor, both, times, CLOCKS)
    np.testing.assert_allclose(overhead, cost)
    whole, joules = predict_network(predictor, one, CLOCKS, overhead)
    plain, energy = sum_kernels(predictor, one, CLOCKS)
    np.testing.assert_allclose(whole, plain + 7 * cost)
    np.testing.assert_allclose(joules / whole, energy / plain)


def test_workloads_that_cannot_be_summed_are_refused(predictor):
    with pytest.raises(ArgumentError, match="workloads are one, two; one of them is wanted"):
        sum_kernels(predictor, networks(), CLOCKS)
    gone = {"one": np.array([np.nan, 1.0])}
    with pytest.raises(MeasurementError, match="no other network was measured in some"):
        fit_overhead(predictor, networks(), gone, CLOCKS)
    with pytest.raises(ArgumentError, match="workload is 'three'"):
        fit_overhead(predictor, networks(), {"three": np.ones(2)}, CLOCKS)
