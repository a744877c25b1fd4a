"""Cache ways and bandwidth: every refusal that the kernel has, as users see it."""

import errno
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_kernel import RESCTRL, FakeKernel
from msbgen.sources.measure.actuators.actuator import SettingError, Usage
from msbgen.sources.measure.actuators.kernel_settings import KernelSettings
from msbgen.sources.measure.actuators.resctrl import CacheWays, MemoryBandwidth, ResctrlGroup

GROUP = f"{RESCTRL}/msbgen-t"


def group(kernel):
    return ResctrlGroup(KernelSettings(kernel, lambda record: None), "msbgen-t")


def ways(kernel):
    return CacheWays("cache_ways", group(kernel))


def bandwidth(kernel):
    return MemoryBandwidth("bandwidth", group(kernel))


@pytest.fixture
def kernel(tmp_path):
    return FakeKernel(tmp_path / "kernel").with_resctrl()


@pytest.fixture
def child():
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


# --------------------------------------------------------------------------- what is set


@given(st.integers(4, 20), st.data())
def test_so_many_ways_in_one_piece_in_every_cache(tmp_path_factory, whole, data):
    level = data.draw(st.integers(1, whole))
    shareable = data.draw(st.sampled_from([0, 3, 0b11 << (whole - 2)]))
    kernel = FakeKernel(tmp_path_factory.mktemp("k")).with_resctrl(ways=whole, shareable=shareable)
    actuator = ways(kernel)
    actuator.apply(level)
    masks = kernel.values(GROUP)["L3"]
    assert set(masks) == {0, 1}
    assert len(set(masks.values())) == 1
    assert masks[0].bit_count() == level == actuator.read() == actuator.achieved(Usage(1, 1))
    if level <= whole - shareable.bit_count():
        assert masks[0] & shareable == 0


def test_code_and_data_get_the_same_ways(tmp_path):
    kernel = FakeKernel(tmp_path).with_resctrl(cdp=True)
    actuator = ways(kernel)
    actuator.apply(5)
    values = kernel.values(GROUP)
    assert values["L3CODE"] == values["L3DATA"] == {0: 31, 1: 31}
    assert actuator.read() == 5


def test_bandwidth_in_percent_in_megabytes_and_in_eighths_of_gigabytes(tmp_path):
    intel = bandwidth(FakeKernel(tmp_path / "a").with_resctrl())
    soft = FakeKernel(tmp_path / "b").with_resctrl(
        options="rw,mba_MBps", bandwidth=(10, 10, 4294967295)
    )
    amd = FakeKernel(tmp_path / "c").with_resctrl(bandwidth=(1, 1, 2048))
    assert [bandwidth(k).units for k in (soft, amd)] == ["MiB s-1", "0.125 GB s-1"]
    assert intel.units == "percent"
    mechanisms = {a.capability().mechanism for a in (intel, bandwidth(soft), bandwidth(amd))}
    assert len(mechanisms) == 3  # which never share an axis
    intel.apply(50)
    for kernel, level in ((soft, 1234), (amd, 16)):
        actuator = bandwidth(kernel)
        actuator.apply(level)
        assert actuator.read() == level
        actuator.apply(level + 1)
        assert actuator.read() == level + 1


def test_both_resources_are_lines_of_one_group(kernel, child):
    shared = group(kernel)
    cache, memory = CacheWays("cache_ways", shared), MemoryBandwidth("bandwidth", shared)
    cache.apply(4)
    memory.apply(30)
    cache.place(child.pid)
    memory.place(child.pid)
    assert kernel.read(f"{GROUP}/tasks") == f"{child.pid}\n"
    assert kernel.values(GROUP) == {"L3": {0: 15, 1: 15}, "MB": {0: 30, 1: 30}}
    before = kernel.read(f"{RESCTRL}/schemata")
    shared.settings.restore()
    assert not kernel.exists(GROUP)
    assert kernel.read(f"{RESCTRL}/schemata") == before
    child.kill()


def test_what_can_be_set_is_what_the_processor_says(tmp_path):
    kernel = FakeKernel(tmp_path).with_resctrl(ways=11, least=2, bandwidth=(20, 20, 100))
    capability = ways(kernel).capability()
    assert (capability.lowest, capability.highest, capability.step) == (2, 11, 1)
    capability = bandwidth(kernel).capability()
    assert (capability.lowest, capability.highest, capability.step) == (20, 100, 20)
    assert "rounded to 60" in capability.level_problems("bandwidth", [50], "percent")[0]


def test_values_that_the_kernel_rounds_up_are_refused_with_what_it_made(kernel):
    with pytest.raises(SettingError, match="is 60 where 55 was written: the kernel rounds up"):
        bandwidth(kernel).apply(55)


# --------------------------------------------------------------------------- what is lacking


def test_machines_without_it_say_what_would_help(tmp_path):
    bare = FakeKernel(tmp_path / "bare")
    for actuator in (ways(bare), bandwidth(bare)):
        assert "mount -t resctrl" in actuator.capability().problems[0]
    cat_only = FakeKernel(tmp_path / "cat").with_resctrl(bandwidth=None)
    assert "no MB in 'schemata'" in bandwidth(cat_only).capability().problems[0]
    assert ways(cat_only).capability().problems == ()
    cat_only.put(f"{RESCTRL}/schemata", "MB:0=100\n")
    assert "no L3 in 'schemata'" in ways(cat_only).capability().problems[0]


