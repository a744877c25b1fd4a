"""``msbgen generate``."""

from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

from msbgen.data.schema import context_table
from msbgen.data.store import read_profiles, write_profiles
from msbgen.engine.generate.model import ProfileModel

GENERATE = ("generate", "measured.nc", "-o", "o.nc", "--contexts")


def test_generate_from_a_csv_with_every_option(folder, msbgen):
    (folder / "c.csv").write_text("frequency,cache_ways\n1.5, 3\n\n2.0,8\n")
    done = msbgen(
        *GENERATE, "c.csv", "--kind", "sample", "--samples", 3, "--interval", "20ms",
        "--preset", "paper", "--epsilon", 0.05, "--seed", 4, "--model", "model.nc",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    out = read_profiles(folder / "o.nc")
    np.testing.assert_array_equal(context_table(out), [[3.0, 1.5], [8.0, 2.0]])
    assert out.sizes["sample"] == 3
    assert (out.attrs["interval"], out.attrs["epsilon"], out.attrs["seed"]) == (0.02, 0.05, 4)
    assert ProfileModel.load(folder / "model.nc").distribution.settings.epsilon == 0.05


def test_contexts_of_a_file_whose_resources_come_in_another_order(folder, truth, msbgen):
    order = ["frequency", "cache_ways"]
    turned = truth.drop_vars(order).assign_coords({name: truth[name] for name in order})
    write_profiles(turned, folder / "turned.nc")
    done = msbgen(*GENERATE, "turned.nc", "--kind", "mean")
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(
        context_table(read_profiles(folder / "o.nc")), context_table(truth)
    )


BAD_DATA = [
    ("head.csv", "line 1 is 'ways,clock'"),
    ("row.csv", "line 3 is '4,fast'"),
    ("short.csv", "line 2 has 1 cells, the header 2"),
    ("none.csv", "no contexts below"),
    ("twice.csv", "twice.csv: line 4 repeats the context of line 2"),
    ("endless.csv", "endless.csv: cannot be read as a table"),
    ("far.csv", "far.csv: resource 'frequency' is 1.5e+09 in line 2, about 1e+09 times"),
    ("zero.csv", "zero.csv: resource 'cache_ways' is 0 in line 3; a positive number"),
    ("other.nc", "other.nc: has contexts of ways, frequency; the resources cache_ways"),
]


@pytest.mark.parametrize(("source", "sentence"), BAD_DATA, ids=[name for name, _ in BAD_DATA])
def test_contexts_that_are_none_of_this_task_are_bad_data(
    folder, truth, refused, source, sentence, monkeypatch
):
    (folder / "head.csv").write_text("ways,clock\n1,2\n")
    (folder / "row.csv").write_text("cache_ways,frequency\n2,1\n4,fast\n")
    (folder / "short.csv").write_text("cache_ways,frequency\n4\n")
    (folder / "none.csv").write_text("cache_ways,frequency\n")
    (folder / "twice.csv").write_text("cache_ways,frequency\n3,1.5\n4,1\n3,1.5\n")
    (folder / "endless.csv").write_text("cache_ways,frequency\n" + "1" * 200_000 + ",2\n")
    (folder / "far.csv").write_text("cache_ways,frequency\n3,1.5e9\n")
    (folder / "zero.csv").write_text("cache_ways,frequency\n3,1.5\n0,1.5\n")
    write_profiles(truth.rename(cache_ways="ways"), folder / "other.nc")
    monkeypatch.setattr("msbgen.engine.generate.fit.fit_model", None)  # refused before the fit
    refused(3, sentence, *GENERATE, source)


USAGE = [
    (["all", "--epsilon", "-1"], "'-1'"),
    (["all", "--samples", "0"], "'0'"),
    (["all", "--seed", "-1"], "'-1'"),
    (["all", "--interval", "fast"], "'fast' is not a time"),
    (["all", "--interval", "1e-12"], "GB"),
    (["all", "--model", "o.nc"], "o.nc: is the output 'o.nc', too; name another output"),
    (["all", "--model", "-"], "'-' (stdout) is for tables only"),
    (["grid:2"], "a number of levels for each of cache_ways, frequency is wanted"),
    (["grid:9x2"], "a number from 1 to 4 is wanted"),
    (["grid:two"], "as 5x5x3, is wanted"),
]


@pytest.mark.parametrize(("given", "sentence"), USAGE, ids=lambda v: str(v)[-20:])
def test_usage_errors(folder, refused, given, sentence):
    refused(2, sentence, *GENERATE, *given)


OUTPUTS = [
    ("truth.nc", [], "exists already"),
    ("no/o.nc", [], "make it first"),
    ("/proc/o.nc", [], "/proc"),
    (".", ["--force"], "no regular file"),
    ("measured.nc", ["--force"], "another"),
    ("dangling.nc", [], "exists already"),
    ("-", [], "'-' (stdout) is for tables only"),
    ("c.csv", ["--force"], "c.csv: is the input 'c.csv', too; name another output"),
]


@pytest.mark.parametrize(("out", "given", "sentence"), OUTPUTS, ids=lambda v: str(v)[-20:])
def test_outputs_that_cannot_be_written_are_refused_before_the_work(
    folder, refused, out, given, sentence
):
    (folder / "dangling.nc").symlink_to("nowhere.nc")
    (folder / "c.csv").write_text("cache_ways,frequency\n3,1.5\n")
    refused(2, sentence, "generate", "measured.nc", "-o", out, "--contexts", "c.csv", *given)


def test_force_overwrites_and_writes_through_a_link(folder, msbgen):
    (folder / "link.nc").symlink_to("truth.nc")
    arguments = ("--contexts", "all", "--kind", "mean", "--force")
    done = msbgen("generate", "measured.nc", "-o", "link.nc", *arguments)
    assert done.returncode == 0, done.stderr
    assert (folder / "link.nc").is_symlink()
    assert read_profiles(folder / "truth.nc").sizes["context"] == 12


def test_no_convergence_exits_with_4(folder, msbgen):
    # so small that rounding stops the marginal error above the tolerance
    done = msbgen(*GENERATE, "all", "--epsilon", "1e-18")
    assert done.returncode == 4, done.stderr
    assert "not converged" in done.stderr
    assert "epsilon 1e-18); raise --epsilon." in done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "o.nc").exists()


def test_a_file_written_in_blocks_is_the_same(folder, monkeypatch, msbgen):
    arguments = ["generate", "measured.nc", "--contexts", "all", "--kind", "sample", "--seed", "2"]
    assert msbgen(*arguments, "-o", "one.nc").returncode == 0
    monkeypatch.setattr("msbgen.engine.generate.model._BLOCK_BYTES", 40_000)
    assert msbgen(*arguments, "-o", "many.nc").returncode == 0
    one, many = read_profiles(folder / "one.nc"), read_profiles(folder / "many.nc")
    xr.testing.assert_allclose(many, one, rtol=1e-6)
    assert one.attrs == many.attrs
    assert (one.attrs["preset"], one.attrs["seed"]) == ("default", 2)
    assert msbgen(*arguments[:-1], "3", "-o", "other.nc").returncode == 0
    assert not one["duration"].equals(read_profiles(folder / "other.nc")["duration"])


def test_what_no_disk_and_no_memory_could_hold_is_refused(folder, monkeypatch, refused):
    (folder / "c.csv").write_text("cache_ways,frequency\n3,1.5\n")
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1e2))
    refused(2, "GB or more, 1e-07 GB are free", *GENERATE, "all")
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1e30))
    many = ("--kind", "sample", "--samples", "1000000000")
    refused(2, "one context is", *GENERATE, "c.csv", *many)
