import numpy as np
import pytest

from msbgen.data.devices import shipped_device
from msbgen.data.graph_runs import (
    graph_run_rows,
    make_graph_runs,
    read_graph_runs,
    run_contexts,
    validate_graph_runs,
    write_graph_runs,
)
from msbgen.data.tables import write_table
from msbgen.errors import ArgumentError, ProfileError

TX2 = shipped_device("tx2")


def some(n=3, **changes):
    contexts = np.tile(TX2.largest, (n, 1))
    contexts[:, 0] = np.arange(n) % 3
    values = {"time": np.arange(1.0, n + 1), "energy": 8 * np.arange(1.0, n + 1), **changes}
    return make_graph_runs(["lu", "fft", "lu"][:n], contexts, device=TX2, **values)


@pytest.mark.parametrize("end", ["nc", "csv"])
def test_runs_survive_a_file(tmp_path, end):
    runs = some(temperature=[30.0, 40.5, 28.0])
    path = tmp_path / f"runs.{end}"
    if end == "nc":
        write_graph_runs(runs, path, TX2)
    else:
        write_table(graph_run_rows(runs, TX2), path)
    again = read_graph_runs(path, TX2)
    for name in runs:
        assert np.array_equal(again[name].values, runs[name].values), name
    assert np.array_equal(run_contexts(again, TX2), run_contexts(runs, TX2))


def test_runs_without_a_temperature_start_at_the_ambient_one(tmp_path):
    rows = [
        [cell for cell, name in zip(row, header) if "temperature" not in name]
        for rows in [list(graph_run_rows(some(), TX2))]
        for header in [rows[0]]
        for row in rows
    ]
    write_table(rows, tmp_path / "runs.csv")
    assert np.all(read_graph_runs(tmp_path / "runs.csv", TX2)["temperature"] == TX2.ambient)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"time": [1.0, 0.0, 1.0]}, "'time' of run 1 is 0 s"),
        ({"time": [1.0, np.nan, 1.0]}, "'time' of run 1 is missing"),
        ({"energy": [8.0, 16.0, 2400.0]}, r"energy of run 2 is 2400 J in 3 s, 800 W, .*mend"),
        ({"time": [1000.0, 2000.0, 3000.0]}, r"energy of run 0 is 8 J in 1000 s"),
        ({"temperature": [20.0, 20.0, 3e4]}, "'temperature' of run 2 is 30000 degC"),
        ({"energy": [1.0]}, "energy is of 1 runs"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(changes, sentence):
    with pytest.raises(ArgumentError, match=sentence):
        some(**changes)


def test_a_clock_that_is_no_level_is_named():
    contexts = np.tile(TX2.largest, (1, 1))
    contexts[0, 1] = 2.0
    with pytest.raises(ArgumentError, match=r"clock_denver is 2 in context 0.*2\.0352"):
        make_graph_runs(["lu"], contexts, [1.0], [8.0], TX2)


def test_runs_are_of_their_device_and_whole():
    runs = some()
    with pytest.raises(ProfileError, match="are of device 'tx2'; the sheet is of 'orin"):
        validate_graph_runs(runs, shipped_device("orin-nx"))
    with pytest.raises(ProfileError, match="'energy' is missing"):
        validate_graph_runs(runs.drop_vars("energy"), TX2)
    with pytest.raises(ProfileError, match="units 'ms'"):
        validate_graph_runs(runs.assign(time=runs["time"].assign_attrs(units="ms")), TX2)
    with pytest.raises(ProfileError, match="attribute 'schema'"):
        validate_graph_runs(runs.drop_attrs(), TX2)
    with pytest.raises(ProfileError, match="empty"):
        validate_graph_runs(runs.isel(run=slice(0)), TX2)
    with pytest.raises(ProfileError, match="names are wanted"):
        validate_graph_runs(runs.assign(graph=runs["time"]), TX2)


@pytest.mark.parametrize(
    ("line", "cell", "sentence"),
    [
        (0, "tme [s]", r"line 1: column 'tme \[s\]' is unknown; did you mean 'time \[s\]'"),
        (0, "", "column '' is unknown"),
        (2, "quick", "line 3: .* is 'quick'; a number"),
        (2, None, "line 3: .* has 9 cells; 10 are wanted"),
    ],
)
def test_a_bad_table_is_told_by_its_line(tmp_path, line, cell, sentence):
    rows = list(graph_run_rows(some(), TX2))
    at = rows[0].index("time [s]")
    rows[line] = [*rows[line][:at], *([] if cell is None else [cell]), *rows[line][at + 1 :]]
    write_table(rows, tmp_path / "runs.csv")
    with pytest.raises(ProfileError, match=sentence):
        read_graph_runs(tmp_path / "runs.csv", TX2)


def test_a_table_without_rows_or_columns_is_refused(tmp_path):
    rows = list(graph_run_rows(some(), TX2))
    write_table(rows[:1], tmp_path / "runs.csv")
    with pytest.raises(ProfileError, match="no runs"):
        read_graph_runs(tmp_path / "runs.csv", TX2)
    write_table([row[:-1] for row in rows], tmp_path / "less.csv")
    with pytest.raises(ProfileError, match=r"'energy \[J\]' is missing"):
        read_graph_runs(tmp_path / "less.csv", TX2)