# --------------------------------------------------------------------------- what is refused


def refused(kernel, sentence, act):
    """The error has the kernel's sentence (or none), a value, and a remedy after it."""
    with pytest.raises(SettingError) as caught:
        act()
    message = str(caught.value)
    if sentence is not None:
        assert f"'{sentence}'" in message
    head, _, remedy = message.rpartition("; ")
    assert "the kernel refused " in head
    assert len(remedy.split()) >= 2, message
    assert remedy.endswith(".")
    return message


# The kernel's sentences about a line or a task, and the remedies that users see.
LOCKED = "a group has locked a part of the cache"
REMEDIES = {
    "Mask out of range": "a number of ways between",
    "Need at least 2 bits in the mask": "ask for more ways",
    "Unknown or unsupported resource name 'L2'": "mount resctrl with what the processor has",
    "MB value 5 out of range [10,100]": "ask for a bandwidth in that range",
    "No support for non-linear MB domains": "this processor's bandwidth cannot be set",
    "Overlaps with exclusive group": "another group holds these ways exclusively",
    "Overlaps with other group": "our group was made exclusive",
    "CBM overlaps with pseudo-locked region": LOCKED,
    "Resource group is pseudo-locked": LOCKED,
    "Cannot pseudo-lock MBA resource": LOCKED,
    "Pseudo-locked region in hierarchy": LOCKED,
    "Pseudo-locking in progress": LOCKED,
    "No permission to move task 7\nError while processing task 7": "run as root",
    "No task 7\nError while processing task 7": "the program ended before it was placed",
    "Can't move task to different control group": "leave the task to its own group",
}


@pytest.mark.parametrize(("sentence", "remedy"), REMEDIES.items(), ids=REMEDIES)
def test_every_sentence_of_the_kernel_reaches_the_user_with_its_remedy(kernel, sentence, remedy):
    actuator = bandwidth(kernel) if "MB" in sentence else ways(kernel)
    actuator.group.create("x")
    kernel.refuse(errno.EINVAL, sentence)
    for act in (lambda: actuator.apply(50 if "MB" in sentence else 4), lambda: actuator.place(7)):
        assert f"; {remedy}" in refused(kernel, ", ".join(sentence.split("\n")), act)


@pytest.mark.parametrize(
    ("number", "remedy"), [(errno.EINVAL, "no reason given"), (errno.EROFS, "remount,rw")]
)
def test_refusals_without_a_sentence_are_explained(kernel, number, remedy):
    ways(kernel).apply(4)
    kernel.refuse(number)
    assert remedy in refused(kernel, None, lambda: ways(kernel).apply(4))


def test_a_mask_of_no_bits_is_out_of_range(kernel):
    for level in (0, 21):
        refused(kernel, "Mask out of range", lambda level=level: ways(kernel).apply(level))


# --------------------------------------------------------------------------- tasks and groups


def test_a_task_that_is_gone_is_named(kernel, child):
    child.kill()
    child.wait()
    sentence = f"No task {child.pid}, Error while processing task {child.pid}"
    refused(kernel, sentence, lambda: ways(kernel).place(child.pid))


def test_a_write_that_changed_nothing_is_noticed(kernel, child):
    kernel._write_tasks = lambda folder, text: None
    with pytest.raises(SettingError, match="is missing from"):
        ways(kernel).place(child.pid)
    child.kill()


def test_more_groups_than_the_processor_has(tmp_path):
    kernel = FakeKernel(tmp_path).with_resctrl(closids=2)
    kernel.make(f"{RESCTRL}/other")
    message = refused(kernel, "Out of CLOSIDs", lambda: ways(kernel).apply(4))
    assert f"rmdir {RESCTRL}/GROUP" in message
    kernel.remove(f"{RESCTRL}/other")
    ways(kernel).apply(4)


def test_monitors_in_limbo_are_busy_and_used_up_ones_are_no_space(tmp_path):
    kernel = FakeKernel(tmp_path).with_resctrl(rmids=2)
    kernel.know(limbo_each=1)
    actuator = ways(kernel)
    actuator.apply(4)
    actuator.group.settings.restore()  # its monitor goes into limbo
    assert "wait" in refused(kernel, "Out of RMIDs", lambda: actuator.apply(4))
    kernel.know(limbo=0)
    kernel.make(f"{RESCTRL}/other")
    refused(kernel, "Out of RMIDs", lambda: actuator.apply(4))


def test_a_cache_that_others_hold_exclusively_has_no_space(kernel):
    kernel.make(f"{RESCTRL}/other")
    kernel.put(f"{RESCTRL}/other/mode", "exclusive\n")
    refused(kernel, "No space on L3:0", lambda: ways(kernel).apply(4))


def test_without_permission_or_group_the_sentence_says_what_to_do(kernel):
    actuator = ways(kernel)
    actuator.apply(4)
    kernel.deny(RESCTRL)
    assert "run as root" in refused(kernel, None, lambda: actuator.apply(5))


def test_a_group_removed_meanwhile_is_made_again(kernel):
    actuator = ways(kernel)
    actuator.apply(4)
    kernel.remove(GROUP)
    actuator.apply(5)
    assert actuator.read() == 5
