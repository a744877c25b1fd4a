"""The command as a whole: help, exit codes, signals, streams, and how the verbs are built."""

import errno
import importlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

import msbgen.cli

# imported before anything is patched: what is first imported meanwhile would keep the patch
import msbgen.engine.bounds.model
import msbgen.engine.generate.model
from conftest import MEASURED, synthetic_task
from forks import forked, status_of
from msbgen.cli import main as entry
from msbgen.cli.main import CODES, GROUPS
from msbgen.core.errors import ArgumentError, MeasurementError, ProfileError
from msbgen.data.store import read_profiles, write_profiles
from msbgen.engine.bridge.solve import NotConvergedError
from msbgen.engine.generate.fit import fit_profiles

VERBS = [verb for verbs in GROUPS.values() for verb in verbs]


# --------------------------------------------------------------------------- help


def test_the_help_lists_every_verb_once_in_its_group(msbgen):
    message = msbgen("--help").stdout
    groups = message.split("\n\n")
    for title, verbs in GROUPS.items():
        (group,) = [g for g in groups if g.startswith(f"{title}:\n")]
        listed = [line.split()[0] for line in group.splitlines()[1:]]
        assert listed == list(verbs)
    assert "143 terminated" in " ".join(message.split())


def test_every_verb_says_what_it_does_and_its_exit_codes(msbgen):
    for verb in VERBS:
        done = msbgen(verb, "--help")
        assert (done.returncode, done.stderr) == (0, ""), verb
        assert "exit codes: 0 done" in done.stdout, verb


def test_version(started):
    done = started("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("msbgen 0.")


@pytest.mark.parametrize(("arguments", "sentence"), [([], "VERB"), (["fly"], "invalid choice")])
def test_no_verb_is_a_usage_error(refused, arguments, sentence):
    refused(2, sentence, *arguments)


# --------------------------------------------------------------------------- exit codes


def test_every_type_of_the_table_exists():
    for name in CODES:
        module, _, kind = name.rpartition(".")
        assert issubclass(getattr(importlib.import_module(module), kind), BaseException)


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ProfileError("a.nc: one.", "a.nc: two."), 3, "msbgen: a.nc: one.\nmsbgen: a.nc: two.\n"),
        (MeasurementError("the clock is still."), 3, "msbgen: the clock is still.\n"),
        (ArgumentError("kind is 1; more is wanted."), 2, "msbgen: kind is 1; more is wanted.\n"),
        (FileExistsError("o.nc: exists."), 2, "msbgen: o.nc: exists. (--force overwrites)\n"),
        (PermissionError(13, "Permission denied", "o.nc"), 2, "msbgen: o.nc: permission denied.\n"),
        (KeyboardInterrupt(), 130, "msbgen: interrupted; no file was left half written.\n"),
        (entry.Terminated(), 143, "msbgen: terminated; no file was left half written.\n"),
        (BrokenPipeError(32, "Broken pipe"), 2, "msbgen: system: broken pipe.\n"),  # no stdout
    ],
)
def test_every_failure_has_its_code_and_its_sentence(
    folder, monkeypatch, msbgen, error, code, message
):
    def fail(path):
        raise error

    monkeypatch.setattr("msbgen.data.store.load_netcdf", fail)
    done = msbgen("check", "measured.nc")
    assert (done.returncode, done.stderr) == (code, message)


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (["generate", "measured.nc", "-o", "o.nc", "--contexts", "all"], "raise --epsilon."),
        (
            ["generate", "measured.nc", "-o", "o.nc", "--contexts", "all", "--preset", "paper"],
            "raise --epsilon, or use --preset default.",
        ),
        (["evaluate", "measured.nc", "--truth", "truth.nc"], "leave the method out (--methods)."),
        (["check", "measured.nc"], "try 'msbgen generate' with a larger --epsilon."),
    ],
    ids=lambda v: v[0] if isinstance(v, list) else "",
)
def test_what_does_not_converge_has_a_remedy_that_the_verb_offers(
    folder, monkeypatch, refused, arguments, remedy
):
    bridge = SimpleNamespace(status="not converged", marginal_error=[0.5], epsilon=0.1)

    def fail(path):
        raise NotConvergedError(bridge, 1e-9)

    monkeypatch.setattr("msbgen.data.store.load_netcdf", fail)
    message = "not converged (pair 0: L1 marginal error 0.5 > tol 1e-09, epsilon 0.1); "
    refused(4, message + remedy, *arguments)


