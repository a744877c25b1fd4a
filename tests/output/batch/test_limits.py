"""Limits: what they stop, and that they leave nothing behind."""

import math
import os
import resource
import signal
import threading
import time

import numpy as np
import pytest

from forks import forked, status_of
from msbgen.output.batch.limits import OutOfTime, fatal_time_limit, memory_limit, time_limit


def test_what_takes_too_long_is_stopped_and_nothing_else():
    before = signal.getsignal(signal.SIGALRM)
    begun = time.monotonic()
    with pytest.raises(OutOfTime), time_limit(0.2):
        time.sleep(30)
    assert 0.2 <= time.monotonic() - begun < 10
    with time_limit(0.2):
        pass
    time.sleep(0.3)  # no alarm comes any more
    assert signal.getsignal(signal.SIGALRM) == before
    with time_limit(math.inf):
        pass


def test_alarms_of_others_reach_them():
    received = []
    before = signal.signal(signal.SIGALRM, lambda *_: received.append(1))
    try:
        with time_limit(30):
            signal.raise_signal(signal.SIGALRM)
        assert received == [1]
    finally:
        signal.signal(signal.SIGALRM, before)


def test_threads_are_not_limited():
    ended = []

    def work():
        with time_limit(0.01):
            time.sleep(0.1)
        ended.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ended == [1]


def test_a_process_ends_with_its_last_words(tmp_path):
    def late():
        with fatal_time_limit(0.2, (tmp_path / "late").touch):
            time.sleep(30)
        return 7

    def early():
        with fatal_time_limit(30, os.abort):
            return 7

    assert status_of(forked(late)) == 1
    assert (tmp_path / "late").exists()
    assert status_of(forked(early)) == 7


def test_memory_is_limited_beyond_what_is_held():
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with memory_limit(4e8):
        held = np.ones(10_000_000)
        with pytest.raises(MemoryError):
            np.empty(100_000_000)
    assert held.sum() == 1e7
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    with memory_limit(math.inf):
        np.empty(100_000_000)
