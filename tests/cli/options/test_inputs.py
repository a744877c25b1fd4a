"""Contexts from wherever they come, and files before the work."""

import argparse
import json
import os
from pathlib import Path

import numpy as np
import pytest

from msbgen.cli import options
from msbgen.cli.main import command_line
from msbgen.core.errors import ArgumentError, MeasurementError, ProfileError

LEVELS = {"ways": [2.0, 4.0, 6.0], "clock": [1.0, 1.5]}

# --------------------------------------------------------------------------- contexts


def test_all_contexts_are_the_grid_of_all_levels():
    every = options.contexts("all", LEVELS)
    np.testing.assert_array_equal(every, options.contexts("grid:3x2", LEVELS))
    assert len(np.unique(every, axis=0)) == 6
    np.testing.assert_array_equal(
        options.contexts("grid:2x1", LEVELS), [[2.0, 1.5], [6.0, 1.5]]
    )  # the ends, and the highest where one is wanted


@pytest.mark.parametrize("source", ["all", "grid:1x1"])
def test_levels_that_nobody_knows_are_asked_for(source):
    with pytest.raises(ProfileError, match="'clock' has no attribute 'levels'"):
        options.contexts(source, {**LEVELS, "clock": []})


def test_what_is_wrong_with_contexts_of_a_file_is_bad_data():
    for error in (ArgumentError, MeasurementError):
        with (
            pytest.raises(ProfileError, match=r"c.csv: ways are -1; more are wanted\."),
            options.errors_from("c.csv"),
        ):
            raise error("ways are -1; more are wanted.")
    with pytest.raises(ProfileError, match=r"^other\.nc: broken\.$"), options.errors_from("c.csv"):
        raise ProfileError("other.nc: broken.")  # which names its place already


# --------------------------------------------------------------------------- files


