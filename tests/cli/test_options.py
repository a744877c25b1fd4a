"""Options of all verbs, given texts that no option takes."""

import argparse

import pytest

from msbgen.cli.main import command_line, main

ODD = [
    "", "-", " ", "x", "-1", "0", "nan", "inf", "1e400", "9" * 5000, "1_0", "٣", "a=b", "a=", "=1",
    "a=1,a=2", "a=1:2:0", "a=1:1e9", ",", "1,", "0,1,x", "2 parsecs", "1e308s", "1e400x", "\x00",
    "\ud800", "%", "a=1/MBps", "grid:0x1", "-1GB", "1e999GB",
]  # fmt: skip


def parsers(parser):
    """A parser, and those of its verbs."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                yield from parsers(verb)


def test_no_text_of_an_option_is_an_internal_error():
    messages = []
    for parser in parsers(command_line()):
        for action in parser._actions:
            for text in ODD if action.type else ():
                try:
                    action.type(text)
                except argparse.ArgumentTypeError as error:
                    messages.append(str(error))
    assert len(messages) > 1000
    assert all(messages)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check", "a.nc", "\x1b[31mred"), r"unrecognized arguments: \x1b[31mred"),
        (("check", "a.nc", "x" * 5000), "unrecognized arguments: xxx"),
        (("beside", "a", "b", "--starts", "-1e-3s"), "'-1e-3s' is not a list of times from 0 on"),
        (("import", "a", "-o", "b", "--levels", "q=1,2"), "levels are '2'; e.g. cache_ways=2:20"),
    ],
)
def test_what_a_usage_error_quotes_is_escaped_and_cut(capsys, arguments, message):
    assert main([*arguments]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert message in line
    assert line.isprintable()
    assert len(line) < 1100
