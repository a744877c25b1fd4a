"""``msbgen realtime phases``: the phases of a task, with their rates in every context."""

import argparse
from pathlib import Path

from msbgen.cli import options as shared
from msbgen.cli.options import Verbs


def add(verbs: Verbs) -> None:
    """Add the verb and its options."""
    verb = shared.new_verb(verbs, "phases", run, "find the phases of a task, for allocators")
    text = "profiles of all contexts of a platform, measured or generated"
    verb.add_argument("file", type=Path, metavar="PROFILES.nc", help=text)
    shared.add_out(verb, "TABLE.nc", "the phase table to write", required=True)
    text = "change of the log rates, relative to the whole task, that starts a phase (%(default)s)"
    verb.add_argument("--resolution", type=shared.number, default=0.01, metavar="R", help=text)
    shared.add_force(verb)


def run(options: argparse.Namespace) -> None:
    """Write the phase table of a profile file."""
    shared.check_files([options.file], [options.out], force=options.force)

    from msbgen.core.words import number_of
    from msbgen.data import store
    from msbgen.systems.phases import phases

    profiles = store.read_profiles(options.file)
    table = phases.phase_table(profiles, resolution=options.resolution)
    phases.write_phases(table, options.out, overwrite=options.force)
    contexts = table["speed"].size // table.sizes["phase"]
    phases = number_of(table.sizes["phase"], "phase")
    shared.show(f"{options.out}: {phases} in {number_of(contexts, 'context')}")
