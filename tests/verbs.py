"""The verbs of the command."""

from msbgen.cli import options as shared


def outputs_of(parser, name=()):
    """Each verb with the flags of the files and folders that it writes."""
    for action in parser._actions:
        if isinstance(action.choices, dict):
            for part, verb in action.choices.items():
                yield from outputs_of(verb, (*name, part))
        elif action.dest == "out" or action.type is shared.output:
            yield " ".join(name), action.option_strings[0]
