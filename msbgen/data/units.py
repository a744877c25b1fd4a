"""Units of resources: their spellings, and which are known."""

import re

_PER_SECOND = re.compile(r"(?:ps| ?/ ?s| s\^-1)$")
# Factors of a unit: a number, or a symbol with its exponent.
_SEPARATOR = re.compile(r"[ /*·]+")
_NUMBER = re.compile(r"\d+(\.\d*)?(e[-+]?\d+)?", re.ASCII)
_EXPONENT = re.compile(r"(\^|\*\*)?[-+]?\d$", re.ASCII)
_PREFIXES = ("", "k", "K", "M", "G", "T", "P", "Ki", "Mi", "Gi", "Ti", "m", "u", "µ", "n", "p", "c")
_WITH_PREFIX = (
    "s",
    "Hz",
    "B",
    "b",
    "bit",
    "byte",
    "bytes",
    "W",
    "J",
    "V",
    "A",
    "m",
    "g",
    "T",
    "OPS",
)
_WITHOUT_PREFIX = (
    *("min", "h", "d", "K", "°C", "degC", "percent", "%", "ppm", "rpm", "dB", "FLOPS", "flop"),
    *(
        "way",
        "core",
        "thread",
        "cpu",
        "CPU",
        "socket",
        "node",
        "page",
        "line",
        "entry",
        "partition",
    ),
    *("process", "worker", "task", "image", "cycle", "instruction", "event", "request", "sample"),
)
_SYMBOLS = {prefix + symbol for prefix in _PREFIXES for symbol in _WITH_PREFIX}
_SYMBOLS |= {*_WITHOUT_PREFIX, *(f"{word}s" for word in _WITHOUT_PREFIX)}
_SYMBOLS |= {"entries", "processes"}

# What is known, in words.
KNOWN = (
    "'1' or 'percent', bytes, seconds, hertz, watts, joules, volts, amperes or °C with their "
    "prefixes, such as 'MB s-1', 'GiB' or 'GHz'"
)


def plain_unit(text: str) -> str:
    """One spelling of a unit: ``MBps``, ``MB/s`` and ``MB s-1`` are ``MB s-1``."""
    text = " ".join(text.split())
    return {"%": "percent", "": "1"}.get(text, _PER_SECOND.sub(" s-1", text))


def is_known_unit(text: str) -> bool:
    """Whether a unit is a product of known ones, with powers of them and numbers.

    Examples
    --------
    >>> is_known_unit("0.125 GB s-1"), is_known_unit("MiB/s"), is_known_unit("parsec")
    (True, True, False)
    """
    factors = [factor for factor in _SEPARATOR.split(plain_unit(text)) if factor]
    return bool(factors) and all(
        _NUMBER.fullmatch(factor) or _EXPONENT.sub("", factor) in _SYMBOLS for factor in factors
    )
