"""The public names: found when asked for, typed for checkers, documented, shown to users."""

import ast
import inspect
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import msbgen

TESTS = Path(__file__).resolve().parent
PACKAGE = Path(msbgen.__file__).resolve().parent
SCRIPT = TESTS / "public_names.py"


def test_stub_and_package_list_the_same_names_of_the_same_modules():
    stub = ast.parse((PACKAGE / "__init__.pyi").read_text(encoding="utf-8"))
    listed, imported = [], {}
    for node in stub.body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                assert alias.asname == alias.name, f"{alias.name}: a checker sees 'as' only"
                imported[alias.name] = node.module
        elif isinstance(node, ast.Assign):
            listed = ast.literal_eval(node.value)
    at_run_time = {name: f"msbgen.{module}" for name, module in msbgen._HOME.items()}
    assert imported == at_run_time
    assert sorted(listed) == sorted(msbgen.__all__) == sorted(at_run_time)


def test_every_name_is_found_and_an_unknown_one_is_not():
    assert set(dir(msbgen)) >= set(msbgen.__all__)
    for name in msbgen.__all__:
        assert getattr(msbgen, name) is getattr(msbgen, name)
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        msbgen.no_such_name  # noqa: B018


def test_every_public_class_and_function_is_documented():
    things = [getattr(msbgen, name) for name in msbgen.__all__]
    documented = [thing for thing in things if inspect.isclass(thing) or inspect.isfunction(thing)]
    assert len(documented) > 30
    assert all(thing.__doc__ for thing in documented)


def test_importing_the_package_imports_nothing():
    code = "import sys, msbgen; print(*{name.split('.')[0] for name in sys.modules})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "msbgen" in run.stdout.split()
    assert not {"numpy", "xarray", "numba", "scipy"} & set(run.stdout.split())


def test_the_script_of_all_names_uses_all_names_and_runs(tmp_path):
    used = {
        node.attr
        for node in ast.walk(ast.parse(SCRIPT.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "msbgen"
    }
    assert used == set(msbgen.__all__)
    said = runpy.run_path(str(SCRIPT))["main"](tmp_path)
    assert len(said) == 4  # each way to fail, one sentence
    assert all(text and "\n" not in text for text in said)