@pytest.fixture
def special(tmp_path):
    """Paths by what they are that no verb may read."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "spec.toml").write_text(
        'command = ["echo", "{n}"]\nevents = ["task-clock"]\n'
        '[resources.n]\nby = "argument"\nlevels = [1]\n'
    )
    return {"pipe": "pipe", "folder": "folder", "device": "/dev/zero", "nothing": "nowhere.nc"}


# Arguments of the verbs, where X is the file to read.
READING = {
    "check": "check X",
    "generate": "generate X -o o.nc --contexts all",
    "generate contexts": "generate measured.nc -o o.nc --contexts X",
    "generate power_of": "generate measured.nc -o o.nc --contexts all --power-of X",
    "bound": "bound X --contexts all",
    "bound contexts": "bound measured.nc --contexts X",
    "batch tasks": "batch X -o o",
    "report": "report X -o o.html",
    "report truth": "report measured.nc --truth X -o o.html",
    "report generated": "report measured.nc --truth truth.nc --generated X -o o.html",
    "report contexts": "report measured.nc --contexts X -o o.html",
    "evaluate": "evaluate X --leave-out 2",
    "evaluate truth": "evaluate measured.nc --truth X -o scores",
    "evaluate generated": "evaluate measured.nc --truth truth.nc --generated X",
    "compare files": "compare X measured.nc",
    "compare weights": "compare measured.nc truth.nc --weights X",
    "compare contexts": "compare measured.nc truth.nc --contexts X",
    "plan": "plan X --budget 3 -o p.csv",
    "replay": "platform replay X -o o.nc --contexts all",
    "replay contexts": "platform replay measured.nc -o o.nc --contexts X",
    "replay onto": "platform replay measured.nc -o o.nc --contexts all --with X",
    "import recordings": "import X -o o.nc",
    "import manifest": "import --manifest X -o o.nc",
    "import columns": "import --manifest measured.nc --form table --columns X -o o.nc",
    "phases": "realtime phases X -o o.nc",
    "allocate tables": "realtime allocate X --progress 0 --capacity cache_ways=5",
    "taskset": "realtime taskset X -o s --capacity cache_ways=5 --utilisation 1",
    "taskset tasks": "realtime taskset measured.nc --tasks X -o s --capacity cache_ways=8",
    "simulate": "realtime simulate X --tables . --truth . -o o.nc",
    "machines queue": "machines queue X -o out",
    "kernels choose table": "kernels choose X",
    "kernels choose bounds": "kernels choose measured.nc --bounds X",
    "runtime import source": "runtime import X -o o.nc",
    "runtime fit runs": "runtime fit X -o o.nc",
    "runtime predict model": "runtime predict X --wanted measured.nc",
    "runtime predict wanted": "runtime predict measured.nc --wanted X",
    "runtime bound model": "runtime bound X --wanted measured.nc",
    "runtime bound wanted": "runtime bound measured.nc --wanted X",
    "runtime evaluate runs": "runtime evaluate X",
    "machines import source": "machines import X -o o.nc",
    "machines fit runs": "machines fit X -o o.nc",
    "machines predict model": "machines predict X --runs measured.nc --source a",
    "machines predict runs": "machines predict measured.nc --runs X --source a",
    "machines evaluate runs": "machines evaluate X",
    "kernels import source": "kernels import X --columns measured.nc -o o.nc",
    "kernels fit runs": "kernels fit X -o o.nc",
    "kernels predict model": "kernels predict X --workload measured.nc",
    "kernels predict workload": "kernels predict measured.nc --workload X",
    "kernels predict contexts": "kernels predict measured.nc --workload truth.nc --contexts X",
    "kernels evaluate runs": "kernels evaluate X",
    "kernels import columns": "kernels import measured.nc --columns X -o o.nc",
    "kernels choose columns": "kernels choose measured.nc --columns X",
    "kernels measure spec": "kernels measure X -o o.nc",
    "graph check graph": "graph check X",
    "graph check tasks": "graph check measured.nc --tasks X",
    "graph simulate graph": "graph simulate X --device tx2 --profiles . --contexts all -o o.nc",
    "graph simulate contexts": (
        "graph simulate measured.nc --device tx2 --profiles . --contexts X -o o.nc"
    ),
    "graph fit runs": "graph fit X --device tx2 --graphs . --profiles . -o o.nc",
    "graph predict model": "graph predict X measured.nc --device tx2 --contexts all",
    "graph predict graph": "graph predict measured.nc X --device tx2 --contexts all",
    "graph predict contexts": "graph predict measured.nc measured.nc --device tx2 --contexts X",
    "graph choose model": "graph choose X measured.nc --device tx2 --contexts all",
    "graph choose graph": "graph choose measured.nc X --device tx2 --contexts all",
    "graph choose contexts": "graph choose measured.nc measured.nc --device tx2 --contexts X",
    "measure spec": "measure X -o o.nc",
    "measure contexts": "measure measured.nc -o o.nc --contexts X",
    "measure onto": "measure spec.toml -o o.nc --with X",
    "measure restore": "measure --restore X",
    "find spec": "find X --deadline 1s --cost cache_ways=1 --budget 9 -o out",
    "find on": "find --on X --deadline 1s --cost cache_ways=1 --budget 9 -o out",
    "choose files": "choose X --deadline 1s --cost cache_ways=1",
    "choose deadlines": "choose --deadlines X --cost cache_ways=1 --total cache_ways=20",
    "choose contexts": "choose measured.nc --deadline 1s --cost cache_ways=1 --contexts X",
    "export files": "export X --format perfetto -o o.pftrace",
    "export contexts": "export measured.nc --format perfetto -o o.pftrace --contexts X",
    "beside predict files": "beside predict X measured.nc",
    "beside repair files": "beside repair X measured.nc",
    "beside choose files": "beside choose X measured.nc",
    "replay beside": "platform replay measured.nc -o o.nc --contexts all --beside X",
    "record stdin": "platform record -o o.nc --stdin X -- true",
}


@pytest.mark.parametrize("arguments", READING.values(), ids=READING)
def test_every_verb_refuses_what_is_no_file_before_opening_it(folder, special, refused, arguments):
    for kind, path in special.items():
        sentence = f"{path}: no such file" if kind == "nothing" else f"{path}: is "
        if kind == "folder" and arguments.startswith("runtime import"):  # it may hold archives
            sentence = "folder/data.npz: no such file; a folder with data.npz is wanted."
        if kind == "folder" and arguments.startswith("batch"):  # it may hold profile files
            sentence = "folder: holds no task; add a profile file (*.nc)."
        refused(3, sentence, *[path if a == "X" else a for a in arguments.split()])


def test_every_option_that_names_an_input_is_tried_above():
    """A verb that learns to read another file must be listed in READING."""

    def inputs(parser):
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for name, verb in action.choices.items():
                    for option in inputs(verb):
                        found = f"{name} {option}"
                        for verb_of_parts in ("platform ", "realtime "):
                            found = found.removeprefix(verb_of_parts)
                        yield found
            elif action.dest == "contexts" or action.type is Path:
                yield action.dest

    found = {
        name.removesuffix(" measured").removesuffix(" file").removesuffix(" trace")
        for name in inputs(command_line())
    }
    assert found == set(READING)


def test_figures_that_are_no_numbers_are_null_in_json(tmp_path):
    figures = {"a": np.nan, "b": [np.inf, -np.inf, 1.5, 2], "c": {"d": (np.float64("nan"), "nan")}}
    options.write_json(figures, tmp_path / "f.json", force=False)

    def no_json(constant):
        raise AssertionError(constant)

    read = json.loads((tmp_path / "f.json").read_text(), parse_constant=no_json)
    assert read == {"a": None, "b": [None, None, 1.5, 2], "c": {"d": [None, "nan"]}}


def test_a_table_goes_to_a_file_or_is_shown(tmp_path, capsys):
    rows = [["program", "error"], ["a,b", 0.5]]
    options.write_or_show_table(iter(rows), None, "two rows", force=False)
    options.print_results()
    assert capsys.readouterr().out == 'program,error\n"a,b",0.5\n'
    path = tmp_path / "t.csv"
    options.write_or_show_table(iter(rows), path, "two rows", force=False)
    options.print_results()
    assert path.read_text() == 'program,error\n"a,b",0.5\n'
    assert capsys.readouterr().out == f"{path}: two rows\n"
    with pytest.raises(FileExistsError):
        options.write_or_show_table(iter(rows), path, force=False)


def test_scores_have_four_digits_and_a_header(tmp_path):
    def evaluate(runs, folds, progress):
        assert (runs, folds) == ("runs", 2)
        return [
            {"method": "mean", "rows": 3, "error": 1 / 3, "tenfold": 0, "coverage_0.05": 1.0},
            {"method": "b", "rows": 4, "error": 2.0, "tenfold": 1, "coverage_0.05": 0.5},
        ]

    given = argparse.Namespace(runs=Path("r.nc"), out=tmp_path / "t.csv", force=False)
    options.write_scores(evaluate, "runs", given, folds=2)
    options.print_results()
    assert given.out.read_text().splitlines() == [
        "method,rows,relative error,off tenfold [runs],coverage at 0.05 [share of runs]",
        "mean,3,0.3333,0,1.0000",
        "b,4,2.0000,1,0.5000",
    ]
