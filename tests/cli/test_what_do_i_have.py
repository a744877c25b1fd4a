"""Four people's data lead to a right answer with a bound by at most three commands, no map."""

import csv
import io
import json

import numpy as np
import pytest

from msbgen.cli.main import main


@pytest.fixture
def said(capsys, monkeypatch, tmp_path):
    """Runs a command in a fresh folder; returns what it printed."""
    monkeypatch.chdir(tmp_path)

    def command(line, code=0):
        assert main(line.split()) == code
        return capsys.readouterr().out

    return command


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_seconds_by_threads_and_size(said, tmp_path):
    rng = np.random.default_rng(5)

    def seconds(threads, size):
        return 0.03 + 0.002 * size * (0.1 + 0.9 / threads)

    lines = [
        f"{t},{s},{1e3 * seconds(t, s) * np.exp(0.01 * rng.standard_normal()):.2f}"
        for t in (1, 2, 4, 8) for s in (100, 300, 900) for _ in range(4)
    ]  # fmt: skip
    (tmp_path / "t.csv").write_text("Threads,Size (MB),Time (ms)\n" + "\n".join(lines) + "\n")
    (tmp_path / "q.csv").write_text("threads,size\n" + "".join(f"{t},600\n" for t in range(1, 9)))
    said("import t.csv -o t.nc")
    (choice, *_) = rows(said(
        "choose t.nc --deadline 500ms --cost threads=1 --miscoverage 0.1 --contexts q.csv"
    ))  # fmt: skip
    threads, bound = int(choice["threads"]), float(choice["duration_bound [s]"])
    assert seconds(threads, 600) < bound <= 0.5
    assert seconds(threads - 2, 600) > 0.5


def test_hyperfine_before_and_after(said, tmp_path):
    rng = np.random.default_rng(6)
    for name, factor in (("old", 1.0), ("new", 1.06)):
        results = [
            {
                "command": f"./pack -l {level} -n {size}",
                "parameters": {"level": str(level), "size": str(size)},
                "times": (factor * level * size * np.exp(0.01 * rng.standard_normal(6))).tolist(),
            }
            for level in (1, 2, 3) for size in (4, 8, 16)
        ]  # fmt: skip
        (tmp_path / f"{name}.json").write_text(json.dumps({"results": results}))
    compared = said("compare old.json new.json")
    assert "./pack -l {level} -n {size}: slower by " in compared
    said("import old.json -o old.nc")
    (tmp_path / "q.csv").write_text("level,size\n2,12\n")
    (bound,) = rows(said("bound old.nc --contexts q.csv --miscoverage 0.2"))
    assert 24 < float(bound["duration_bound"]) < 1.2 * 24


def test_kernels_by_gpu_clocks(said, tmp_path):
    rng = np.random.default_rng(7)
    lines = [
        f"k{k},{mhz},{(2 + k) * (1 + 2000 / mhz) * np.exp(0.005 * rng.standard_normal()):.5f},"
        f"{40 + mhz**2 / 2e4:.2f}"
        for k in range(6) for mhz in (600, 900, 1200, 1500, 1800) for _ in range(2)
    ]  # fmt: skip
    (tmp_path / "g.csv").write_text("kernel,clock_mhz,time_ms,power_w\n" + "\n".join(lines) + "\n")
    said("import g.csv -o g.nc")
    (tmp_path / "q.csv").write_text("kernel,clock\nk2,1000\n")
    (bound,) = rows(said("bound g.nc --contexts q.csv --miscoverage 0.1"))
    time = 4e-3 * 3
    assert time < float(bound["duration_bound"]) < 1.1 * time
    assert 90 * time < float(bound["energy_bound"]) < 1.1 * 90 * time


def test_programs_on_machines(said, tmp_path):
    rng = np.random.default_rng(8)
    work, speed = rng.uniform(1, 30, 14), rng.uniform(0.5, 4, 6)
    times = np.outer(work, 1 / speed) * np.exp(0.03 * rng.standard_normal((14, 6)))
    lines = [f"p{i}," + ",".join("" if (i, j) == (3, 2) else f"{t:.3f}" for j, t in enumerate(row))
             for i, row in enumerate(times)]  # fmt: skip
    head = "program [s]," + ",".join(f"m{j}" for j in range(6))
    (tmp_path / "m.csv").write_text("\n".join([head, *lines]) + "\n")
    (tmp_path / "q.csv").write_text("workload,platform\np3,m2\n")
    said("runtime import m.csv -o m.nc")
    said("runtime fit m.nc -o model.nc")
    (found,) = rows(said("runtime predict model.nc --wanted q.csv"))
    assert float(found["runtime [s]"]) == pytest.approx(work[3] / speed[2], rel=0.15)


def test_every_answer_about_durations_and_no_word_about_counters(said, tmp_path):
    lines = [f"{c},{r},{(0.2 + 2 / c) * (1 + r / 50):.4f}" for c in range(1, 9) for r in range(3)]
    (tmp_path / "t.csv").write_text("cores,run,seconds\n" + "\n".join(lines) + "\n")
    said("import t.csv -o t.nc")
    answers = [
        said(line)
        for line in (
            "check t.nc", "plan t.nc --budget 30s -o -", "plan t.nc --compare 2% -o -",
            "generate t.nc --contexts all --kind sample -o s.nc",
            "bound t.nc --contexts all --miscoverage 0.2", "evaluate t.nc --leave-out 1",
            "choose t.nc --deadline 1s --cost cores=1 --miscoverage 0.2",
            "report t.nc -o r.html", "export --format openmetrics t.nc -o m.txt", "check s.nc",
        )
    ]  # fmt: skip
    assert not any("whole_run" in answer for answer in answers)
    for name in ("r.html", "r.json", "m.txt"):
        assert "whole_run" not in (tmp_path / name).read_text()
    for line in ("export --format perfetto t.nc -o p", "realtime phases t.nc -o p.nc"):
        said(line, 3)
