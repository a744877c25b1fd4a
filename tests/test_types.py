"""Users' checkers know the types of all that is shown, and complain of what is wrong."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pages import PAGES, ROOT, blocks


def complaints(folder, sources):
    """What pyright in strict mode says of sources that use this package, line by line."""
    pytest.importorskip("pyright")
    for name, text in sources.items():
        (folder / name).write_text(text, encoding="utf-8")
    config = {
        "include": ["."],
        "extraPaths": [str(ROOT)],
        "typeCheckingMode": "strict",
        "pythonVersion": f"3.{sys.version_info.minor}",
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


def test_a_strict_checker_knows_every_type_of_what_is_shown_and_complains_of_wrong_ones(tmp_path):
    script = ROOT / "tests" / "public_names.py"
    sources = {f"page_{i}.py": "\n".join(blocks("python", page)) for i, page in enumerate(PAGES)}
    sources["all_names.py"] = script.read_text(encoding="utf-8")
    sources["wrong.py"] = (
        "import msbgen\n\nmsbgen.fit_profiles(3)\nmsbgen.ProfileModel.load('a.nc').no_such\n"
    )
    found = complaints(tmp_path, sources)
    assert {line.split(":")[0] for line in found} == {"wrong.py 3", "wrong.py 4"}, found
