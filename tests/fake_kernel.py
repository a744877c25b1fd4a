"""A kernel's setting files, backed by a folder that outlives the process.

What a file shows lies in the folder as it would lie in ``/sys``; a write is judged as the kernel
judges it.  Sources: Linux ``fs/resctrl/{rdtgroup,ctrlmondata,monitor}.c``, ``kernel/sched/core.c``
(tg_set_cfs_bandwidth), ``drivers/cpufreq/{cpufreq,freq_table}.c``; MemGuard's ``memguard.c``.
"""

from __future__ import annotations

import errno
import json
import os
import re
from contextlib import contextmanager
from pathlib import Path

RESCTRL = "/sys/fs/resctrl"
CPU = "/sys/devices/system/cpu"
MEMGUARD = "/sys/kernel/debug/memguard"
CGROUP = "/sys/fs/cgroup"
# Files of memory and disk limits in a new group, by version of control groups.
LIMITS = {
    1: {
        "memory.limit_in_bytes": "9223372036854771712",
        "memory.swappiness": "60",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 0",
        "blkio.throttle.read_bps_device": "",
        "blkio.throttle.write_bps_device": "",
    },
    2: {
        "memory.max": "max",
        "memory.swap.max": "max",
        "memory.events": "low 0\nmax 0\noom 0\noom_kill 0",
        "io.max": "",
    },
}
TASK_FILES = ("tasks", "cgroup.procs")


