"""Sentences about masks over contexts, runs and intervals: one a kind, with its first place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.data.schema import describe_context, replicate_dim


class Breaches:
    """Sentences about masks over (context[, run[, time]]), one a kind, met block after block."""

    def __init__(self, ds: xr.Dataset):
        self._ds = ds
        self._met: dict[str, tuple[str, int]] = {}

    def of(self, first: int) -> Callable[[str, Any], None]:
        """Take the sentences of a block that begins at context `first`."""

        def found(sentence: str, mask: Any) -> None:
            if not mask.any():
                return
            place, n = self._met.get(sentence, ("", 0))
            place = place or self._place(first, mask)
            self._met[sentence] = place, n + int(np.count_nonzero(mask))

        return found

    def sentences(self) -> Iterator[str]:
        """The sentences met, each with its first place and how many more there are."""
        for sentence, (place, n) in self._met.items():
            more = f" and {n - 1} more place{'s' * (n > 2)}" if n > 1 else ""
            yield sentence.replace("PLACE", place + more)

    def _place(self, first: int, mask: NDArray[np.bool_]) -> str:
        index = np.unravel_index(int(np.argmax(mask)), mask.shape)
        text = f"in {describe_context(self._ds, first + int(index[0]))}"
        dim = replicate_dim(self._ds)
        if dim and len(index) > 1:
            text += f", {dim} {index[1]}"
        if len(index) > 2:
            text += f", interval {index[2]} ({float(self._ds['time'].values[index[2]]):g} s)"
        return text
