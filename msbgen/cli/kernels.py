"""``msbgen kernels``: runtime and power of kernels and networks where nobody measured them."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from msbgen.cli import options as shared
from msbgen.cli.options import Verbs

# Parts that stand in files of their own beside this one, each with `add` and `run`.
PARTS: tuple[str, ...] = ("kernels_measure",)


def add(verbs: Verbs) -> None:
    """Add the verb's parts and their options."""
    text = "predict runtime and power of kernels and networks at every clock, from a few"
    parts = shared.new_group(verbs, "kernels", text)
    for name in PARTS:
        import_module(f"msbgen.cli.{name}").add(parts)

    verb = shared.new_verb(parts, "import", run_import, "read measurements of kernels")
    verb.add_argument("source", type=Path, metavar="TABLE.csv")
    verb.add_argument(
        "--columns",
        type=Path,
        required=True,
        metavar="MAP.toml",
        help="which columns say what: resources = ['clock'], counters, kind, [columns]",
    )
    shared.add_out(verb, "KERNELS.nc", "measurements to write", required=True)
    shared.add_force(verb)


def run_import(options: argparse.Namespace) -> None:
    """Read measurements of kernels and write them as one dataset."""
    shared.check_files([options.source, options.columns], [options.out], force=options.force)

    from msbgen.data import kernels, kernels_readers

    columns = kernels_readers.read_column_map(options.columns)
    runs = kernels_readers.read_kernels_table(options.source, columns)
    kernels.write_kernels(runs, options.out, overwrite=options.force)
    shared.show(f"{options.out}:\n{kernels.describe_kernels(runs)}")
