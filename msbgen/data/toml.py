"""Reading of TOML files with checks of every key."""

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msbgen.core.errors import ProfileError, quoted
from msbgen.data.files import check_input

# A key of a hundred parts: the time of the parser grows with the square of their number.
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+"""
_DEEP = re.compile(rf"(?<![\w-]){_PART}(?:\.[ \t]*+{_PART}){{99}}")


def read_toml(path: str | os.PathLike[str]) -> tuple[Path, dict[str, Any]]:
    """Path and content of a TOML file."""
    path = check_input(path)
    try:
        text = path.read_text(encoding="utf-8")
        if _DEEP.search(text):
            raise ProfileError(
                f"{path.name}: has names of a hundred parts, joined by dots; shorten them."
            )
        content = tomllib.loads(text)
        repr(content)  # fails for numbers of more digits than Python writes
    except ProfileError:
        raise
    except (OSError, ValueError, RecursionError) as error:  # a ValueError: a number too long
        raise ProfileError(f"{path.name}: cannot be read as TOML ({error}).") from None
    return path, content


def amount(value: Any, key: str, where: str) -> float:
    """Return a value if it is a number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ProfileError(f"{where}: '{key}' is {quoted(value)}; a number is wanted.")
    try:
        return float(value)
    except OverflowError:
        raise ProfileError(f"{where}: '{key}' is far too large; correct it.") from None


def name(content: Mapping[str, Any], key: str, where: str, wanted: str = "a name") -> str:
    """Return the text of a key; `wanted` describes it in messages."""
    if not isinstance(content[key], str) or not content[key]:
        raise ProfileError(f"{where}: '{key}' is {quoted(content[key])}; {wanted} is wanted.")
    return content[key]


def tables(content: Mapping[str, Any], key: str, where: str) -> list[dict[str, Any]]:
    """Return the array of tables of a key."""
    found = content[key]
    if not isinstance(found, list) or not all(isinstance(table, dict) for table in found):
        raise ProfileError(f"{where}: '{key}' is no array of tables; '[[{key}]]' is wanted.")
    return found
