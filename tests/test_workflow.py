"""The public workflow runs what the README says, on the versions that the package names."""

import re
import tomllib

from pages import ROOT, blocks

WORKFLOW = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")


def test_the_workflow_runs_both_commands_of_the_readme():
    commands = [line for text in blocks("sh") for line in text.splitlines() if "install" in line]
    assert len(commands) == 2
    assert re.findall(r"run: (python3 .*&&.*&&.*)$", WORKFLOW, flags=re.MULTILINE) == commands


def test_the_workflow_tries_the_versions_of_python_that_the_package_names():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [re.sub(r".* :: ", "", line) for line in project["classifiers"] if " :: 3." in line]
    (tried,) = re.findall(r"python: \[(.*)\]", WORKFLOW)
    assert re.findall(r"[\d.]+", tried) == named
    assert project["requires-python"] == f">={named[0]}"
