"""Flags of one meaning."""

import argparse
from pathlib import Path

import pytest

from msbgen.cli import options


@pytest.fixture
def verb():
    return argparse.ArgumentParser()


def test_a_table_is_csv_or_stdout(verb, capsys):
    options.add_table_out(verb, "OUT.csv", "the rows")
    assert verb.parse_args([]).out is verb.parse_args(["-o", "-"]).out is None
    assert verb.parse_args(["-o", "a.csv"]).out == Path("a.csv")
    with pytest.raises(SystemExit):
        verb.parse_args(["-o", "a.nc"])
    assert "'a.nc' names a netCDF file; the table is CSV" in capsys.readouterr().err
    assert "write the rows here" in verb.format_help()