def alive(pid):
    """Whether a process runs: neither gone nor waiting to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def no(number, path):
    return OSError(number, os.strerror(number).lower(), path)


class FakeKernel:
    """Files of a kernel in the folder `root`; the same folder is the same kernel."""

    def __init__(self, root):
        self.root = Path(root)
        self.root.mkdir(parents=True, exist_ok=True)
        self._facts = self.root / "facts.json"

    # ------------------------------------------------------------------ what the machine is

    @property
    def facts(self):
        return json.loads(self._facts.read_text()) if self._facts.exists() else {}

    def know(self, **facts):
        self._facts.write_text(json.dumps({**self.facts, **facts}))

    def put(self, path, text):
        """A file as the machine has it, whatever the kernel would say."""
        file = self.at(path)
        if not file.parent.is_dir():
            file.parent.mkdir(parents=True)
        # written over, not truncated: file systems flush what was emptied and written again
        with file.open("r+" if file.exists() else "w") as stream:
            stream.write(text)
            stream.truncate()

    def at(self, path):
        return Path(f"{self.root}/tree{path}")

    def deny(self, *paths):
        """Take the permission to write away."""
        self.know(denied=[*self.facts.get("denied", []), *paths])

    # ------------------------------------------------------------------ the files' interface

    def exists(self, path):
        return os.path.lexists(self.at(path))

    def names(self, path):
        return sorted(os.listdir(self.at(path))) if self.at(path).is_dir() else []

    def read(self, path):
        if not self.at(path).is_file():
            raise no(errno.ENOENT, path)
        text = self.at(path).read_text()
        if path.rpartition("/")[2] in TASK_FILES:
            return "".join(f"{pid}\n" for pid in text.split() if alive(pid))
        return text

    def write(self, path, text):
        if not self.at(path).is_file():
            raise no(errno.ENOENT, path)
        if any(path.startswith(denied) for denied in self.facts.get("denied", [])):
            raise no(errno.EACCES, path)
        for start, judge in (
            (RESCTRL, self._write_resctrl),
            (CPU, self._write_cpufreq),
            (MEMGUARD, self._write_memguard),
            (CGROUP, self._write_cgroup),
        ):
            if path.startswith(start):
                judge(path, text)

    def make(self, path):
        if self.exists(path):
            raise no(errno.EEXIST, path)
        if any(path.startswith(denied) for denied in self.facts.get("denied", [])):
            raise no(errno.EACCES, path)
        (self._make_resctrl if path.startswith(RESCTRL) else self._make_cgroup)(path)

    def remove(self, path):
        if not self.exists(path):
            raise no(errno.ENOENT, path)
        if path.startswith(CGROUP) and self.read(f"{path}/cgroup.procs"):
            raise no(errno.EBUSY, path)
        if path.startswith(RESCTRL):
            if path.rpartition("/")[2] in ("info", "mon_groups", "mon_data"):
                raise no(errno.EPERM, path)
            self.know(limbo=self.facts.get("limbo", 0) + self.facts.get("limbo_each", 0))
        for name in os.listdir(self.at(path)):
            self.at(f"{path}/{name}").unlink()
        self.at(path).rmdir()

    # ------------------------------------------------------------------ resctrl

    def with_resctrl(
        self, *, ways=20, caches=(0, 1), least=1, shareable=0, options="rw",
        bandwidth=(10, 10, 100), closids=16, rmids=64, cdp=False, width=6,
    ):  # fmt: skip
        """A machine with CAT and MBA; `bandwidth` is least, step, whole, or None for none."""
        mask = (1 << ways) - 1
        resources = ["L3CODE", "L3DATA"] if cdp else ["L3"]
        self.know(
            ways=ways, caches=list(caches), least=least, closids=closids,
            rmids=rmids, bandwidth=bandwidth, sc="mba_MBps" in options, resources=resources,
            width=width, limbo=0,
        )  # fmt: skip
        self.put("/proc/self/mounts", f"resctrl {RESCTRL} resctrl {options} 0 0\n")
        for resource in resources:
            info = f"{RESCTRL}/info/{resource}"
            self.put(f"{info}/cbm_mask", f"{mask:x}\n")
            self.put(f"{info}/min_cbm_bits", f"{least}\n")
            self.put(f"{info}/shareable_bits", f"{shareable:x}\n")
        if bandwidth:
            self.put(f"{RESCTRL}/info/MB/min_bandwidth", f"{bandwidth[0]}\n")
            self.put(f"{RESCTRL}/info/MB/bandwidth_gran", f"{bandwidth[1]}\n")
        self.put(f"{RESCTRL}/info/last_cmd_status", "ok\n")
        self._new_group(RESCTRL)
        return self

    def _new_group(self, folder, masks=None):
        facts = self.facts
        whole = {c: (1 << facts["ways"]) - 1 for c in facts["caches"]}
        values = {name: dict(masks or whole) for name in facts["resources"]}
        if facts["bandwidth"]:
            values["MB"] = {c: facts["bandwidth"][2] for c in facts["caches"]}
        self.put(f"{folder}/mode", "shareable\n")
        self.put(f"{folder}/tasks", "")
        self._show(folder, values)

    def _show(self, folder, values):
        lines = []
        for name, by_cache in values.items():
            shown = (
                f"{c}={v:x}" if name != "MB" else f"{c}={v:>4}" if v > 100 else f"{c}={v}"
                for c, v in by_cache.items()
            )
            lines.append(f"{name:>{self.facts['width']}}:{';'.join(shown)}\n")
        self.put(f"{folder}/schemata", "".join(lines))

    def values(self, folder):
        found = {}
        for line in self.at(f"{folder}/schemata").read_text().splitlines():
            name, _, rest = line.strip().partition(":")
            pairs = (pair.split("=") for pair in rest.split(";"))
            base = 10 if name == "MB" else 16
            found[name] = {int(c): int(v.strip(), base) for c, v in pairs}
        return found

    def groups(self):
        inside = [f"{RESCTRL}/{n}" for n in self.names(RESCTRL)]
        return [RESCTRL, *(g for g in inside if self.exists(f"{g}/schemata"))]

    def mode(self, group):
        return self.read(f"{group}/mode").strip()

    def say(self, sentence):
        self.put(f"{RESCTRL}/info/last_cmd_status", f"{sentence}\n")

    @contextmanager
    def _refusing(self, path):
        """A raise of (errno, sentence) becomes the kernel's failure and its last words."""
        try:
            yield
        except _Refused as refused:
            if refused.sentence is not None:
                self.say(refused.sentence)
            raise no(refused.number, path) from None

    def _make_resctrl(self, path):
        facts = self.facts
        with self._refusing(path):
            self.say("ok")
            if path.rpartition("/")[0] != RESCTRL or "\n" in path:
                raise _Refused(errno.EPERM, None)
            if len(self.groups()) >= facts["closids"]:
                raise _Refused(errno.ENOSPC, "Out of CLOSIDs")
            if len(self.groups()) + facts["limbo"] >= facts["rmids"]:
                raise _Refused(errno.EBUSY if facts["limbo"] else errno.ENOSPC, "Out of RMIDs")
            whole = (1 << facts["ways"]) - 1
            masks = dict.fromkeys(facts["caches"], whole)
            for group in self.groups():
                if self.mode(group) in ("exclusive", "pseudo-locked"):
                    for name in facts["resources"]:
                        for cache, mask in self.values(group)[name].items():
                            masks[cache] &= ~mask
            for cache, mask in masks.items():
                masks[cache] = mask = _in_one_piece(mask)
                if mask.bit_count() < max(facts["least"], 1):
                    raise _Refused(errno.ENOSPC, f"No space on {facts['resources'][0]}:{cache}")
            self.at(path).mkdir()
            self._new_group(path, masks)

    def refuse(self, number, sentence=None):
        """Refuse every further write below resctrl, with the kernel's sentence if it has one."""
        self.know(refusing=[number, sentence])

    def _write_resctrl(self, path, text):
        folder, _, file = path.rpartition("/")
        with self._refusing(path):
            self.say("ok")
            if "refusing" in self.facts:
                raise _Refused(*self.facts["refusing"])
            if file == "schemata":
                self._write_schemata(folder, text)
            elif file == "tasks":
                self._write_tasks(folder, int(text))
            else:
                raise _Refused(errno.EACCES, None)

    def _write_schemata(self, folder, text):
        values = self.values(folder)
        if not text.endswith("\n"):
            raise _Refused(errno.EINVAL, None)
        for line in text[:-1].split("\n"):
            name, _, pairs = line.partition(":")
            for cache, value in (pair.split("=") for pair in pairs.split(";")):
                assert int(cache) in values[name]
                limit = self._bandwidth if name == "MB" else self._mask
                values[name][int(cache)] = limit(value)
        self._show(folder, values)

    def _bandwidth(self, value):
        least, step, whole = self.facts["bandwidth"]
        if not self.facts["sc"] and not least <= int(value) <= whole:
            raise _Refused(errno.EINVAL, f"MB value {value} out of range [{least},{whole}]")
        return int(value) if self.facts["sc"] else -(-int(value) // step) * step

    def _mask(self, value):
        mask = int(value, 16)
        if mask == 0 or mask >= 1 << self.facts["ways"]:
            raise _Refused(errno.EINVAL, "Mask out of range")
        if _in_one_piece(mask) != mask:
            raise _Refused(errno.EINVAL, f"The mask {mask:x} has non-consecutive 1-bits")
        if mask.bit_count() < self.facts["least"]:
            raise _Refused(errno.EINVAL, f"Need at least {self.facts['least']} bits in the mask")
        return mask

    def _write_tasks(self, folder, pid):
        if not os.path.exists(f"/proc/{pid}"):
            message = f"No task {pid}\nError while processing task {pid}"
            raise _Refused(errno.ESRCH, message)
        for group in self.groups():
            words = self.at(f"{group}/tasks").read_text().split()
            self.put(f"{group}/tasks", "".join(f"{w}\n" for w in words if w != str(pid)))
        if folder != RESCTRL:
            with self.at(f"{folder}/tasks").open("a") as stream:
                stream.write(f"{pid}\n")

    # ------------------------------------------------------------------ cpufreq

    def with_cpufreq(self, *, cores=2, table=(800, 1200, 1600, 2400, 3000), governor="schedutil"):
        """Cores with a clock each, of the table's values [MHz]."""
        self.know(table=[1000 * f for f in table])
        for core in range(cores):
            folder = f"{CPU}/cpu{core}/cpufreq"
            low, high = 1000 * min(table), 1000 * max(table)
            for name, value in {
                "scaling_driver": "acpi-cpufreq", "scaling_governor": governor,
                "scaling_min_freq": low, "scaling_max_freq": high, "scaling_cur_freq": low,
                "cpuinfo_min_freq": low, "cpuinfo_max_freq": high,
                "scaling_available_frequencies": " ".join(str(1000 * f) for f in table),
                "scaling_setspeed": low if governor == "userspace" else "<unsupported>",
            }.items():  # fmt: skip
                self.put(f"{folder}/{name}", f"{value}\n")
        return self

    def _write_cpufreq(self, path, text):
        folder, _, file = path.rpartition("/")
        table = self.facts["table"]

        def number(name):
            return int(self.at(f"{folder}/{name}").read_text())

        if not re.match(r"\s*\d+", text):
            raise no(errno.EINVAL, path)
        value = int(text.split()[0])
        low, high = number("scaling_min_freq"), number("scaling_max_freq")
        if file == "scaling_setspeed":
            if self.read(f"{folder}/scaling_governor").strip() != "userspace":
                raise no(errno.EINVAL, path)
            self.put(path, f"{min(max(value, low), high)}\n")
        elif file in ("scaling_min_freq", "scaling_max_freq"):
            value = min(max(value, min(table)), max(table))
            low, high = (value, high) if file == "scaling_min_freq" else (low, value)
            if low > high:
                raise no(errno.EINVAL, path)
            if not any(low <= f <= high for f in table):  # the table's next larger clock
                high = min(f for f in table if f > high)
            self.put(f"{folder}/scaling_min_freq", f"{low}\n")
            self.put(f"{folder}/scaling_max_freq", f"{high}\n")
        else:
            raise no(errno.EACCES, path)
        self.put(f"{folder}/scaling_cur_freq", f"{high}\n")

    # ------------------------------------------------------------------ MemGuard

    def with_memguard(self, *, cores=4, period=1000):
        """A module that regulates so many cores in periods of so many microseconds."""
        self.know(per_second=1_000_000 // period)
        for name in ("read_limit", "write_limit"):
            self._show_limits(f"{MEMGUARD}/{name}", [self._events(100_000)] * cores)
        return self

    def _events(self, megabytes):
        return megabytes * 2**20 // (64 * self.facts["per_second"])

    def _show_limits(self, path, limits):
        each = 64 * self.facts["per_second"]
        text = "cpu  |budget (MB/s,pct,weight)\n-------------------------------\n"
        for core, events in enumerate(limits):
            text += f"CPU{core}: {events} ({-(-events * each // 2**20)}MB/s)\t 0\n"
        self.put(path, text)

    def _write_memguard(self, path, text):
        """As its C: sscanf's first number, the text after the next blank; never a refusal."""
        limits = [int(n) for n in re.findall(r": (\d+) \(", self.at(path).read_text())]
        rest, megabytes = (text[3:], True) if text.startswith("mb ") else (text, False)
        given = 4_242  # what was on the stack
        for core in range(len(limits)):
            number = re.match(r"\s*([+-]?\d+)", rest)
            given = int(number[1]) if number else given
            if given == 0:
                continue
            limits[core] = self._events(given) if megabytes else given
            _, blank, rest = rest.partition(" ")
            if not blank:
                break
        self._show_limits(path, limits)

    # ------------------------------------------------------------------ control groups

    def with_cgroup(self, version, *, own="/user", limit=None):
        """Control groups of a version; ourselves in the group `own`, which has `limit` percent."""
        self.know(version=version)
        if version == 1:
            lines = [
                f"cgroup {CGROUP}/{name.partition(',')[0]} cgroup rw,{name} 0 0\n"
                for name in ("cpu,cpuacct", "memory", "blkio")
            ]
            self.put("/proc/self/mounts", "".join(lines))
            self.put("/proc/self/cgroup", f"5:blkio:/\n4:memory:/x\n3:cpu,cpuacct:{own}\n0::/\n")
            for name in ("memory", "blkio"):
                self.put(f"{CGROUP}/{name}/cgroup.procs", "")
            root = f"{CGROUP}/cpu"
        else:
            self.put("/proc/self/mounts", f"cgroup2 {CGROUP} cgroup2 rw 0 0\n")
            self.put("/proc/self/cgroup", f"0::{own}\n")
            root = CGROUP
            self.put(f"{root}/cgroup.controllers", "cpuset cpu io memory\n")
            self.put(f"{root}/cgroup.subtree_control", "memory\n")
        self.put(f"{root}/cgroup.procs", "")
        if own != "/":
            self._new_cgroup(f"{root}{own}")
            if limit is not None and version == 1:
                self.put(f"{root}{own}/cpu.cfs_quota_us", f"{limit * 1000}\n")
            elif limit is not None:
                self.put(f"{root}{own}/cpu.max", f"{limit * 1000} 100000\n")
        return self

    def _new_cgroup(self, path):
        files = {
            1: {"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000", "cpu.shares": "1024"},
            2: {
                "cpu.max": "max 100000",
                "cpu.weight": "100",
                "cgroup.controllers": "cpu",
                "cgroup.subtree_control": "",
            },
        }
        for name, text in files[self.facts["version"]].items():
            self.put(f"{path}/{name}", f"{text}\n")
        for name, text in LIMITS[self.facts["version"]].items():
            self.put(f"{path}/{name}", f"{text}\n")
        self.put(f"{path}/cgroup.procs", "")
        self.put(f"{path}/cpu.stat", "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n")

    def _make_cgroup(self, path):
        parent = path.rpartition("/")[0]
        if not self.at(parent).is_dir():
            raise no(errno.ENOENT, path)
        self._new_cgroup(path)
        if self.facts["version"] == 2:
            given = self.read(f"{parent}/cgroup.subtree_control").split()
            self.put(f"{path}/cgroup.controllers", " ".join(given) + "\n")
            if "cpu" not in given:
                self.at(f"{path}/cpu.max").unlink()
                self.at(f"{path}/cpu.weight").unlink()

    def _limit(self, folder):
        """(quota, period), the quota None where there is no limit."""
        if self.facts["version"] == 1:
            if not self.exists(f"{folder}/cpu.cfs_quota_us"):
                return None, 1
            quota = int(self.read(f"{folder}/cpu.cfs_quota_us"))
            return (None if quota < 0 else quota), int(self.read(f"{folder}/cpu.cfs_period_us"))
        if not self.exists(f"{folder}/cpu.max"):
            return None, 1
        quota, period = self.read(f"{folder}/cpu.max").split()
        return (None if quota == "max" else int(quota)), int(period)

    def _write_cgroup(self, path, text):
        folder, _, file = path.rpartition("/")
        if file == "cgroup.procs":
            if not os.path.exists(f"/proc/{int(text)}"):
                raise no(errno.ESRCH, path)
            below = f"{folder}/cgroup.subtree_control"
            if folder != CGROUP and self.exists(below) and self.read(below).split():
                raise no(errno.EBUSY, path)  # no processes beside groups
            with self.at(path).open("a") as stream:
                stream.write(f"{int(text)}\n")
        elif file == "cgroup.subtree_control":
            now = set(self.read(path).split())
            for word in text.split():
                if word[1:] not in self.read(f"{folder}/cgroup.controllers").split():
                    raise no(errno.ENOENT, path)
                if word[0] == "+" and folder != CGROUP and self.read(f"{folder}/cgroup.procs"):
                    raise no(errno.EBUSY, path)
                (now.add if word[0] == "+" else now.discard)(word[1:])
            self.put(path, " ".join(sorted(now)) + "\n")
        elif file == "cpu.max":
            words = text.split()
            period = int(words[1]) if len(words) > 1 else self._limit(folder)[1]
            quota = None if words[0] == "max" else int(words[0])
            self._check(path, quota, period)
            self.put(path, f"{'max' if quota is None else quota} {period}\n")
        elif file in ("cpu.shares", "cpu.weight"):
            least, most = (2, 262144) if file == "cpu.shares" else (1, 10000)
            if not least <= int(text) <= most:
                raise no(errno.ERANGE, path)
            self.put(path, f"{int(text)}\n")
        elif file in ("cpu.cfs_quota_us", "cpu.cfs_period_us"):
            quota, period = self._limit(folder)
            value = int(text)
            if file == "cpu.cfs_quota_us":
                quota = None if value < 0 else value
            else:
                period = value
            self._check(path, quota, period)
            above = folder.rpartition("/")[0]
            while quota is not None and above.startswith(f"{CGROUP}/"):
                most, of = self._limit(above)
                if most is not None:
                    if quota / period > most / of:
                        raise no(errno.EINVAL, path)
                    break
                above = above.rpartition("/")[0]
            self.put(path, f"{value}\n")
        elif file in ("memory.limit_in_bytes", "memory.max"):
            self.put(path, f"{int(text) // 4096 * 4096}\n")
        elif file in ("memory.swappiness", "memory.swap.max"):
            self.put(path, f"{int(text)}\n")
        elif file.startswith("blkio.throttle.") or file == "io.max":
            disk, value = text.split()
            if disk not in self.facts.get("disks", ()):
                raise no(errno.ENODEV, path)
            limits = dict(dict.fromkeys(("rbps", "wbps", "riops", "wiops"), "max"))
            limits |= dict([value.split("=")] if "=" in value else [])
            shown = " ".join("=".join(pair) for pair in limits.items())
            self.put(path, f"{disk} {shown if file == 'io.max' else value}\n")
        else:
            raise no(errno.EACCES, path)

    def _check(self, path, quota, period):
        if not 1_000 <= period <= 1_000_000 or (quota is not None and quota < 1_000):
            raise no(errno.EINVAL, path)


class _Refused(Exception):
    """The kernel's errno, and its sentence if it has one."""

    def __init__(self, number, sentence):
        self.number, self.sentence = number, sentence


def _in_one_piece(mask):
    """The lowest run of ones of a mask."""
    low = mask & -mask
    end = mask + low
    return mask & ~end if mask else 0
