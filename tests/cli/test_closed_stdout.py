"""Files and verdict come before any text: a closed stdout costs the text only, in every verb."""

import contextlib
import importlib.util
import os
import shutil
from types import SimpleNamespace

import mutate_originals
import pytest
import xarray as xr
from mutate_readers import readers

from msbgen import platform
from msbgen.answers.evaluate import scores
from msbgen.answers.evaluate.scores import score_methods
from msbgen.cli import demo
from msbgen.cli.main import command_line, main
from msbgen.data.store import read_profiles, write_profiles
from msbgen.sources.measure.sweep.profiles import IncompleteError
from msbgen.systems.kernels import dataset as kernels
from msbgen.systems.kernels.measure import run_campaign
from verbs import outputs_of

CLOSED = ("before", "during", "after")
# Verbs that measure: their work is replaced below, or on a fake kernel in `test_measure`.
MEASURING = {"demo", "kernels measure", "measure", "platform record"}
# Verdicts: the command, its code, and the files that it writes all the same.
VERDICTS = {
    "compare measured.nc slower.nc --fail-above 2% --json z.json -o z.csv": (6, "z.json z.csv"),
    "compare measured.nc slower.nc --fail-above 2% --markdown --report z.html": (6, "z.html"),
    "compare other.nc measured.nc --fail-above 1.5% --strict --json z.json": (7, "z.json"),
    "choose model-calibrated.nc --deadline 1ms --cost cache_ways=1 --miscoverage 0.4": (6, ""),
    "check broken.nc": (3, ""),
    "batch partly.toml -o many": (5, "many/index.html many/small/bounds.nc"),
}

pytestmark = pytest.mark.usefixtures("short_training")  # no command here is one of accuracy


@pytest.fixture(scope="module")
def originals(tmp_path_factory, short_training):
    folder = tmp_path_factory.mktemp("originals")
    with pytest.MonkeyPatch.context() as patch:  # no command here reads the network, of torch
        patch.setattr(mutate_originals, "_make_network", lambda runs, given: None)
        mutate_originals.make_originals(folder)
    measured = read_profiles(folder / "measured.nc")
    with xr.set_options(keep_attrs=True):
        slower = measured.assign(duration=2 * measured["duration"], time=2 * measured["time"])
        write_profiles(
            slower.assign_attrs(interval=2 * measured.attrs["interval"]), folder / "slower.nc"
        )
        measured.assign(duration=-measured["duration"]).to_netcdf(folder / "broken.nc")
    (folder / "partly.toml").write_text(
        (folder / "batch.toml").read_text() + '[[task]]\nmeasured = "broken.nc"\n'
    )
    return folder


@pytest.fixture
def succeeds(originals, tmp_path, closed_stdout):
    """A command has its code and writes its files, whenever its stdout is closed."""

    def check(command, code, files, copied=()):
        for when in CLOSED:
            place = tmp_path / when  # links to the originals, and outputs that are new files
            shutil.copytree(originals, place, copy_function=os.link)
            if copied:
                shutil.copy(*(place / name for name in copied))
            with closed_stdout(when), contextlib.chdir(place):
                assert main(command.split()) == code, when
            assert [name for name in files if not (place / name).exists()] == [], when

    return check


def commands():
    """One command of each verb that writes files."""
    names = sorted({name for name, _ in outputs_of(command_line())} - MEASURING)
    made = {}
    for name in names:
        for reader in readers():
            if " ".join(reader.verb).startswith(f"{name} ") and reader.outputs:
                made.setdefault(name, reader)
    assert sorted(made) == names
    return made.values()


@pytest.mark.parametrize("reader", commands(), ids=str)
def test_every_verb_writes_its_files(succeeds, reader):
    names = (reader.original, reader.spoilt)
    succeeds(str(reader).replace("IN", reader.spoilt), 0, reader.outputs, names)


@pytest.mark.parametrize("command", VERDICTS)
def test_every_verdict_is_that_of_an_open_stdout(succeeds, command):
    code, files = VERDICTS[command]
    succeeds(command, code, files.split())


@pytest.mark.parametrize("when", CLOSED)
def test_verbs_that_measure_write_their_files(closed_stdout, monkeypatch, tmp_path, when):
    monkeypatch.setattr(demo, "PLANNED", 8)
    monkeypatch.setattr(demo, "HELD_BACK", 4)
    monkeypatch.setattr(scores, "score_methods", one_method)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)  # no pictures
    monkeypatch.setattr(platform, "record_trace", record)
    monkeypatch.setattr(run_campaign, "measure_kernels", measure_kernels)
    monkeypatch.setattr(kernels, "describe", str)
    (tmp_path / "campaign.toml").write_text('networks = ["squeezenet"]\n')
    with closed_stdout(when), contextlib.chdir(tmp_path):
        assert main(["demo", "--task", "gzip", "-o", "out"]) == 0
        assert main(["platform", "record", "-o", "trace.nc", "--", "true"]) == 0
        assert main(["kernels", "measure", "campaign.toml", "-o", "kernels.nc"]) == 5
    for name in ("out/measured.nc", "out/scores.json", "trace.nc", "kernels.nc"):
        assert (tmp_path / name).exists()


def one_method(train, truth, methods, **given):
    return score_methods(train, truth, {"bracketing": methods["bracketing"]}, **given)


def record(command, out, **options):
    out.touch()
    return xr.Dataset({"instructions": ("interval", [1.0])})


def measure_kernels(spec, out, **options):
    def check_complete():
        raise IncompleteError("a session failed.")

    out.touch()
    return SimpleNamespace(
        kernels=SimpleNamespace(), workloads=xr.Dataset(coords={"launch": [0]}),
        check_complete=check_complete,
    )  # fmt: skip
