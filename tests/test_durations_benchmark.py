"""The study of public tables of durations, on made-up tables."""

import json
import sys

import durations_data
import durations_peers
import durations_study
import numpy as np
import pytest
import tables

from msbgen.data.profiles import Profiles
from msbgen.data.schema import context_table, duration_array

pytestmark = pytest.mark.usefixtures("coarse")  # no test here is one of the models' accuracy

PROGRAMS, WAYS, PRODUCTS, NETWORKS, MOBILENET = (
    *("programs, cores", "programs, cache ways", "matrix products, clocks"),
    *("networks, power × batch", "MobileNet, batch × clock"),
)


def write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*lines, ""]))


@pytest.fixture
def sets(tmp_path):
    """A folder with each set as its repository has it, with one table that is too small."""
    folder = tmp_path / "sets"
    programs = folder / "openmp-time-energy"
    rows = [f"1;{n};2.10GHz;{10 + 80 * n**-0.9};1;2;3" for n in range(1, 10)]
    write(programs / "amd" / "data-a.csv", ["#Procs;Cores;Freq;Time[s];E;E;P", *rows])
    write(programs / "xu3" / "static" / "all_cores" / "data-b.csv", rows[:4])
    ways = [f"a,{n},{1 - 0.5 / n}" for n in (10, 11, *range(1, 10))]
    write(folder / "pbbcache" / "metrics.csv", ["BENCH,NR_WAYS,ipc", *ways])
    clocks = range(100, 1100, 100)
    runs = [f"AGX,64,64,{f},{1 / f + 1 / (f + 500)}" for f in (*clocks, 500)]
    header = "device,rows,columns,gpu_clock_mhz,runtime_s"
    write(folder / "jetson" / "gemm.csv", [header, *runs, "AGX,64,32,100,9"])
    grid = [f"Nano,{b},{f},{100 + 1e5 * b / f}" for b in (1, 2, 4) for f in clocks[::2]]
    header = "device,batch,gpu_clock_mhz,latency_p50_ms"
    write(folder / "jetson" / "mobilenet.csv", [header, *grid])
    header = "dataset,network,batch_size,optimizer,power_limit,time_per_epoch"
    for gpu in durations_data.GPUS:
        limits = (100, 125, 150, 200) if gpu == "a40" else ()
        rows = [f"d,n,{b},o,{p},{9 + 2e3 / p + 90 / b}" for p in limits for b in (4, 8, 16, 32, 64)]
        write(folder / "zeus" / f"summary_power_{gpu}.csv", [header, *rows, "d,n,128,o,250,"])
    return folder


def test_tables_are_read_in_seconds_by_setting(sets):
    found = {table.group: table for table in durations_data.read_tables(sets)}
    assert list(found) == [PROGRAMS, WAYS, PRODUCTS, NETWORKS, MOBILENET]
    assert {g: t.levels.shape for g, t in found.items()} == {
        PROGRAMS: (9, 1), WAYS: (11, 1), PRODUCTS: (10, 1), NETWORKS: (20, 2), MOBILENET: (15, 2),
    }  # fmt: skip
    assert found[PROGRAMS].resources == ("cores",)  # the clock has one level
    assert found[PROGRAMS].mean[0] == 90.0
    assert found[WAYS].mean[[0, -1]] == pytest.approx([2.0, 1 / (1 - 0.5 / 11)])
    assert found[MOBILENET].mean[0] == pytest.approx(1.1)
    assert [len(runs) for runs in found[PRODUCTS].runs] == [1, 1, 1, 1, 2, 1, 1, 1, 1, 1]
    some = found[PRODUCTS].dataset(np.array([0, 4]))
    assert context_table(some).tolist() == [[100.0], [500.0]]
    assert np.isfinite(duration_array(some)).sum(axis=1).tolist() == [1, 2]


