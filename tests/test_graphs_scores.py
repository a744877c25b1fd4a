import numpy as np
import pytest
from graphs_scores import compare_over_graphs, holm, log_errors, order_within

from msbgen.core.errors import ArgumentError, MeasurementError


def test_errors_are_of_logarithms():
    truth = np.array([[1.0, 10.0], [100.0, 1.0]])
    assert log_errors(truth * np.e, truth) == pytest.approx([1.0, 1.0])
    assert log_errors(truth * [[1.0, 1.1], [1.0, 1 / 1.1]], truth) == pytest.approx(
        [0.0, np.log(1.1)]
    )


def test_order_is_that_within_graphs():
    graph = np.array([0, 0, 0, 1, 1, 1, 2, 2])
    truth = np.array([1.0, 2.0, 3.0, 10.0, 20.0, 30.0, 5.0, 6.0])
    assert order_within(truth**3, truth, graph) == pytest.approx(1.0)
    turned = np.array([9.0, 8.0, 7.0, 1.0, 2.0, 3.0, 0.0, 0.0])
    assert order_within(turned, truth, graph) == pytest.approx(0.0)
    assert order_within(np.ones(8), truth, graph) == 0.0
    with pytest.raises(MeasurementError, match="three runs"):
        order_within(truth[6:], truth[6:], graph[6:])


def test_a_method_better_on_every_graph_has_effect_one_and_a_small_p():
    rng = np.random.default_rng(0)
    graph = np.repeat([f"g{i}" for i in range(20)], 4)
    ours = rng.random(80)
    p, effect = compare_over_graphs(ours, ours + 0.5, graph)
    assert effect == 1.0
    assert p < 1e-4
    assert compare_over_graphs(ours + 0.5, ours, graph) == (p, -1.0)
    assert compare_over_graphs(ours, ours, graph) == (1.0, 0.0)
    noise_p, noise_effect = compare_over_graphs(ours, rng.permutation(ours), graph)
    assert noise_p > 0.01
    assert abs(noise_effect) < 0.7
    with pytest.raises(MeasurementError, match="there are 5 graphs"):
        compare_over_graphs(ours[:20], ours[:20], graph[:20])


def test_holms_correction_by_hand():
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx(
        {"a": 0.03, "b": 0.06, "c": 0.06}
    )
    with pytest.raises(ArgumentError, match="p of 'a' is 1"):
        holm({"a": 1.5})
