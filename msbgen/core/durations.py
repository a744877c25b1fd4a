"""Times as people write them: 120s, 500ms, 5min, 1h."""

import re

from msbgen.core.errors import ArgumentError

# Units of time [s], in files and in arguments of the command line.
UNITS = {
    "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9,
    "min": 60.0, "h": 3600.0, "d": 86_400.0,
}  # fmt: skip
# Other spellings, in lower case.
_SPELLINGS = {
    "s": ("sec", "secs", "second", "seconds"),
    "ms": ("msec", "msecs", "millisecond", "milliseconds", "millis"),
    "us": ("usec", "usecs", "microsecond", "microseconds", "micros"),
    "ns": ("nsec", "nsecs", "nanosecond", "nanoseconds", "nanos"),
    "min": ("mins", "minute", "minutes"),
    "h": ("hr", "hrs", "hour", "hours"),
    "d": ("day", "days"),
}
_SPELLED = {word: unit for unit, words in _SPELLINGS.items() for word in words}
_TIME = re.compile(r"\s*(\d+\.?\d*(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?)\s*([a-zµ]*)\s*", re.ASCII)


def parse_seconds(text: str) -> float:
    """Seconds of a time that is written with its unit, or without in seconds.

    Examples
    --------
    >>> parse_seconds("5min"), parse_seconds("500ms"), parse_seconds("0.25")
    (300.0, 0.5, 0.25)
    """
    found = _TIME.fullmatch(text)
    if found is None or (found[2] or "s") not in UNITS or float(found[1]) == float("inf"):
        raise ArgumentError(f"time is {text!r}; a number with its unit, as 2s or 5min, is wanted.")
    return float(found[1]) * UNITS[found[2] or "s"]


def time_unit(text: str) -> str:
    """The unit of time that a text means, as in :data:`UNITS`; the text itself if it is none.

    Examples
    --------
    >>> time_unit("seconds"), time_unit("msec"), time_unit("MB")
    ('s', 'ms', 'MB')
    """
    return _SPELLED.get(text.lower(), text)


def has_unit(text: str) -> bool:
    """Whether a text that may be a time ends in a unit."""
    return text.strip()[-1:].isalpha()
