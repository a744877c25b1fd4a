"""Reading of TOML files with checks of every key."""

import difflib
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
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


def check_keys(
    content: Mapping[str, Any], known: Sequence[str], needed: Sequence[str], where: str
) -> None:
    """Raise :class:`ProfileError` for a key that is unknown or missing."""
    for key in content:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"{', '.join(known)} are."
            raise ProfileError(f"{where}: {quoted(key)} is no known key; {hint}")
    for key in needed:
        if key not in content:
            wanted = f"{', '.join(needed)} are" if len(needed) > 1 else "it is"
            raise ProfileError(f"{where}: '{key}' is missing; {wanted} wanted.")


def amount(value: Any, key: str, where: str) -> float:
    """Return a value if it is a number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ProfileError(f"{where}: '{key}' is {quoted(value)}; a number is wanted.")
    try:
        return float(value)
    except OverflowError:
        raise ProfileError(f"{where}: '{key}' is far too large; correct it.") from None


def whole(value: Any, key: str, where: str) -> int:
    """Return a value if it is a whole number."""
    number = amount(value, key, where)
    if number != number // 1:
        raise ProfileError(f"{where}: '{key}' is {quoted(value)}; a whole number ≥ 1 is wanted.")
    return value if isinstance(value, int) else int(number)


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