def test_any_other_failure_is_a_bug_of_ours_with_its_traceback(folder, monkeypatch, msbgen):
    def broken(path):
        raise ValueError("shapes (3,) and (4,) do not fit")

    monkeypatch.setattr("msbgen.data.store.load_netcdf", broken)
    done = msbgen("check", "measured.nc")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "shapes (3,) and (4,) do not fit" in done.stderr
    assert done.stderr.endswith("msbgen: internal error; please report the traceback above.\n")


@pytest.mark.parametrize("verb", ["generate", "bound", "plan", "evaluate"])
def test_a_full_disk_is_told_of_with_the_file(folder, monkeypatch, refused, verb):
    replace = os.replace

    def full(source, target):
        if Path(target).is_relative_to(folder):  # rather than a compiler's cache
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    monkeypatch.setattr("os.replace", full)
    arguments = {
        "generate": ("measured.nc", "-o", "o.nc", "--contexts", "grid:1x1", "--preset", "paper"),
        "bound": ("measured.nc", "-o", "o.csv", "--contexts", "all", "--miscoverage", 0.4),
        "plan": ("--levels", "a=1:3", "--budget", 2, "-o", "o.csv"),
        "evaluate": ("measured.nc", "--leave-out", 3, "--methods", "bracketing", "-o", "o"),
    }[verb]
    done = refused(2, "o space left", verb, *arguments)
    assert "msbgen: o" in done.stderr
    assert "internal" not in done.stderr


# --------------------------------------------------------------------------- signals


def wait_until(happened, process, seconds=60):
    """Poll for what `happened` returns while the process lives; fail when it ends before."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := happened():
            return found
        ended = os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        assert ended is None, ended
        time.sleep(0.001)
    raise AssertionError(f"nothing happened within {seconds} s")


def obey_signals():
    """In the child: a test run in the background ignores SIGINT, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def begun(*arguments, cwd, python=()):
    return subprocess.Popen(
        [sys.executable, *python, "-m", "msbgen", *arguments],
        cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=obey_signals,
    )  # fmt: skip


LONG = ["generate", "measured.nc", "-o", "o.nc", "--contexts", "all", "--kind", "sample"]
LONG += ["--samples", "6000", "--preset", "paper"]


@contextmanager
def writing(folder, *more):
    """The command in a process of its own, and its messages; it writes a context at a time."""
    with tempfile.TemporaryFile("w+", buffering=1, encoding="utf-8") as messages:

        def work():
            os.chdir(folder)
            sys.stderr = messages
            msbgen.engine.generate.model._BLOCK_BYTES = 1
            return entry.main([*LONG, *more])

        process = forked(work)
        try:
            yield process, messages
        finally:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(process, 0)


def half_written(folder):
    partial = [p for p in folder.glob(".o.nc.*") if p.is_file() or p.is_dir()]
    files = [p for part in partial for p in (part, *part.rglob("*")) if p.is_file()]
    return [p for p in files if p.stat().st_size > 0]


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_a_signal_in_the_middle_of_writing_leaves_nothing(folder, number, code, word):
    before = sorted(folder.iterdir())
    with writing(folder) as (process, messages):
        wait_until(lambda: half_written(folder), process)
        os.kill(process, number)
        assert status_of(process) == code
        messages.seek(0)
        assert messages.read() == f"msbgen: {word}; no file was left half written.\n"
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("module", ["msbgen.cli", "numpy", "xarray"])
def test_an_interrupt_while_modules_are_loaded_is_an_interrupt(folder, module):
    """From the first moment that is ours: what the interpreter loads for itself is before it."""
    process = begun("check", "measured.nc", cwd=folder, python=["-v"])
    try:
        for line in process.stderr:
            if line.startswith(f"import '{module}'"):
                break
        else:
            pytest.fail(f"{module} is not loaded at all")
        process.send_signal(signal.SIGINT)
        _, messages = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    message = [s for s in messages.splitlines() if s.startswith(("msbgen:", "Traceback"))]
    assert message == ["msbgen: interrupted; no file was left half written."]
    assert process.returncode == 130


