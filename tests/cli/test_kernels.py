"""``msbgen kernels``: from a table to times and watts at every clock."""

import pytest

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
    sentence = "'runtime' is 0 s at measurement 0 (a); a positive number is wanted"
    refused(3, sentence, "kernels", "import", "k.csv", "--columns", "map.toml", "-o", "k.nc")
