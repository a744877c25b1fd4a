"""Names of the resources and counters of profiles, and sizes of the cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msbgen.core.records import Within, check_fields


@dataclass(frozen=True)
class Columns:
    """Names of the resources and counters of profiles, and the size of a way.

    Attributes
    ----------
    ways, bandwidth, frequency : str
        Resources: ways of the last-level cache [1], memory bandwidth [MB/s], core clock.
        Profiles without the clock were measured at one clock.
    instructions, requests, misses, prefetched : str
        Counters: the work, requests and misses of the last level, and those misses that a
        prefetcher made early.  Profiles may lack the last one.
    way_size : float
        Size of a way [B]: that of the cache over its ways.
    line_size : float
        Bytes that a miss transfers [B].
    """

    ways: str = "cache_ways"
    bandwidth: str = "bandwidth"
    frequency: str = "frequency"
    instructions: str = "instructions"
    requests: str = "cache_requests"
    misses: str = "cache_misses"
    prefetched: str = "prefetched_misses"
    way_size: Annotated[float, Within(0, unit="B", above=True)] = 2.0**20
    line_size: Annotated[float, Within(0, unit="B", above=True)] = 64.0

    @property
    def counters(self) -> tuple[str, str, str, str]:
        """Names of the counters: instructions, requests, misses, prefetched misses."""
        return self.instructions, self.requests, self.misses, self.prefetched

    def __post_init__(self) -> None:
        check_fields(self)
