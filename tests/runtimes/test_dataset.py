"""Runtime datasets: in files, described, and what is refused."""

import numpy as np
import pytest
import xarray as xr

from msbgen.core.errors import ProfileError
from msbgen.runtimes.dataset import describe, make, read, run_table, validate, write


def whole():
    return make(
        [1.0, 2.0], [0, 1], [0, 0], [[-1], [0]], [0, 0], workloads=["a", "b"], platforms=["p"],
        workload_features={"f": [1.0, 2.0]},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda ds: ds.assign(beside=ds["beside"] + 3), "'beside' is 2 at observation 0"),
        (lambda ds: ds.assign(workload_index=ds["workload_index"] - 1), "'workload_index' is -1"),
        (lambda ds: ds.assign_coords(workload=["a", "a|b"]), "'a.b' has no usable name"),
        (lambda ds: ds.assign_coords(platform=[" "]), "platform ' ' has no usable name"),
        (
            lambda ds: ds.assign(
                workload_features=ds["workload_features"].copy(data=[[np.nan], [1.0]])
            ),
            "'workload_features' is nan at workload 'a', workload_feature 'f'; a finite number",
        ),
    ],
)
def test_broken_datasets_get_a_sentence(change, sentence):
    assert validate(whole()) is not None
    with xr.set_options(keep_attrs=False), pytest.raises(ProfileError, match=sentence):
        validate(change(whole()), source="runs.nc")


@pytest.mark.parametrize("time", [1e308, 1e-308])
def test_times_that_a_file_could_not_hold_are_refused(time):
    with pytest.raises(ProfileError, match=r"'runtime' is .* at observation 1"):
        write(whole().assign(runtime=whole()["runtime"].copy(data=[1.0, time])), "o")


def test_a_file_holds_the_same_and_equal_bytes(tmp_path):
    for name in ("one.nc", "two.nc"):
        write(whole(), tmp_path / name)
    assert (tmp_path / "one.nc").read_bytes() == (tmp_path / "two.nc").read_bytes()
    again = read(tmp_path / "one.nc")
    np.testing.assert_array_equal(run_table(again), run_table(whole()))
    np.testing.assert_allclose(again["runtime"], whole()["runtime"], rtol=1e-6)
    assert "1 of each workload" in describe(again)
