"""``msbgen kernels``: from a table to times and watts at every clock."""

import csv

import numpy as np
import pytest

from kernelling import made_kernels
from msbgen.systems.kernels.dataset import runtimes_of
from msbgen.systems.kernels.dataset import write as write_kernels

TABLE = "name,t,f,m,watts\na,2,500,64,10\na,1,1000,64,15\n"
MAP = """resources = ["clock"]
[columns]
kind = "name"
"runtime [ms]" = "t"
"clock [MHz]" = "f"
m = "m"
"power [W]" = "watts"
"""


@pytest.fixture
def table(tmp_path):
    (tmp_path / "k.csv").write_text(TABLE)
    (tmp_path / "map.toml").write_text(MAP)
    return tmp_path


def test_a_table_becomes_a_file_that_check_describes(msbgen, table):
    done = msbgen("kernels", "import", "k.csv", "--columns", "map.toml", "-o", "k.nc")
    assert done.returncode == 0
    assert "power         2 readings, from 10 to 15 W" in done.stdout
    checked = msbgen("check", "k.nc")
    assert checked.returncode == 0
    assert "no problem found" in checked.stdout


def test_a_broken_table_is_bad_data(refused, table):
    (table / "k.csv").write_text(TABLE.replace("2,500", "0,500"))
    sentence = "line 2 has the runtime '0'; a positive number is wanted, from 1e-12 to 1e+12"
    refused(3, sentence, "kernels", "import", "k.csv", "--columns", "map.toml", "-o", "k.nc")


@pytest.fixture
def fitted(tmp_path, msbgen):
    write_kernels(made_kernels(noise=0.002), tmp_path / "k.nc")
    (tmp_path / "w.csv").write_text("workload,kind,count,m,k,n\none,matmul,2,80,80,80\n")
    done = msbgen("kernels", "fit", "k.nc", "-o", "model.nc", "--folds", "3")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "model.nc: runtime and power of matmul over clock\n"
    return tmp_path


def test_from_measurements_to_the_energy_of_a_network_at_every_clock(fitted, msbgen):
    done = msbgen("kernels", "predict", "model.nc", "--workload", "w.csv")
    assert (done.returncode, done.stderr) == (0, "")
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert [r["clock [MHz]"] for r in rows] == ["200", "400", "600", "800", "1000"]
    truth = 2 * runtimes_of(made_kernels(sizes=(80,)))
    message = np.array([float(r["runtime [s]"]) for r in rows])
    np.testing.assert_allclose(message, truth, rtol=0.03)
    for r in rows:
        watts, joules = float(r["power [W]"]), float(r["energy [J]"])
        assert joules == pytest.approx(watts * float(r["runtime [s]"]), rel=1e-4)
        assert r["extrapolated"] == "0"
    (fitted / "c.csv").write_text("clock\n500\n1500\n")
    arguments = ("--workload", "w.csv", "--contexts", "c.csv", "-o", "o.csv")
    done = msbgen("kernels", "predict", "model.nc", *arguments)
    assert done.stdout == "o.csv: 2 configurations\n"
    written = list(csv.DictReader((fitted / "o.csv").open()))
    assert [r["extrapolated"] for r in written] == ["0", "1"]


def test_what_is_asked_amiss_is_named_by_its_own_file(fitted, refused):
    ask = ("kernels", "predict", "model.nc", "--workload", "w.csv")
    (fitted / "c.csv").write_text("clock\n500\n-1\n")
    refused(3, "c.csv: resource 'clock' is -1 in line 3; a positive", *ask, "--contexts", "c.csv")
    (fitted / "c.csv").write_text("clock\n500\n1e120\n")
    refused(3, "'clock' is 1e+120 in line 3, about 1e+117 times", *ask, "--contexts", "c.csv")
    (fitted / "w.csv").write_text("kind,count,m,k\nmatmul,2,80,80\n")
    refused(3, "w.csv: kernel 0, a matmul, has no parameter 'n', which every measured one", *ask)


def test_launches_beyond_what_was_measured_are_marked(fitted, msbgen, refused):
    (fitted / "w.csv").write_text("workload,kind,count,m,k,n\na,matmul,1,80,80,80\n"
                                  "a,matmul,3,4000,4000,4000\nb,conv,1,1,1,1\n")  # fmt: skip
    done = msbgen("kernels", "predict", "model.nc", "--workload", "w.csv", "--network", "a")
    assert "75.0% of the launches are extrapolated" in done.stderr
    assert all(r["extrapolated"] == "1" for r in csv.DictReader(done.stdout.splitlines()))
    ask = ("kernels", "predict", "model.nc", "--workload", "w.csv")
    refused(2, "--network is missing; one of a, b is wanted", *ask)
    refused(3, "w.csv: kernels of kind 'conv', 100.0% of the launches", *ask, "--network", "b")
    refused(3, "w.csv: workload is 'c'; one of a, b", *ask, "--network", "c")


def test_scores_are_a_table(fitted, msbgen):
    done = msbgen("kernels", "evaluate", "k.nc", "--folds", "3")
    assert (done.returncode, done.stderr) == (0, "")
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert {(r["method"], r["quantity"]) for r in rows} == {
        (m, q) for m in ("default", "mean curve") for q in ("runtime", "power")
    }