def test_ends_are_known_and_asked_settings_lie_between(sets):
    for table in durations_data.read_tables(sets):
        n, m = table.levels.shape
        for seed in range(3):
            known, asked = table.split(seed)
            assert len(known) == (durations_data.KNOWN if m == 1 else max(n // 2, 8))
            assert not set(known) & set(asked)
            assert (table.levels[known].min(axis=0) == table.levels.min(axis=0)).all()
            assert (table.levels[known].max(axis=0) == table.levels.max(axis=0)).all()
        assert (table.split(1)[0] != table.split(2)[0]).any()
        if m == 1:
            assert np.ptp(np.diff(table.split(0)[0])) <= 1


@pytest.mark.parametrize(
    ("peer", "curve"),
    [
        ("linear", lambda x: 3 + 2 * x),
        ("log-log", lambda x: 5 * x**-0.7),
        ("a + b/x + cx", lambda x: 1 + 9 / x + 0.1 * x),
        ("Gaussian process", lambda x: 5 * x**-0.7),
        ("Extra-P", lambda x: 1 + 9 / x),
    ],
)
def test_peers_find_curves_of_their_form(peer, curve):
    needed = {"Gaussian process": "sklearn", "Extra-P": "extrap"}.get(peer, "numpy")
    pytest.importorskip(needed, reason="a peer that the study's page says how to install")
    levels, asked = np.array([[1.0], [2], [4], [8], [16], [32]]), np.array([[3.0], [12]])
    found = durations_peers.PEERS[peer](levels, curve(levels[:, 0]), asked)
    assert found == pytest.approx(curve(asked[:, 0]), rel=0.01)
    grid = np.stack(np.meshgrid(levels[:, 0], levels[:5, 0]), axis=-1).reshape(-1, 2)
    found = durations_peers.PEERS[peer](grid, curve(grid[:, 0]), grid[[7, 14]])
    assert found == pytest.approx(curve(grid[[7, 14], 0]), rel=0.01)


def test_exchanged_contexts_carry_the_runs_and_start_times_of_each_other(sets):
    table = durations_data.read_tables(sets)[0]
    known, _ = table.split(0)
    runs = durations_study.repeated(table.mean[known], 0.0, np.random.default_rng(0))
    data = durations_study.with_start_times(table.dataset(known, runs), np.arange(18))
    before = np.concatenate([[0.0], np.repeat(table.mean[known], 3).cumsum()[:-1]])
    assert Profiles.of(data).started.ravel() == pytest.approx(before)
    moved = durations_study.exchanged(data, (1, 4))
    for name in ("started", "duration"):
        after, before = (getattr(Profiles.of(each), name) for each in (moved, data))
        assert (after[[4, 2, 1]] == before[[1, 2, 4]]).all()
    assert (context_table(moved) == context_table(data)).all()
    assert durations_study.named(moved) == {1, 4}
    assert durations_study.named(data) == set()


def test_the_runs_of_a_setting_support_their_conformal_quantile_or_the_largest():
    assert durations_study.supported(np.array([1.0, 3.0, 2.0])) == 3.0
    assert durations_study.supported(np.arange(1.0, 10.0)) == 8.0


def test_results_are_stored_and_tabulated(sets, tmp_path, monkeypatch):
    pytest.importorskip("sklearn", reason="the peer wants pip install msbgen[ml]")
    monkeypatch.setattr(durations_study, "SPLITS", (0, 1))
    monkeypatch.setattr(durations_study, "DRAWS", 1)
    monkeypatch.setattr(durations_study, "LEAST_TABLES", 1)
    some = [t for t in durations_data.read_tables(sets) if t.group in (PROGRAMS, NETWORKS)]
    monkeypatch.setattr(durations_study, "read_tables", lambda folder: some)
    for module in (tables, durations_study):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    names = *durations_study.PARTS, "goals"
    page = tmp_path / "durations.md"
    page.write_text("".join(f"<!-- results: durations-{n} -->\n<!-- end -->\n" for n in names))
    monkeypatch.setattr(durations_study, "publish", lambda made: tables.publish(made, [tmp_path]))
    monkeypatch.setattr(sys, "argv", ["durations", "--data", str(sets)])
    durations_study.main()
    found = json.loads((tmp_path / "durations.json").read_text())
    for row in found["errors"]:
        assert row["tables"] == 1
        assert row["error"]["ours"] < 0.03
        assert row["known"] <= row["worst"] < 0.005
    assert all(row["error"]["ours"] < 0.2 for row in found["noise"])
    for row in found["faults"]:
        assert not any(count for name, (count, _) in row["named"].items() if "clean" in name)
        assert row["named"]["doubled"] == [1, 1]
    for row in found["bounds"]:
        assert row["below"] == 0
        assert row["within"] > 0.7
    text = page.read_text()
    assert "| 1 programs, cores | first split |" in text
    assert "| clean tables with start times, of 8: fault named | 0 | ≤ 0 | met |" in text


def test_missing_sets_are_named_with_their_sources(sets, monkeypatch, capsys):
    (sets / "zeus").rename(sets / "other")
    monkeypatch.setattr(sys, "argv", ["durations", "--data", str(sets)])
    with pytest.raises(SystemExit):
        durations_study.main()
    assert "lacks zeus (github.com/ml-energy/zeus, Apache-2.0): put" in capsys.readouterr().err
