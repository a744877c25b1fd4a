"""Recordings that perf made, and what a slow reader of one form of them says."""

import re
from pathlib import Path

import pytest


@pytest.fixture
def naive_totals():
    """Totals of a semicolon file without places, event by event, a row at a time."""

    def totals(path):
        found = {}
        for line in Path(path).read_text().splitlines():
            if re.match(r" *\d+\.\d{9};", line):
                _, value, unit, event, nanoseconds, *_ = line.split(";")
                if value.startswith("<"):
                    value = 0
                elif unit == "msec":
                    value = nanoseconds
                found[event] = found.get(event, 0.0) + float(value)
        return found

    return totals
