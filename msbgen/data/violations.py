"""Violations in masks over contexts, runs and intervals: one sentence per kind, with a place."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msbgen.data.profiles import Profiles


class Violations:
    """Violations over (context[, run[, time]]), collected block by block: one sentence per kind."""

    def __init__(self, profiles: Profiles):
        self._profiles = profiles
        self._met: dict[str, tuple[str, int]] = {}

    def of(self, first: int) -> Callable[[str, Any], None]:
        """Add the violations of a block that begins at context `first`."""

        def found(sentence: str, mask: Any) -> None:
            if not mask.any():
                return
            place, n = self._met.get(sentence, ("", 0))
            place = place or self._place(first, mask)
            self._met[sentence] = place, n + int(np.count_nonzero(mask))

        return found

    def sentences(self) -> Iterator[str]:
        """One sentence per kind, with its first place and the number of further ones."""
        for sentence, (place, n) in self._met.items():
            more = f" and {n - 1} more place{'s' * (n > 2)}" if n > 1 else ""
            yield sentence.replace("PLACE", place + more)

    def _place(self, first: int, mask: NDArray[np.bool_]) -> str:
        index = np.unravel_index(int(np.argmax(mask)), mask.shape)
        text = f"in {self._profiles.describe_context(first + int(index[0]))}"
        replicate = self._profiles.replicate
        if replicate and len(index) > 1:
            text += f", {replicate} {index[1]}"
        if len(index) > 2:
            text += f", interval {index[2]} ({self._profiles.interval * (index[2] + 1):g} s)"
        return text
