"""Words to the user."""

import contextlib
import io
import logging
import warnings

import pytest

from msbgen.cli import options


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_a_line_on_terminals_and_a_line_a_minute_elsewhere(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(options.messages.time, "monotonic", lambda: now[0])
    lines = "msbgen: fitting: 50 % (2 of 4)\nmsbgen: fitting: 100 % (4 of 4)\n"
    on_terminal = "".join(f"\rfitting: {share:3d} %" for share in (25, 50, 75, 100))
    for stream, shown in ((Terminal(), f"{on_terminal}\r\033[K"), (io.StringIO(), lines)):
        with contextlib.redirect_stderr(stream), options.Progress("fitting") as step:
            for done in range(1, 5):
                now[0] += 35
                step(done, 4)
        assert stream.getvalue() == shown


def test_warnings_and_log_records_are_lines_without_source():
    with contextlib.redirect_stderr(io.StringIO()) as err:
        with options.Messages():
            warnings.warn("something overflows", RuntimeWarning, stacklevel=1)
            for number in (3, 3, 4, 3):  # several fits of one file warn of it
                logging.getLogger("msbgen").warning("run %d is lost", number)
            logging.getLogger("msbgen").info("nothing to say")
        logging.getLogger("msbgen").info("nobody listens any more")
    assert err.getvalue() == (
        "msbgen: warning: something overflows\nmsbgen: warning: run 3 is lost\n"
        "msbgen: warning: run 4 is lost\n"
    )


def test_names_cannot_command_the_terminal(capsys):
    options.show("task \x1b[31mred\tand\nmore\x9b")
    assert capsys.readouterr().out == ""  # files and verdict come first
    options.print_results()
    options.print_message("\x07.nc: no such file.")
    message = capsys.readouterr()
    assert message.out == "task \\x1b[31mred\tand\nmore\\x9b\n"
    assert message.err == "msbgen: \\x07.nc: no such file.\n"


def test_what_stdout_cannot_take_is_told_of_by_name(monkeypatch):
    class Full(io.StringIO):
        def write(self, text):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("sys.stdout", Full())
    options.show("results")
    with pytest.raises(OSError, match="stdout"):
        options.print_results()


def test_a_long_message_keeps_its_beginning_and_its_remedy():
    with contextlib.redirect_stderr(io.StringIO()) as err:
        options.print_message(f"program '{'9' * 5000}' has no time; run it there.")
    assert err.getvalue().startswith("msbgen: program '999")
    assert err.getvalue().endswith("' has no time; run it there.\n")
    assert len(err.getvalue()) < 1100
