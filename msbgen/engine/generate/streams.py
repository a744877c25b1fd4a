"""Random streams of contexts: keyed by seed, task and levels, never by position.

The samples of a context therefore do not depend on the order, the block or the other contexts.
"""

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from msbgen.core.draws import generator

Floats = NDArray[np.float64]

_KEY_BYTES = 16


def stream_key(rng: np.random.Generator | int = 0, task: str = "") -> int:
    """Key of the streams of a task's contexts: a whole number below 2¹²⁸.

    Equal seeds, and generators in equal states, give equal keys; a generator advances.  Tasks with
    one seed have different streams.

    Examples
    --------
    >>> stream_key(1, "gzip") == stream_key(1, "gzip") != stream_key(1, "zstd")
    True
    """
    drawn = generator(rng).integers(2**32, size=4, dtype=np.uint32)
    content = drawn.astype("<u4").tobytes() + task.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(content, digest_size=_KEY_BYTES).digest(), "little")


def context_streams(key: int, contexts: Floats) -> list[np.random.Generator]:
    """One random stream per context (n, n_resources), by a :func:`stream_key` and its levels.

    Examples
    --------
    >>> both = context_streams(7, np.array([[11.0, 1.7], [5.0, 1.3]]))
    >>> alone = context_streams(7, np.array([[5.0, 1.3]]))
    >>> bool(both[1].random() == alone[0].random())
    True
    """
    head = np.frombuffer(key.to_bytes(_KEY_BYTES, "little"), dtype="<u4")
    levels = np.ascontiguousarray(contexts + 0.0, dtype="<f8").view("<u4")  # -0.0 is 0.0
    return [np.random.default_rng(np.concatenate([head, row])) for row in levels]
