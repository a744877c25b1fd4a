"""The study of the whole loop, on made-up measurements; the sweeps themselves need root."""

import tomllib

import loop_study
import numpy as np
import pytest
from scipy.stats import beta

from conftest import synthetic_task
from msbgen.sources.measure.sweep.spec import read_spec

GRID = np.array([(w, f) for w in (2.0, 3.0, 4.0, 6.0, 8.0) for f in (1.0, 1.5, 2.0)])


def test_errors_are_those_against_one_half_of_the_runs():
    train = synthetic_task(np.delete(GRID, [4, 7], axis=0))
    truth = synthetic_task(GRID[[4, 7]], n_runs=6, seed=2)
    found = loop_study.scores(train, truth)
    duration = truth["duration"].values
    noise = np.abs(duration[:, 1::2].mean(axis=1) / duration[:, ::2].mean(axis=1) - 1)
    assert found["errors"]["other half"] == pytest.approx(noise.tolist())
    assert found["error"]["generated"] < 0.03 < found["error"]["multilinear"]
    held = found["bounds"]
    covered = held["covered"]
    assert covered >= 11
    assert held["of"] == 12
    assert held["low"] == pytest.approx(beta.ppf(0.025, covered, 13 - covered))  # Clopper, Pearson


def test_the_spec_has_every_knob_and_contexts_are_found_again(tmp_path):
    path = loop_study.spec(tmp_path, 0.01, runs=2)
    spec = read_spec(path)
    assert {one.name: one.by for one in spec.resources} == {
        "lines": "argument", "buffer": "environment", "n_cores": "cores", "memory": "memory",
    }  # fmt: skip
    assert max(spec.resources[0].levels) == (tmp_path / "words.txt").read_text().count("\n") == 6000
    assert "{lines}" in tomllib.loads(path.read_text())["command"][-1]
    rows = np.array([[1000.0, 4, 1, 64], [6000, 32, 2, 256]])
    table = loop_study.table(tmp_path / "c.csv", rows, np.array([2, 3]))
    assert loop_study.is_among(loop_study.planned(table), rows[1:]).tolist() == [False, True]
