"""What the README shows runs as it stands."""

import re
from pathlib import Path

import msbgen

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def test_the_library_examples_run(thinned, monkeypatch, capsys):
    first, bounds = blocks("python")
    assert len([line for line in first.splitlines() if line.strip()]) <= 20
    monkeypatch.chdir(thinned.parent)
    names = {}
    exec(compile(first, "README.md", "exec"), names)
    assert names["mean"].sizes["context"] == 100
    assert names["one"].sizes["context"] == 1
    assert "bracketing" in capsys.readouterr().out
    exec(compile(bounds, "README.md", "exec"), names)
    assert names["answer"].duration < names["answer"].bound < 1.1 * names["answer"].duration
    assert "duration_bound" in capsys.readouterr().out
    assert msbgen.CalibratedModel.load("gzip-calibrated.nc").duration_bound(names["wanted"]).all()


def test_continuous_integration_runs_the_readme_test_command():
    (command,) = [line for text in blocks("sh") for line in text.splitlines() if "pytest" in line]
    assert command in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
