"""A module that refuses nothing is not believed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_kernel import MEMGUARD, FakeKernel
from msbgen.sources.measure.actuators.actuator import SettingError, Usage
from msbgen.sources.measure.actuators.kernel_settings import NORMALISERS, KernelSettings
from msbgen.sources.measure.actuators.memguard import MemGuard

READ = f"{MEMGUARD}/read_limit"


def guard(kernel, cores=(1,), direction="read"):
    return MemGuard("bandwidth", KernelSettings(kernel, lambda record: None), cores, direction)


def shown(kernel, path=READ):
    return NORMALISERS["memguard"](kernel.read(path))


@pytest.fixture
def kernel(tmp_path):
    return FakeKernel(tmp_path / "kernel").with_memguard()


@given(st.integers(1, 100_000))
def test_whole_megabytes_come_back_as_they_were_written(tmp_path_factory, limit):
    kernel = FakeKernel(tmp_path_factory.mktemp("k")).with_memguard()
    actuator = guard(kernel)
    actuator.apply(limit)
    assert actuator.read() == actuator.achieved(Usage(1, 1)) == limit


def test_only_our_cores_get_the_limit_and_all_are_put_back(kernel):
    kernel.write(READ, "mb 900 800 700 600\n")
    actuator = guard(kernel, (1, 3))
    actuator.apply(500)
    assert shown(kernel) == "mb 900 500 700 500"
    actuator.settings.restore()
    assert shown(kernel) == "mb 900 800 700 600"


def test_reads_and_writes_have_limits_of_their_own(kernel):
    guard(kernel, direction="write").apply(300)
    assert shown(kernel) == "mb 100000 100000 100000 100000"
    assert shown(kernel, f"{MEMGUARD}/write_limit") == "mb 100000 300 100000 100000"


def test_a_value_that_vanished_in_silence_is_noticed(kernel):
    """Zero leaves a core as it was, and the module reports success."""
    with pytest.raises(SettingError, match="core 1 has 100000 MB/s where 0 was written"):
        guard(kernel).apply(0)


def test_a_limit_that_comes_back_otherwise_is_noticed(tmp_path):
    kernel = FakeKernel(tmp_path).with_memguard(period=1000)
    kernel.know(per_second=200_000)  # so short a period that an event more is 12 MB/s more
    with pytest.raises(SettingError, match="where 100 was written"):
        guard(kernel).apply(100)


def test_without_the_module_the_lack_is_said(tmp_path):
    assert "memguard.ko" in guard(FakeKernel(tmp_path)).capability().problems[0]


def test_a_core_that_is_not_regulated_is_a_lack(kernel):
    assert "does not regulate core 7" in guard(kernel, (7,)).capability().problems[0]
    assert guard(kernel).capability().level_problems("bandwidth", [500], "MB s-1") == []


def test_without_permission_the_sentence_says_who_may(kernel):
    kernel.deny(MEMGUARD)
    with pytest.raises(SettingError, match="run as root"):
        guard(kernel).apply(500)
