"""The template of a spec: valid as it stands, and with any of its comments made active."""

import re

import pytest

from fake_kernel import FakeKernel
from msbgen.sources.measure.sweep import requirements, template
from msbgen.sources.measure.sweep.spec import read_spec
from msbgen.sources.measure.sweep.template import describe_template
from sweeping import needs_perf

pytestmark = needs_perf


@pytest.fixture
def kernel(tmp_path):
    kernel = FakeKernel(tmp_path / "k").with_cpufreq(cores=64).with_resctrl(ways=20)
    mounts = kernel.read("/proc/self/mounts")
    kernel.with_cgroup(2).put("/proc/self/mounts", kernel.read("/proc/self/mounts") + mounts)
    return kernel


@pytest.mark.parametrize("counted", [True, False])
def test_the_template_and_each_of_its_comments_is_a_spec(kernel, tmp_path, monkeypatch, counted):
    lacking = [] if counted else ["event 'instructions' cannot be counted."]
    for module in (template, requirements):
        monkeypatch.setattr(module, "event_problems", lambda spec: iter(lacking))
    text = "".join(describe_template(kernel))
    path = tmp_path / "s.toml"
    path.write_text(text)
    spec = read_spec(path)
    assert [resource.by for resource in spec.resources] == ["quota"]
    assert ("instructions" in spec.events) == counted
    assert ("this machine counts no instructions" in text) != counted
    assert "budget: there is no /sys/kernel/debug/memguard" in text
    assert "add it to 'events'" not in requirements.describe_progress(spec)
    hook = tmp_path / "hook"
    hook.touch(0o755)
    active = re.sub(r"^# (?=\[|\w+ = )", "", text, flags=re.MULTILINE).replace("0.2", "{size}")
    path.write_text(active)
    spec = read_spec(path)
    assert [r.by for r in spec.resources] == [
        "quota", "cores", "memory", "io", "ways", "bandwidth", "clock", "priority", "pressure",
        "argument", "environment", "hook",
    ]  # fmt: skip
    assert spec.resources[4].levels == (1, 6, 11, 15, 20)
