"""Finding what ships, in a checkout and in an installed package."""

import pytest

from msbgen.core.errors import ArgumentError
from msbgen.data import shipped
from msbgen.data.shipped import shipped_file, shipped_folder
from msbgen.data.store import read_profiles


def test_profiles_and_traces_are_found():
    assert read_profiles(shipped_file("gzip.nc")).attrs["task"] == "gzip"
    assert shipped_file("traces/gzip.nc").is_file()


@pytest.mark.parametrize("name", ["zip.nc", "", "../README.md", "traces", "/etc/passwd"])
def test_what_does_not_ship_is_refused_with_what_does(name):
    with pytest.raises(ArgumentError, match=r"bzip2\.nc, .* is wanted"):
        shipped_file(name)


@pytest.mark.parametrize("inside", [True, False])
def test_an_installed_package_holds_its_own(inside, tmp_path, monkeypatch):
    package = tmp_path / "site-packages" / "msbgen"
    package.mkdir(parents=True)
    folder = (package if inside else package.parent) / "profiles"
    folder.mkdir()
    (folder / "some.nc").touch()
    monkeypatch.setattr(shipped, "_PACKAGE", package)
    assert shipped_folder() == folder
    assert shipped_file("some.nc") == folder / "some.nc"
