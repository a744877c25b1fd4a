"""What the README and the pages beside it show runs as it stands, on files that are there."""

import io
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from importlib.util import find_spec

import numpy as np
import pytest

import msbgen
from msbgen.cli.main import main
from msbgen.data.tables import read_plan
from msbgen.sources.platform import record
from pages import OTHERS, PAGES, README, ROOT, STUDIES, blocks

pytestmark = pytest.mark.usefixtures("coarse", "short_training", "panels_without_layout")


def name(page):
    return str(page.relative_to(ROOT))


COMMANDS = [line for text in blocks("sh") for line in text.splitlines() if line]


@pytest.fixture(scope="module")
def thinned(tmp_path_factory):
    """A folder like ``profiles/`` with a part of gzip: every other level, few runs, few unseen."""
    folder = tmp_path_factory.mktemp("thinned")
    whole = msbgen.read_profiles(msbgen.shipped_file("gzip.nc"))
    columns = msbgen.context_table(whole).T
    kept = np.all([np.isin(column, np.unique(column)[::2]) for column in columns], axis=0)
    msbgen.write_profiles(whole.isel(context=kept, run=slice(0, 2)), folder / "gzip.nc")
    truth = msbgen.read_profiles(msbgen.shipped_file("gzip-truth.nc"))
    msbgen.write_profiles(truth.isel(context=slice(0, None, 10)), folder / "gzip-truth.nc")
    return folder


@pytest.fixture
def few(thinned, tmp_path):
    """A folder with a thinner ``profiles/``, and what else the README's commands expect there."""
    shutil.copytree(thinned, tmp_path / "profiles")
    (tmp_path / "profiles" / "traces").symlink_to(msbgen.shipped_file("traces/gzip.nc").parent)
    shutil.copy(README, tmp_path)
    return tmp_path


def test_the_readmes_commands_run_one_after_another(few, monkeypatch):
    monkeypatch.chdir(few)
    tried = []
    for line in COMMANDS:
        words = shlex.split(line, comments=True)
        if "install" in words:  # into an environment of its own: the demo and the tests
            continue
        if "record" in words and not can_record():
            continue
        if words[0] == "msbgen":  # in this process: what start-up costs is paid once
            message = io.StringIO()
            with redirect_stdout(io.StringIO()), redirect_stderr(message):
                assert (main(words[1:]), message.getvalue()) == (0, ""), line
        else:
            subprocess.run(["sh", "-c", line], check=True)
        tried.append(words)
    verbs = {words[1] for words in tried if words[0] == "msbgen"}
    assert verbs == {"check", "generate", "bound", "choose", "evaluate", "plan", "platform"}
    assert (few / "bounds.csv").read_text().count("\n") == 3
    assert msbgen.read_profiles(few / "all.nc").sizes["context"] == 4560


def can_record():
    try:
        record.check_recording_needs()
    except record.RecordError:
        return False
    return True


@pytest.mark.parametrize("page", [p for p in PAGES if blocks("python", p)], ids=name)
def test_the_examples_of_a_page_run(page, few, monkeypatch):
    """All Python of a page in a row, as a reader would type it, on thinner data."""
    monkeypatch.chdir(few)
    find = msbgen.shipped_file
    thin = {"gzip.nc", "gzip-truth.nc"}

    def at(name):
        return few / "profiles" / name if name in thin else find(name)

    monkeypatch.setattr(msbgen, "shipped_file", at)
    names = {}
    for text in blocks("python", page):
        if text.startswith("# needs torch") and find_spec("torch") is None:
            continue  # pip install msbgen[kernels]
        exec(compile(text, page.name, "exec"), names)
    if page == README:
        assert names["mean"].sizes["context"] == 100
        assert names["one"].sizes["context"] == 1
        planned = read_plan(few / "plan.csv", names["plan"].resources)
        assert len(planned.contexts) == len(names["plan"].contexts)
        assert names["answer"].duration < names["answer"].bound < 1.2 * names["answer"].duration


