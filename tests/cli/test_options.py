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
        (("beside", "repair", "a", "b", "--starts", "-1e-3s"), "'-1e-3s' is not a list of times"),
        (("import", "a", "-o", "b", "--levels", "q=1,2"), "levels are '2'; e.g. cache_ways=2:20"),
    ],
)
def test_what_a_usage_error_quotes_is_escaped_and_cut(capsys, arguments, message):
    assert main([*arguments]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert message in line
    assert line.isprintable()
    assert len(line) < 1100


WITHOUT_EFFECT = [
    ("generate m.nc -o o.nc --contexts all --kind mean --samples 5", "--samples is for --kind sam"),
    ("generate m.nc -o o.nc --contexts all --samples 10", "--samples is for --kind sample"),
    ("generate m.nc -o o.nc --contexts all --kind mean --epsilon 0.2", "--epsilon does not change"),
    (
        "choose m.nc --deadline 1s --cost a=1 --caches 0",
        "--caches is for --apply resctrl, pqos or goresctrl; drop",
    ),
    ("choose m.nc --deadline 1s --cost a=1 --apply cgroup --caches 0", "--caches is for --apply"),
    ("plan m.nc --budget 9 -o p.csv --run-seconds 1s", "--run-seconds is for plans without"),
    ("plan --levels virtual --budget 9 -o p.csv --keep-all", "--keep-all is for measured runs"),
    ("plan m.nc --compare 1% -o p.csv --levels virtual", "--levels has no effect with --compare"),
    ("plan --levels virtual --compare 1% -o p.csv --overhead 0", "--overhead has no effect with"),
    ("export m.nc --format perfetto -o o --start 5", "--start is for --format openmetrics"),
    ("measure --template --contexts all", "--contexts has no effect with --template"),
    ("measure --template --restore j", "--restore has no effect with --template"),
    ("measure --restore j --with m.nc", "--with has no effect with --restore"),
    ("import a.csv --form perf -o o.nc --step 1s", "--step is for --form pqos or pcm"),
    ("kernels choose a.csv --bounds b.nc --miscoverage 0.1", "--miscoverage is that of the"),
]


@pytest.mark.parametrize(("line", "sentence"), WITHOUT_EFFECT)
def test_an_option_that_would_have_no_effect_is_refused(capsys, line, sentence):
    assert main(line.split()) == 2
    (message,) = capsys.readouterr().err.splitlines()
    assert message.startswith(f"msbgen: {sentence}")
    assert message.endswith("; drop it.")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "choose m.nc --deadline 1s --cost a=1 --apply pqos --front",
            "--front needs -o or --json with --apply; add one of them.",
        ),
        (
            "import a.csv --form perf -o o.nc --columns c.toml",
            "--columns needs --form table; add it.",
        ),
        (
            "import a.csv --form perf -o o.nc --cycles c --at 1GHz",
            "--cycles needs --form table; add it.",
        ),
    ],
)
def test_an_option_that_needs_another_one_names_it(capsys, line, message):
    assert main(line.split()) == 2
    assert capsys.readouterr().err == f"msbgen: {message}\n"
