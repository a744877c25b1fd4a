"""The house: which module may import which."""

import ast
import subprocess
import sys
import time
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import msbgen

PACKAGE = Path(msbgen.__file__).parent

LAYERS = {
    0: {"_kernels", "files", "schema"},
    1: {
        "clock",
        "contexts",
        "covariance",
        "bridge",
        "condition",
        "elapsed",
        "pair",
        "progress",
        "trend",
        "design",
        "metrics",
        "baselines",
        "conformal",
        "heldout",
        "heads",
        "bounds",
    },
    2: {"generate", "calibrate"},
    3: {"evaluate", "plan", "report"},
    4: {"cli"},
}
LEVEL = {name: level for level, names in LAYERS.items() for name in names}
# These know arrays only; labels are put on and taken off above them.
ARRAYS_ONLY = {
    "_kernels",
    "conformal",
    "heldout",
    "heads",
    "bounds",
    "bridge",
    "condition",
    "contexts",
    "covariance",
    "elapsed",
    "pair",
    "progress",
    "clock",
    "design",
    "trend",
    "metrics",
}
# These stand beside the generator and meet it only through the dataset schema.
BESIDE = {"platform", "predict", "schedule", "measure"}


def imports(path):
    """Set of the modules and names that a file imports anywhere, in functions too."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: import absolutely"
            names.add(node.module or "")
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


MODULES = sorted(p for p in PACKAGE.glob("*.py") if p.stem != "__init__")


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.stem)
def test_lower_layers_never_import_higher_ones(path):
    assert path.stem in LEVEL, f"{path.stem} has no layer: give it one here and in the README"
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "msbgen" and len(parts) > 1 and parts[1] in LEVEL:
            assert LEVEL[parts[1]] <= LEVEL[path.stem], f"{path.stem} imports {name}"
        if parts[0] == "xarray":
            assert path.stem not in ARRAYS_ONLY


def test_no_modules_import_each_other_in_a_circle():
    """Modules of one layer may import each other, but one way only."""
    files = {
        ".".join(("msbgen", *p.relative_to(PACKAGE).with_suffix("").parts)): p
        for p in PACKAGE.rglob("*.py")
    }
    files = {name.removesuffix(".__init__"): p for name, p in files.items()}
    # what a package's __init__ gathers from its own modules is no dependency of theirs on it
    graph = {name: imports(p) & files.keys() - {name, "msbgen"} for name, p in files.items()}
    order = list(TopologicalSorter(graph).static_order())  # CycleError names a circle
    assert order.index("msbgen.schema") < order.index("msbgen.generate")
    assert order.index("msbgen.elapsed") < order.index("msbgen.progress")
    assert len(order) == len(files)


def test_what_stands_beside_meets_the_generator_through_the_schema_only():
    allowed = {"files", "schema", "_kernels"}
    for path in (p for name in BESIDE for p in (PACKAGE / name).glob("*.py")):
        for name in imports(path):
            parts = name.split(".")
            if parts[0] == "msbgen" and len(parts) > 1 and parts[1] in LEVEL:
                assert parts[1] in allowed, f"{path} imports {name}"


def test_numba_lives_in_one_file():
    users = {
        p.stem for p in PACKAGE.rglob("*.py") if "numba" in {n.split(".")[0] for n in imports(p)}
    }
    assert users == {"_kernels"}


def test_oracles_import_nothing_of_the_package():
    assert not any(n.startswith("msbgen") for n in imports(Path(__file__).parent / "oracles.py"))


def test_help_imports_nothing_heavy():
    code = "import sys; from msbgen.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass"
    code += "\nprint(*sys.modules)"
    output = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, check=True
    )
    loaded = {line.rpartition("|")[2].strip().split(".")[0] for line in output.stderr.splitlines()}
    assert "argparse" in loaded
    assert not loaded & {"numpy", "scipy", "numba", "ot", "xarray", "sklearn", "netCDF4", "pandas"}
    assert "usage: msbgen" in output.stdout


def test_help_answers_within_a_third_of_a_second():
    def wall_time():
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "msbgen.cli", "--help"], capture_output=True, check=True
        )
        return time.perf_counter() - started

    assert min(wall_time() for _ in range(5)) < 0.3  # the best of five: the machine may be busy
