"""``python -m msbgen``: the command line."""

import sys

from msbgen.cli.main import command

sys.exit(command())
