"""What the benchmarks make of their figures; the figures themselves are no test's business."""

import dataclasses
import math
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import msbgen
from conftest import synthetic_task

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))

import fidelity
from bench_generate import Stages
from run_all import Figure, figures
from tables import markdown, put_into_readme
from timing import interleaved, run_python, slope

GRID = np.array([(w, f) for w in (2.0, 4.0, 8.0) for f in (1.0, 1.5, 2.0)])
PAIR = {"n": 1000, "epsilon": 0.1, "notes": {"pot sinkhorn": "does not reach the target"}}


def test_a_target_is_met_from_its_own_side_only():
    assert Figure("a", 5.0, 5.0, True, "×").verdict == "met"
    assert Figure("a", 4.9, 5.0, True, "×").verdict == "missed"
    assert Figure("a", 4.9, 5.0, False, "s").verdict == "met"
    assert Figure("a", 5.1, 5.0, False, "s").cells() == ["a", "5.1 s", "≤ 5 s", "missed"]


def test_the_fastest_variant_of_a_peer_counts_and_a_missing_peer_is_said():
    rows = [{**PAIR, "ratio": {"msbgen": 1.0, "ott kernel": 30.0, "ott lse": 20.0}}]
    pot, ott = figures({"solver": {"pair": rows}})
    assert math.isnan(pot.value)
    assert pot.cells()[1:] == ["—", "≥ 5 ×", "pot sinkhorn does not reach the target"]
    assert (ott.value, ott.target, ott.verdict) == (20.0, 15.0, "met")
    (_, missing) = figures({"solver": {"pair": [{**PAIR, "ratio": {"msbgen": 1.0}}]}})
    assert missing.verdict == "peer not installed"


def test_stages_count_what_is_inside_another_for_itself():
    stages = Stages()
    with stages.of("outer"):
        time.sleep(0.02)
        stages.calls("inner", time.sleep)(0.05)
        assert list(stages.each("items", iter([1, 2]))) == [1, 2]
    assert 0.02 <= stages.seconds["outer"] < 0.05
    assert stages.seconds["inner"] >= 0.05


def test_a_slope_is_the_exponent():
    assert slope([1, 10, 100], [2.0, 200.0, 20000.0]) == pytest.approx(2.0)


def test_contenders_take_turns():
    called = []
    seconds = interleaved({n: lambda n=n: called.append(n) for n in "ab"}, 2)
    assert called == list("ababab")
    assert seconds.keys() == {"a", "b"}


def test_a_process_tells_its_peak_memory_and_its_failure():
    run = run_python(["-c", "print(len(bytearray(2 ** 29)))"])
    assert run.output == f"{2**29}\n"
    assert 2**29 < run.peak_bytes < 2**30
    assert run.cpu_seconds > 0
    with pytest.raises(RuntimeError, match="ended with 3"):
        run_python(["-c", "raise SystemExit(3)"])


@pytest.mark.parametrize("name", list(fidelity.ABLATIONS))
def test_what_stands_in_for_a_part_takes_what_the_generator_passes(name, monkeypatch):
    settings, stand_ins = fidelity.ABLATIONS[name]
    for place, stand_in in stand_ins.items():
        monkeypatch.setattr(place, stand_in)
    train = synthetic_task(GRID, n_runs=2)
    small = dataclasses.replace(settings, bins=40, segments=10)
    made = msbgen.fit_profiles(train, small).generate([[3.0, 1.2]], kind="mean")
    assert np.isfinite(made["duration"].values).all()


def test_a_table_replaces_the_one_between_its_markers(tmp_path):
    readme = tmp_path / "README.md"
    text = "before\n<!-- results: {} -->\nold\n<!-- end -->\nafter\n"
    readme.write_text(text.format("speed") + text.format("tasks"))
    put_into_readme("speed", markdown(["a", "b"], [["1", "2"]]), [readme])
    first, second = readme.read_text().split("after\n")[:2]
    assert first == (
        "before\n<!-- results: speed -->\n| a | b |\n| --- | --- |\n| 1 | 2 |\n<!-- end -->\n"
    )
    assert second == text.format("tasks").removesuffix("after\n")
