"""The study of networks on a CPU: what is left out, summed and compared, by hand."""

import kernels_cpu
import kernels_pictures
import numpy as np
import pytest
import targets

from msbgen.systems.kernels.dataset import make as make_kernels
from msbgen.systems.kernels.workloads import make_workload

# Kernels 1 to 4 are of networks a (1, 2) and b (2, 3); 4 was drawn.  Time = size × threads × 1 ms.
SIZES = {1.0: 1e-3, 2.0: 2e-3, 3.0: 3e-3, 4.0: 4e-3}
LAUNCHES = [("a-1x9", 1.0, 5), ("a-1x9", 2.0, 1), ("b-1x9", 2.0, 2), ("b-1x9", 3.0, 1)]
SPENT = {"a-1x9": 7e-3, "b-1x9": 7e-3}


@pytest.fixture
def measured():
    rows = []
    for threads in (1.0, 2.0):
        for session, slow in enumerate((0.9, 1.0, 1.1)):
            rows += [("relu", m, t * threads * slow, threads, session) for m, t in SIZES.items()]
            for name, t in SPENT.items():
                extra = 6e-4 * (6 if name == "a-1x9" else 3)  # 0.6 ms for each launch
                for part in (0.99, 1.0, 1.01):
                    spent = (t + extra) * threads * slow * part
                    rows.append((f"network/{name}", np.nan, spent, threads, session))
    kind, m, time, threads, run = zip(*rows)
    every = make_kernels(
        kind, time, resources={"threads": threads}, parameters={"m": m}, run=np.array(run)
    )
    names, sizes, counts = zip(*LAUNCHES)
    work = make_workload(["relu"] * 4, counts, parameters={"m": sizes}, workload=names)
    return kernels_cpu.arrange(every, work)


def test_medians_are_over_sessions_and_launches_find_their_rows(measured):
    assert measured.kernels.sizes["measurement"] == 4 * 2
    assert measured.sessions.shape == (8, 3)
    for threads, rows in measured.rows.items():
        own = measured.kernels.isel(measurement=rows)
        assert own["m"].values.tolist() == [1, 2, 2, 3]
        np.testing.assert_allclose(own["runtime"], np.array([1, 2, 2, 3]) * 1e-3 * threads)
    assert measured.time("a-1x9", 2.0) == pytest.approx(2 * (7e-3 + 36e-4))


def test_a_network_is_left_out_with_every_kernel_of_its_own(measured):
    shown = []

    def method(known, new):
        shown.append((sorted(set(known["m"].values)), sorted(set(new["m"].values))))
        return 1.1 * new["m"].values * 1e-3 * new["threads"].values

    found = kernels_cpu.leave_networks_out(measured, method)
    assert shown == [([3.0, 4.0], [1.0, 2.0]), ([1.0, 4.0], [2.0, 3.0])]
    assert found["a-1x9", 2.0] == pytest.approx((1.1 * 14e-3, 14e-3, 2 * (7e-3 + 36e-4)))
    kernels_cpu.leave_networks_out(measured, method, "drawn")
    assert shown[2:] == [([4.0], [1.0, 2.0]), ([4.0], [2.0, 3.0])]
    kernels_cpu.leave_networks_out(measured, method, "networks")
    assert shown[4:] == [([3.0], [1.0, 2.0]), ([1.0], [2.0, 3.0])]
    kernels_cpu.leave_networks_out(measured, method, together=2)
    assert shown[6:] == [([4.0], [1.0, 2.0, 3.0])]


def test_errors_against_sum_and_time_with_the_overhead_of_other_networks(measured):
    def tenth(known, new):
        return 1.1 * new["m"].values * 1e-3 * new["threads"].values

    scores = kernels_cpu.errors(measured, tenth)
    times = {"a": 7e-3 + 36e-4, "b": 7e-3 + 18e-4}
    for name, time in times.items():
        assert scores[name]["sum"] == pytest.approx(0.1)
        assert scores[name]["time"] == pytest.approx(0.7e-3 / time)
        assert scores[name]["time from measured kernels"] == pytest.approx(0.0, abs=1e-9)
        assert scores[name]["time as their plain sum"] == pytest.approx(1 - 7e-3 / time)
    assert scores["mean"]["time"] == pytest.approx(np.mean([0.7e-3 / t for t in times.values()]))


def test_differences_between_sessions_are_recovered(measured):
    scores = kernels_cpu.repeatability(measured)
    for name in ("networks", "kernels", "sums of kernels"):
        assert scores[name] == pytest.approx(0.2 / 3)


def test_all_figures_are_there_for_tables_and_targets(measured, monkeypatch):
    def exact(known, new):
        return new["m"].values * 1e-3 * new["threads"].values

    for name in ("default", "boosting"):
        monkeypatch.setattr(kernels_cpu, name, exact)
    found = kernels_cpu.cpu(measured, {"exact": lambda known, new: exact(known, new)})
    assert found["mean"]["sum"] == found["parts"]["exact"]["sum"] == pytest.approx(0)
    figures = list(targets.kernel_figures({"cpu": found}))
    assert [figure.target for figure in figures] == [7.0, 3.0, 15.4]
    ((name, text),) = kernels_pictures.tables({"cpu": found})
    assert name == "kernels-cpu"
    assert "| a | 0.0 %" in text
    assert "| exact | 0.0 %" in text
    assert "sessions differ by: networks 6.7 %" in text


def test_mixed_samples_are_half_of_networks():
    one, other = np.arange(10), np.arange(10, 14)
    found = kernels_cpu._halves(one, other)
    assert len(np.unique(found)) == len(one)
    assert np.isin(found, other).sum() == 4
    assert np.isin(kernels_cpu._halves(one[:3], other), other).sum() == 1


def test_one_session_is_learned_from_and_all_are_tested(measured):
    taught = []

    def method(known, new):
        taught.append((known["runtime"] / known["m"] / known["threads"]).values)
        return new["runtime"].values

    found = kernels_cpu.leave_networks_out(measured, method, session=2)
    np.testing.assert_allclose(np.concatenate(taught), 1.1e-3)
    assert all(predicted == pytest.approx(total) for predicted, total, _ in found.values())
    measured.sessions[:4, 2] = np.nan
    taught.clear()
    kernels_cpu.leave_networks_out(measured, method, session=2)
    assert [len(rows) for rows in taught] == [4, 2]
