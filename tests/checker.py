"""What a strict type checker says of code that uses this package."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import msbgen

ROOT = Path(msbgen.__file__).resolve().parent.parent


def complaints(folder, sources):
    """What pyright in strict mode says of sources that use this package, line by line."""
    pytest.importorskip("pyright")
    for name, text in sources.items():
        (folder / name).write_text(text, encoding="utf-8")
    config = {
        "include": ["."],
        "extraPaths": [str(ROOT)],
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "pyright", "--outputjson", "-p", str(folder)]
    run = subprocess.run(
        [*command, "--pythonpath", sys.executable], capture_output=True, text=True, check=False
    )
    if not run.stdout.lstrip().startswith("{"):
        pytest.skip(f"pyright does not start here: {run.stderr[-200:]}")
    found = json.loads(run.stdout)
    assert found["summary"]["filesAnalyzed"] == len(sources)
    return [
        f"{Path(one['file']).name} {one['range']['start']['line'] + 1}: {one['message']}"
        for one in found["generalDiagnostics"]
    ]
