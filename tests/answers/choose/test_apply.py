"""Settings as text: what they set is read back, by the actuators of `measure` where these can."""

import re
import subprocess

import numpy as np
import pytest
import yaml

from fake_kernel import CGROUP, CPU, RESCTRL, FakeKernel
from msbgen.answers.choose.apply import FORMS, TaskLevels, actuator_of, apply_text
from msbgen.cli.choose import _FORMS
from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.sources.measure.actuators.cpufreq import CoreClock
from msbgen.sources.measure.actuators.kernel_settings import KernelSettings
from msbgen.sources.measure.actuators.resctrl import CacheWays, MemoryBandwidth, ResctrlGroup

ATTRS = {
    "cache_ways": {"units": "1", "levels": np.arange(2.0, 13.0)},
    "bandwidth": {"units": "percent", "mechanism": "resctrl MB"},
    "frequency": {"units": "GHz"},
    "share": {"units": "percent", "mechanism": "cgroup v2 quota, period 10000 us"},
    "memory": {"units": "MiB"},
}
LEVELS = {"cache_ways": 5.0, "bandwidth": 40.0, "frequency": 1.7, "share": 35.0, "memory": 64.0}


def task(name="gzip", attrs=ATTRS, **levels):
    return TaskLevels(name, {**LEVELS, **levels}, attrs)


def write_as_shell(text, kernel):
    """Do what the commands of a form do, with a kernel that checks what it is given."""
    for line in text.splitlines():
        if made := re.fullmatch(r"mkdir -p (\S+)", line):
            if not kernel.exists(made[1]):
                kernel.make(made[1])
        elif wrote := re.fullmatch(r'echo "([^"]*)" > (\S+)', line):
            kernel.write(wrote[2], f"{wrote[1]}\n")
        else:
            assert line.startswith(("#", "mountpoint")), line


@pytest.mark.parametrize(
    ("units", "options", "limits", "level", "read"),
    [
        ("percent", "rw", (10, 10, 100), 40.0, 40.0),
        ("MiB s-1", "rw,mba_MBps", (10, 10, 4294967295), 1234.0, 1234.0),
        ("MB s-1", "rw,mba_MBps", (10, 10, 4294967295), 630.0, 601.0),  # rounded up
        ("0.125 GB s-1", "rw", (1, 1, 2048), 16.0, 16.0),
    ],
)
def test_actuators_of_measure_read_the_schemata_back(tmp_path, units, options, limits, level, read):
    kernel = FakeKernel(tmp_path).with_resctrl(ways=12, options=options, bandwidth=limits)
    attrs = {**ATTRS, "bandwidth": {"units": units}}
    tasks = [task("gzip", attrs, bandwidth=level), task("a b", attrs, cache_ways=7.0)]
    write_as_shell(apply_text("resctrl", tasks, caches=(0, 1)), kernel)
    for group, ways in (("gzip", 5), ("a-b", 7)):
        held = ResctrlGroup(KernelSettings(kernel, lambda record: None), group)
        assert CacheWays("cache_ways", held).read() == ways
        if group == "gzip":
            assert MemoryBandwidth("bandwidth", held).read() == read
    masks = [kernel.values(f"{RESCTRL}/{group}")["L3"][1] for group in ("gzip", "a-b")]
    assert masks[0] & masks[1] == 0


def test_ways_overlap_with_a_note_where_the_cache_has_too_few():
    text = apply_text("resctrl", [task(cache_ways=8.0), task(cache_ways=9.0)])
    assert "has 12 ways for 17: they overlap" in text
    assert re.findall(r"L3:0=(\w+)", text) == ["ff", "1ff"]
    assert "/gzip-2/schemata" in text


