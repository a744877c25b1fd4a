"""The public names: found when first used, typed for checkers, documented, shown to users."""

import ast
import inspect
import runpy
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import msbgen

TESTS = Path(__file__).resolve().parent
PACKAGE = Path(msbgen.__file__).resolve().parent
SCRIPT = TESTS / "public_names.py"
STUBS = sorted(PACKAGE.rglob("__init__.pyi"))


def package_of(stub):
    """The imported package that a stub describes."""
    return import_module(".".join(stub.parent.relative_to(PACKAGE.parent).parts))


@pytest.mark.parametrize("stub", STUBS, ids=[str(p.parent.name) for p in STUBS])
def test_a_stub_lists_what_its_package_has(stub):
    package, imported = package_of(stub), {}
    for node in ast.parse(stub.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                assert alias.asname == alias.name, f"{alias.name}: a checker sees 'as' only"
                imported[alias.name] = node.module
    assert sorted(imported) == sorted(package.__all__)
    for name, home in imported.items():
        value = getattr(package, name)
        assert value is getattr(import_module(home), name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert value.__doc__, f"{home}.{name}"
    assert set(dir(package)) >= set(package.__all__)
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        package.no_such_name  # noqa: B018


def test_the_loop_has_few_names():
    loop = [name for name in msbgen.__all__ if not inspect.ismodule(getattr(msbgen, name))]
    assert len(loop) <= 40


def test_importing_the_package_imports_nothing():
    code = "import sys, msbgen, msbgen.systems.graphs, msbgen.systems.realtime\n"
    code += "print(*{name.split('.')[0] for name in sys.modules})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "msbgen" in run.stdout.split()
    assert not {"numpy", "xarray", "numba", "scipy"} & set(run.stdout.split())


@pytest.mark.usefixtures("coarse", "short_training")
def test_the_script_of_all_names_uses_all_names_and_runs(tmp_path):
    used = {
        node.attr
        for node in ast.walk(ast.parse(SCRIPT.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "msbgen"
    }
    loop = {name for name in msbgen.__all__ if not inspect.ismodule(getattr(msbgen, name))}
    assert loop <= used <= set(msbgen.__all__)
    messages = runpy.run_path(str(SCRIPT))["main"](tmp_path)
    assert len(messages) == 4  # each way to fail, one sentence
    assert all(text and "\n" not in text for text in messages)
