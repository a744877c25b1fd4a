"""``msbgen measure``: measure a command into a profile file, and restore the machine."""

import argparse
from pathlib import Path

from msbgen.cli import options as shared
from msbgen.cli.options import Progress, UsageError, Verbs


def add(verbs: Verbs) -> None:
    """Add the verb and its options."""
    text = "measure a program in contexts of this machine"
    verb = shared.new_verb(verbs, "measure", run, text)
    text = "command, resources, contexts, runs, events"
    verb.add_argument("spec", type=Path, nargs="?", metavar="SPEC.toml", help=text)
    shared.add_out(
        verb, "OUT.nc", "the profile file to write, OUT-NAME.nc for variants; its journal and "
        "recordings are beside it"
    )  # fmt: skip
    text = "contexts instead of the spec's; a CSV file may be a plan with runs"
    verb.add_argument("--contexts", metavar="all|grid:AxB…|FILE", help=text)
    text = "earlier measurements by the same spec: their runs are added"
    verb.add_argument("--with", dest="onto", type=Path, metavar="FIRST.nc", help=text)
    verb.add_argument("--resume", action="store_true", help="continue an interrupted sweep")
    text = "print plan, commands, changes and time, for which the program runs once without limits"
    verb.add_argument("--dry-run", action="store_true", help=text)
    text = "write the program's own pressure on others as a context, to OUT.csv"
    verb.add_argument("--probe", action="store_true", help=text)
    text = "print a commented spec of what this machine can vary"
    verb.add_argument("--template", action="store_true", help=text)
    text = (
        "only restore the machine after a killed sweep, and end its processes; hooks need SPEC.toml"
    )
    verb.add_argument("--restore", type=Path, metavar="JOURNAL", help=text)
    shared.add_force(verb)


def run(options: argparse.Namespace) -> None:
    """Measure, restore the machine after a killed sweep, or print a template."""
    alone = "--template" if options.template else "--restore" if options.restore else ""
    if options.template and options.spec:
        raise UsageError("--template takes no SPEC.toml; drop it.")
    if alone and options.out:
        raise UsageError(f"{alone} takes no -o; drop it.")
    if alone:
        others = "contexts onto resume dry_run probe force" + " restore" * options.template
        shared.refuse_unused(options, others, f"has no effect with {alone}")
    if options.template:
        from msbgen.sources.measure.sweep import template

        shared.show("".join(template.describe_template()).rstrip("\n"))
        return
    if options.restore is not None:
        _restore(options.restore, options.spec)
        return
    out: Path | None = options.out
    if options.spec is None or (out is None and not options.dry_run):
        raise UsageError("SPEC.toml and -o OUT.nc are wanted, or --restore JOURNAL.")
    contexts = shared.file_of_contexts(options.contexts) if options.contexts else None
    shared.check_files([options.spec, contexts])
    if out is not None:  # a file of variants has another name, but in the same folder
        shared.check_files([], [out], force=True)

    if options.probe:
        if out is None:
            raise UsageError("--probe wants -o OUT.csv.")
        shared.refuse_unused(options, "dry_run resume onto contexts", "has no effect with --probe")
        _probe(options.spec, out, options.force)
        return

    from dataclasses import replace

    from msbgen.sources.measure.sweep import dry_run, measure, requirements
    from msbgen.sources.measure.sweep import spec as specs

    spec = specs.read_spec(options.spec)
    if options.contexts:
        spec = replace(spec, contexts=options.contexts)
    before, outputs = (
        list(measure.file_of_each(spec, path).values()) if path else []
        for path in (options.onto, out)
    )
    shared.check_files([options.spec, contexts, *before], outputs, force=options.force)
    if options.dry_run or out is None:
        folder = out.parent if out else Path()
        for sentence in dry_run.describe_executed(spec):
            shared.print_message(sentence)
        shared.show_lines(dry_run.describe_dry_run(spec, folder=folder, trial=True))
        return
    shared.print_message(requirements.describe_progress(spec))
    with Progress("measuring") as step:
        measured = measure.measure(
            spec, out, first=options.onto, resume=options.resume, overwrite=options.force,
            progress=step,
        )  # fmt: skip
    for sentence in measured.warnings:
        shared.print_message(f"warning: {sentence}")
    shared.show_lines(measured.describe())
    measured.raise_if_incomplete()


def _probe(spec: Path, out: Path, force: bool) -> None:
    shared.check_files([spec], [out], force=force)

    from msbgen.data.files import replace_file
    from msbgen.sources.measure.sweep import probe
    from msbgen.sources.measure.sweep import spec as specs

    with Progress("probing") as step:
        found = probe.probe(specs.read_spec(spec), step)
    with replace_file(out, overwrite=force) as path:
        path.write_text(found.table(), encoding="utf-8")
    shared.show_lines(found.describe())


def _restore(journal: Path, spec: Path | None) -> None:
    shared.check_files([spec, journal])

    from msbgen.sources.measure.actuators import actuator
    from msbgen.sources.measure.sweep import restore
    from msbgen.sources.measure.sweep import spec as specs

    outcome = restore.restore_machine(journal, specs.read_spec(spec).hooks() if spec else ())
    shared.show_lines([*outcome.restored, *outcome.changed_by_others])
    if outcome.failed:
        raise actuator.SettingError(*outcome.failed)
    if not outcome.restored and not outcome.changed_by_others:
        shared.show("nothing to restore: the machine is unchanged.")
