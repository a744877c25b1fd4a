"""A quick look at many contexts."""

import numpy as np

from faulty import machine
from msbgen.engine.faults.screen import Neighbours, partners_together

CONTEXTS = machine((8, 8, 8))


def values(seed=0):
    """Two smooth quantities of the contexts with noise, (n, 2)."""
    smooth = np.column_stack([np.log(CONTEXTS) @ [0.5, -0.4, 0.3], np.exp(-CONTEXTS[:, 0] / 7.0)])
    return smooth + 0.01 * np.random.default_rng(seed).standard_normal(smooth.shape)


def scores(quantities):
    deviation, usual = Neighbours(CONTEXTS).deviations(quantities)
    return np.abs(deviation / usual).max(axis=1)


def test_single_contexts_deviate_and_those_around_them_do_not():
    found = values()
    sound = scores(found)
    assert (sound > 3.0).mean() < 0.02
    found[[100, 300], 0] += [0.1, -0.3]
    spoilt = scores(found)
    assert (spoilt[[100, 300]] > 5.0).all()
    others = np.delete(spoilt, [100, 300])
    assert (others > 3.0).sum() <= (sound > 3.0).sum() + 2


def test_neighbours_that_deviate_together_are_usual():
    found = values()
    corner = (CONTEXTS[:, 0] == 2) & (CONTEXTS[:, 1] < 300)
    found[corner, 0] += 0.2 * np.random.default_rng(3).standard_normal(corner.sum())
    found[400, 0] += 0.2
    together = scores(found)
    assert together[400] > 2 * np.median(together[corner])


def test_a_deviation_does_not_depend_on_the_order_of_contexts():
    order = np.random.default_rng(1).permutation(len(CONTEXTS))
    found = values()
    one, other = Neighbours(CONTEXTS[order]), Neighbours(CONTEXTS)
    assert not (one.index == np.arange(len(CONTEXTS))[:, None]).any()
    again, usual = (part.deviations(v)[0] for part, v in ((one, found[order]), (other, found)))
    # of equally near contexts, others may be taken
    assert np.median(np.abs(again - usual[order])) < 0.005


def test_exchanged_contexts_are_searched_together():
    rng = np.random.default_rng(2)
    expected = rng.normal(size=(7, 3))
    measured = expected + 0.01 * rng.normal(size=expected.shape)
    for pair in ([1, 5], [2, 3]):
        measured[pair] = measured[pair[::-1]]
    measured[6] += 100.0  # fits no label
    misfit = ((measured[None] - expected[:, None]) ** 2).sum(axis=2)
    order = partners_together(misfit).tolist()
    assert sorted(order) == list(range(7))
    pairs = {tuple(order[i : i + 2]) for i in (0, 2)}
    assert pairs == {(1, 5), (2, 3)}
