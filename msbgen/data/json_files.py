"""JSON objects from outside, without duplicate keys."""

import json
import re
from collections import Counter
from typing import Any

from msbgen.core.errors import ProfileError, quoted

# An escape of half a character; whole ones beyond 16 bits are pairs of them.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def json_object(text: str, source: str, wanted: str) -> dict[str, Any]:
    """The JSON object in a text; errors name the `source`, and what is `wanted` in its place.

    Examples
    --------
    >>> json_object('{"a": [1]}', "a.json", "a list")
    {'a': [1]}
    """
    try:
        document = json.loads(text, object_pairs_hook=lambda pairs: _object(pairs, source))
    except ProfileError:
        raise
    except (ValueError, RecursionError) as error:
        raise ProfileError(f"{source}: cannot be read as JSON ({error}).") from None
    if not isinstance(document, dict):
        raise ProfileError(f"{source}: is no JSON object; {wanted} is wanted.")
    if _SURROGATE.search(text):
        try:
            json.dumps(document, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = f"\\u{ord(error.object[error.start]):04x}"
            raise ProfileError(
                f"{source}: holds {half}, half a character, in a text; correct the text."
            ) from None
    return document


def _object(pairs: list[tuple[str, Any]], source: str) -> dict[str, Any]:
    """A JSON object without duplicate keys; the json module would silently take the last."""
    content = dict(pairs)
    if len(content) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ProfileError(f"{source}: {quoted(twice)} is twice in one object; drop one.")
    return content