def test_clocks_are_written_in_an_order_that_the_kernel_takes(tmp_path):
    text = apply_text("cpufreq", [task()])
    text = text.replace('cores=""', 'cores="2 3"').replace("/sys/", f"{tmp_path}/tree/sys/")
    kernel = FakeKernel(tmp_path).with_cpufreq(cores=4)
    done = subprocess.run(["sh", "-eu", "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for core in (2, 3):
        settings = KernelSettings(kernel, lambda record: None)
        assert CoreClock("frequency", settings, [core]).read() == 1700
    assert kernel.read(f"{CPU}/cpu2/cpufreq/scaling_max_freq") == "1700000\n"
    empty = subprocess.run(["sh", "-c", apply_text("cpufreq", [task()])], capture_output=True)
    assert empty.returncode != 0
    assert b"list the cores first" in empty.stderr


def test_control_groups_get_quota_and_memory(tmp_path):
    text = apply_text("cgroup", [task("gzip -1")]).replace("/sys/", f"{tmp_path}/sys/")
    (tmp_path / CGROUP[1:]).mkdir(parents=True)
    subprocess.run(["sh", "-eu", "-c", text], check=True)
    folder = tmp_path / CGROUP[1:]
    held = {p.name: p.read_text() for p in (folder / "gzip--1").iterdir()}
    wanted = {"cpu.max": "3500 10000\n", "memory.max": "67108864\n", "memory.swap.max": "0\n"}
    assert held == wanted
    assert (folder / "cgroup.subtree_control").read_text() == "+cpu +memory\n"


def test_goresctrl_reads_yaml_with_classes_in_one_partition():
    attrs = {**ATTRS, "bandwidth": {"units": "MiB s-1"}}
    text = apply_text("goresctrl", [task("a", attrs, bandwidth=601), task("b: c", attrs)])
    found = yaml.safe_load(text)["partitions"]["msbgen"]
    assert found["l3Allocation"] == "0x3ff"
    assert found["classes"]["a"] == {"l3Allocation": "0x1f", "mbAllocation": ["100%", "601MBps"]}
    assert found["classes"]["b-c"]["l3Allocation"] == "0x3e0"
    caches = yaml.safe_load(apply_text("goresctrl", [task()], caches=(0, 1)))
    held = caches["partitions"]["msbgen"]["classes"]["gzip"]
    assert held["l3Allocation"] == {"all": "100%", "0,1": "0x1f"}
    assert held["mbAllocation"]["0,1"] == ["40%"]


def test_pqos_defines_one_class_a_task():
    text = apply_text("pqos", [task("a"), task("b", bandwidth=80.0)])
    assert 'pqos -I -e "llc:1=0x1f;mba:1=40"' in text
    assert 'pqos -I -e "llc:2=0x3e0;mba:2=80"' in text
    attrs = {**ATTRS, "bandwidth": {"units": "MB s-1"}}
    text = apply_text("pqos", [task("a", attrs, bandwidth=1.0)], caches=(1, 2))
    assert "mbaCtrl-on" in text
    assert '"llc@1,2:1=0x1f;mba_max@1,2:1=1"' in text


def test_what_a_form_does_not_set_is_said_and_no_form_sets_nothing():
    assert "frequency=1.7 GHz (not set here)" in apply_text("resctrl", [task()])
    clock = TaskLevels("gzip", {"frequency": 1.0}, ATTRS)
    with pytest.raises(ArgumentError, match=r"none of frequency \[GHz\]; cpufreq is wanted"):
        apply_text("resctrl", [clock])
    other = TaskLevels("gzip", {"n": 1.0}, {"n": {"units": "1"}})
    with pytest.raises(ArgumentError, match=r"sets none of n \[1\]; one of ways \[1\]"):
        apply_text("pqos", [other])
    with pytest.raises(ArgumentError, match="form is 'x'; one of resctrl"):
        apply_text("x", [clock])
    assert tuple(FORMS) == _FORMS


@pytest.mark.parametrize("period", [0, 999, 10**9])
def test_a_period_that_no_kernel_takes_is_that_of_an_unknown_one(period):
    attrs = {"share": {"units": "percent", "mechanism": f"cgroup v2 quota, period {period} us"}}
    text = apply_text("cgroup", [TaskLevels("a", {"share": 35.0}, attrs)])
    assert 'echo "35000 100000"' in text


def test_a_name_of_a_task_controls_no_shell():
    text = apply_text("resctrl", [task("a\nrm -rf $(b)")])
    assert all(line.startswith(("#", "mk", "echo", "mountpoint")) for line in text.splitlines())
    assert f"mkdir -p {RESCTRL}/a-rm--rf-b" in text


def test_the_mechanism_says_what_sets_a_resource():
    assert actuator_of("x", {"units": "percent", "mechanism": "cgroup v1 quota, period 1 us"}) == (
        "quota"
    )
    assert actuator_of("cpu_quota", {"units": "%"}) == "quota"
    assert actuator_of("bw", {"units": "%"}) == "bandwidth"
    assert actuator_of("mode", {"units": "1", "labels": ["a"]}) == ""
    assert actuator_of("bandwidth", {"units": "MB s-1", "mechanism": "memguard"}) == ""


def test_units_and_names_from_a_file_stay_inside_the_comment():
    attrs = {
        **ATTRS,
        "frequency": {**ATTRS["frequency"], "units": "1\nrm -rf x; \u2028$(id)\r\x1b"},
    }
    lines = apply_text("resctrl", [task("a\nreboot", attrs)]).split("\n")
    assert not any(line.startswith(("rm", "reboot")) for line in lines)
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize(
    ("form", "levels", "units", "sentence"),
    [
        ("resctrl", {"cache_ways": -1.0}, {}, "cache_ways of task 'gzip' is -1; 1 to 64 whole"),
        ("pqos", {"cache_ways": 1e300}, {}, "1 to 64 whole ways can be set"),
        ("resctrl", {"cache_ways": 2.5}, {}, "is 2.5; 1 to 64 whole ways"),
        ("goresctrl", {"cache_ways": 0.0}, {}, "is 0; 1 to 64 whole ways"),
        ("cpufreq", {}, {"frequency": "1"}, "is in '1'; for a clock, attribute units must be Hz"),
        ("cpufreq", {"frequency": 3.0}, {"frequency": "Hz"}, "is 3; 1 to 1e\\+09 kHz"),
        ("resctrl", {}, {"bandwidth": "x y"}, "is in 'x y'; for a bandwidth"),
    ],
)
def test_what_no_machine_can_be_set_to_is_refused(form, levels, units, sentence):
    attrs = {
        name: {**own, "units": units.get(name, own["units"]), "mechanism": mechanism}
        for (name, own), mechanism in zip(
            ATTRS.items(), ("resctrl L3", "resctrl MB", "cpufreq", "cgroup v2 quota", "memory")
        )
    }
    with pytest.raises(MeasurementError, match=sentence):
        apply_text(form, [task(attrs=attrs, **levels)])


def test_a_cache_is_named_once():
    with pytest.raises(ArgumentError, match=r"caches are \[0, 0\]; each number once"):
        apply_text("resctrl", [task()], caches=(0, 0))