SYSTEMS = ("graphs", "machines", "realtime")
HERE = r"^cat > (\S+) <<'END'\n(.*?)^END\n"
FLAGS = re.DOTALL | re.MULTILINE


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_systems_page_goes_from_a_table_to_an_answer(system, tmp_path, monkeypatch):
    """Its shell blocks, in a row, on profiles of few runs."""
    monkeypatch.chdir(tmp_path)
    text = "".join(blocks("sh", ROOT / "msbgen" / "systems" / system / "README.md"))
    (tmp_path / "profiles").mkdir()
    for file in sorted({*re.findall(r"profiles/(\w+\.nc)", text), "gzip.nc", "zstd.nc"}):
        some = msbgen.read_profiles(msbgen.shipped_file(file)).isel(run=slice(0, 1))
        msbgen.write_profiles(some, tmp_path / "profiles" / file)
    tables = re.findall(HERE, text, FLAGS)
    assert tables[0][1].count("\n") == 5
    for table, content in tables:
        (tmp_path / table).write_text(content)
    for line in re.sub(HERE, "", text, flags=FLAGS).splitlines():
        words, answer = shlex.split(line), io.StringIO()
        if words[0] == "mkdir":
            (tmp_path / words[-1]).mkdir()
            continue
        assert words[0] == "msbgen"
        with redirect_stdout(answer):
            assert main(words[1:]) == 0, line
        assert answer.getvalue()


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=name)
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)]+)\)", text):
        path, _, heading = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        if heading:
            titles = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert heading in [re.sub(r"[^\w -]", "", t).lower().replace(" ", "-") for t in titles]


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=name)
def test_files_that_a_page_names_are_there(page):
    text = page.read_text(encoding="utf-8")
    for name in re.findall(
        r"(?:benchmarks|msbgen|profiles|tests)/[\w/-]+\.(?:py|json|md|png)", text
    ):
        assert (ROOT / name).is_file(), name


@pytest.mark.parametrize("page", STUDIES, ids=name)
def test_the_pages_of_studies_are_made_alike_and_listed(page):
    parts = re.findall(r"^## (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert parts == [
        *("Question", "Data", "Methods", "Result"),
        *("Settled on which data", "Limits", "Run it again"),
    ]
    assert f"]({page.name})" in (page.parent / "README.md").read_text(encoding="utf-8")


def test_the_readme_is_read_in_one_go_and_names_every_page():
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    for page in (ROOT / "msbgen").glob("*/*/README.md"):
        assert f"]({name(page)})" in text


def test_architecture_shows_the_house():
    page = ROOT / "msbgen" / "ARCHITECTURE.md"
    assert len(page.read_text(encoding="utf-8").splitlines()) <= 120
    house = {line.split()[0]: line.split()[1:] for line in blocks("text", page)[0].splitlines()}
    folders = {p.parent.name for p in (ROOT / "msbgen").glob("*/__init__.py")}
    assert house.keys() == folders
    for folder in folders - {"core", "data", "cli"}:
        wings = {p.parent.name for p in (ROOT / "msbgen" / folder).glob("*/__init__.py")}
        assert wings <= set(house[folder])


def test_continuous_integration_runs_the_readme_test_command():
    (command,) = [line for line in COMMANDS if "pytest" in line]
    assert command in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_readme_and_the_help_say_the_same_exit_codes():
    codes = re.search(r"Exit codes: (.*?)\.\n", README.read_text(encoding="utf-8"), re.DOTALL)
    assert codes
    run = subprocess.run(
        [sys.executable, "-m", "msbgen", "--help"], capture_output=True, text=True, check=True
    )
    reported = run.stdout.partition("exit codes:")[2]
    for code in re.findall(r"\d+", codes[1]):
        assert re.search(rf"\b{code}\b", reported), code
