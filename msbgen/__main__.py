"""``python -m msbgen``: the command line."""

import sys

from msbgen.cli.main import command

if __name__ == "__main__":
    sys.exit(command())
