"""Clocks: clamped from both sides, under every governor."""

import pytest

from fake_kernel import CPU, FakeKernel
from msbgen.sources.measure.actuators.actuator import SettingError, Usage
from msbgen.sources.measure.actuators.cpufreq import CoreClock
from msbgen.sources.measure.actuators.kernel_settings import KernelSettings

TABLE = (800, 1200, 1600, 2400, 3000)


def clock(kernel, cores=(0, 1)):
    return CoreClock("frequency", KernelSettings(kernel, lambda record: None), cores)


def shown(kernel, core=0):
    names = ("scaling_min_freq", "scaling_max_freq")
    return [int(kernel.read(f"{CPU}/cpu{core}/cpufreq/{name}")) // 1000 for name in names]


@pytest.fixture
def kernel(tmp_path):
    return FakeKernel(tmp_path / "kernel").with_cpufreq()


def test_every_clock_is_reached_from_every_other(kernel):
    for first in TABLE:
        actuator = clock(kernel)
        for wanted in TABLE:
            for level in (first, wanted):
                actuator.apply(level)
                assert shown(kernel, 0) == shown(kernel, 1) == [level, level]
                assert actuator.read() == level
        actuator.settings.restore()
        assert shown(kernel, 0) == shown(kernel, 1) == [800, 3000]


def test_under_the_userspace_governor_both_ends_are_clamped_all_the_same(tmp_path):
    kernel = FakeKernel(tmp_path).with_cpufreq(governor="userspace")
    clock(kernel).apply(1600)
    assert shown(kernel) == [1600, 1600]
    assert kernel.read(f"{CPU}/cpu0/cpufreq/scaling_setspeed") == "1600000\n"


def test_a_clock_that_the_driver_lacks_is_refused_with_those_it_has(kernel):
    with pytest.raises(SettingError, match="2400000 kHz where 2000000 was written") as caught:
        clock(kernel).apply(2000)
    assert "800000 1200000 1600000 2400000 3000000" in str(caught.value)


def test_what_can_be_set_is_the_range_of_the_hardware(kernel):
    capability = clock(kernel).capability()
    assert (capability.lowest, capability.highest) == (800, 3000)
    assert capability.mechanism == "cpufreq (acpi-cpufreq)"


def test_only_the_cores_of_the_program_are_touched(kernel):
    clock(kernel, (1,)).apply(1200)
    assert (shown(kernel, 0), shown(kernel, 1)) == ([800, 3000], [1200, 1200])


def test_a_machine_without_a_driver_says_so(tmp_path):
    kernel = FakeKernel(tmp_path)
    assert "cpufreq driver" in clock(kernel).capability().problems[0]


def test_without_permission_the_sentence_says_who_may(kernel):
    kernel.deny(CPU)
    with pytest.raises(SettingError, match=r"\(permission denied\); run as root"):
        clock(kernel).apply(1200)


def test_a_clock_that_another_process_sets_is_refused(kernel):
    actuator = clock(kernel)
    actuator.apply(1200)
    kernel.put(f"{CPU}/cpu0/cpufreq/scaling_max_freq", "3000000\n")
    with pytest.raises(SettingError, match="1200 to 3000 MHz: another process"):
        actuator.read()


def test_the_clock_achieved_is_the_mean_of_what_was_seen(kernel):
    actuator = clock(kernel, (0,))
    actuator.apply(3000)
    for seen in (2900, 2700):
        kernel.put(f"{CPU}/cpu0/cpufreq/scaling_cur_freq", f"{1000 * seen}\n")
        actuator.watch()
    assert actuator.achieved(Usage(1, 1)) == 2800
    assert actuator.achieved(Usage(1, 1)) == 2700  # a run too short to be watched
