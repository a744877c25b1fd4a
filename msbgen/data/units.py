"""Units of resources and counts: their spellings, which are known, and their prefixes."""

import re
from collections.abc import Iterable

# The "ps" of "MBps" and "Gbps" is no picosecond.
_PER_SECOND = re.compile(r"(?:(?<=[Bb])ps| ?/ ?s| s\^-1)$")
# Factors of a unit: a number, or a symbol with its exponent.
_SEPARATOR = re.compile(r"[ /*·]+")
_NUMBER = re.compile(r"\d+(\.\d*)?(e[-+]?\d+)?", re.ASCII)
_EXPONENT = re.compile(r"((\^|\*\*)[-+]?\d+|[-+]?\d)$", re.ASCII)
_FACTORS = {
    "": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40,
    "m": 1e-3, "u": 1e-6, "µ": 1e-6, "n": 1e-9, "p": 1e-12, "c": 1e-2,
}  # fmt: skip
_WITH_PREFIX = (
    "s", "Hz", "B", "b", "bit", "bits", "byte", "bytes", "W", "Wh", "J", "V", "A", "Pa", "m", "g",
    "T", "OPS", "IOPS", "FLOPS", "flop", "flops",
)  # fmt: skip
_WITHOUT_PREFIX = (
    "min", "h", "d", "K", "°C", "degC", "percent", "%", "ppm", "rpm", "dB",
)  # fmt: skip
_COUNTED = (
    "way", "core", "millicore", "thread", "cpu", "CPU", "vCPU", "socket", "node", "page", "line",
    "entry", "partition", "process", "worker", "task", "image", "cycle", "instruction", "event",
    "request", "query", "sample", "item", "token", "batch", "op", "operation", "transaction",
    "packet", "frame", "iteration", "step", "second", "minute", "hour", "day",
)  # fmt: skip
_SYMBOLS = {prefix + symbol for prefix in _FACTORS for symbol in _WITH_PREFIX}
_SYMBOLS |= {*_WITHOUT_PREFIX, *_COUNTED, *(f"{word}s" for word in _COUNTED)}
_SYMBOLS |= {"entries", "processes", "queries", "batches"}


def _prefixed(symbol: str, prefixes: Iterable[str]) -> dict[str, float]:
    return {prefix + symbol: _FACTORS[prefix] for prefix in prefixes}


# Units of clocks [Hz], energies [J], powers [W] and amounts of data [B].
HERTZ = _prefixed("Hz", ("", "k", "M", "G"))
JOULES = _prefixed("J", ("", "k", "m", "u", "µ", "n"))
WATTS = _prefixed("W", ("", "k", "m", "u", "µ"))
BYTES = _prefixed("B", ("", "k", "K", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"))

# What is known, in words.
KNOWN = (
    "'1' or 'percent', bytes, seconds, hertz, watts, joules, volts, amperes or °C with their "
    "prefixes, such as 'MB s-1', 'GiB' or 'GHz'"
)


def plain_unit(text: str) -> str:
    """One spelling of a unit: ``MBps``, ``MB/s`` and ``MB s-1`` are ``MB s-1``."""
    text = " ".join(text.replace("μ", "µ").split())  # of two letters mu, that of units
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
        _is_known(factor) or _is_known(_EXPONENT.sub("", factor)) for factor in factors
    )


def _is_known(factor: str) -> bool:
    return factor in _SYMBOLS or _NUMBER.fullmatch(factor) is not None