def test_an_ignored_interrupt_stays_ignored(monkeypatch, folder, msbgen):
    """As in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    seen = []
    monkeypatch.setattr(
        "msbgen.data.store.load_netcdf", lambda _: seen.append(signal.getsignal(signal.SIGINT))
    )
    try:
        msbgen("check", "measured.nc")
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIG_IGN]


def test_the_handlers_of_the_caller_come_back(folder, msbgen):
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    before = [signal.getsignal(number) for number in numbers]
    assert msbgen("check", "measured.nc").returncode == 0
    assert [signal.getsignal(number) for number in numbers] == before


@pytest.mark.parametrize("before", [None, b"old and whole"])
def test_a_kill_in_the_middle_of_writing_leaves_no_broken_output(folder, before):
    if before:
        (folder / "o.nc").write_bytes(before)
    with writing(folder, *(["--force"] if before else [])) as (process, _):
        partial = wait_until(lambda: half_written(folder), process)[0]
        os.kill(process, signal.SIGKILL)
        assert status_of(process) == -signal.SIGKILL
    with pytest.raises(ProfileError):  # it was in the middle indeed
        read_profiles(partial)
    if before:
        assert (folder / "o.nc").read_bytes() == before
    else:
        assert not (folder / "o.nc").exists()
    assert partial not in set(folder.glob("*.nc"))


# --------------------------------------------------------------------------- streams


def shell(command, folder, **variables):
    command = command.replace("msbgen", f"{sys.executable} -m msbgen")
    given = {name: v for name, v in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder, env=given | variables, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    "command",
    [
        "msbgen check measured.nc | true",
        "msbgen check measured.nc | head -1 > first.txt",
        "msbgen --help | true",
        "msbgen check measured.nc >&-",
        "msbgen check measured.nc <&- >&- 2>&-",
    ],
)
def test_a_reader_that_has_enough_or_none_is_no_error(folder, command):
    done = shell(command, folder)
    assert done.stderr == ""
    assert done.returncode == 0


@pytest.mark.parametrize("stdout", ["| true", "| head -1", ">&-", "| sleep 0.01"])
def test_a_gate_holds_whatever_reads_the_text(folder, stdout):
    """A limit that every change exceeds."""
    write_profiles(synthetic_task(MEASURED, seed=3), folder / "new.nc")
    limit = "--tolerance 0.01% --fail-above 0.0001% --strict"
    command = f"msbgen compare measured.nc new.nc {limit} --json z.json"
    done = shell(f"{command} {stdout}", folder, PYTHONUNBUFFERED="1")
    assert done.returncode in (6, 7)
    assert (folder / "z.json").exists()


@pytest.mark.parametrize("command", ["msbgen check no.nc 2>&-", "msbgen fly 2>&-"])
def test_without_stderr_the_code_still_tells(folder, command):
    assert shell(command, folder).returncode == (3 if "check" in command else 2)


@pytest.fixture
def saved(folder):
    """A model of the measured file, which answers without a fit, in m.nc."""
    fit_profiles(read_profiles(folder / "measured.nc")).save(folder / "m.nc")


@pytest.mark.usefixtures("saved")
def test_a_result_is_no_stdout_of_a_closed_one(folder):
    """The first file opened would else be number 1, and take what libraries print."""
    done = shell("msbgen generate m.nc -o o.nc --contexts all --kind mean >&- 2>&-", folder)
    assert done.returncode == 0
    assert read_profiles(folder / "o.nc").sizes["context"] == 12


@pytest.mark.parametrize(
    ("verb", "variables"),
    [
        ("check measured.nc", {}),
        ("platform replay --help", {}),
        ("platform replay --help", {"PYTHONUNBUFFERED": "1"}),
    ],
    ids=["check", "help", "unbuffered"],
)
def test_a_full_stdout_is_told_of(folder, verb, variables):
    done = shell(f"msbgen {verb} > /dev/full", folder, **variables)
    assert done.returncode == 2
    assert done.stderr == "msbgen: stdout: no space left on device.\n"


@pytest.mark.usefixtures("saved")
def test_messages_and_results_in_an_encoding_that_lacks_them(folder):
    (folder / "m.nc").rename(folder / "maß.nc")
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    arguments = ["maß.nc", "-o", "größe.nc", "--contexts", "grid:1x1", "--kind", "mean"]
    done = subprocess.run(
        [sys.executable, "-m", "msbgen", "generate", *arguments],
        cwd=folder, env=ascii_only, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert b"gr\\xf6\\xdfe.nc: 1 context," in done.stdout
    assert (folder / "größe.nc").exists()


def test_pot_imports_no_other_library_of_arrays_in_the_command(tmp_path):
    for library in ("torch", "jax", "cupy", "tensorflow"):
        (tmp_path / f"{library}.py").write_text(f"raise SystemExit('{library} was imported')")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("POT_BACKEND")}
    environment["PYTHONPATH"] = str(tmp_path)
    code = "from msbgen.cli.main import main\nassert main(['check', 'none.nc']) == 3\nimport ot"

    def imported(script):
        return subprocess.run(
            [sys.executable, "-c", script], env=environment, cwd=tmp_path, capture_output=True,
            text=True, timeout=60, check=False,
        )  # fmt: skip

    done = imported(code)
    assert (done.returncode, done.stderr) == (0, "msbgen: none.nc: no such file.\n")
    assert "was imported" in imported("import ot").stderr  # what the command prevents
