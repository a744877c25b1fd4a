"""Results of benchmark tools, known by their content: parameters become settings, repeats runs.

====================  ========================================================================
hyperfine             ``--export-json``, with ``--parameter-scan`` and ``--parameter-list``
pyperf                JSON: values per loop of every process; own numbers of the metadata
Google Benchmark      ``--benchmark_format=json``: arguments of the names; no aggregates
pytest-benchmark      ``--benchmark-json``: ``params``; ``data``, or else the mean
asv                   one result file of a commit; names of ``benchmarks.json`` beside it
JMH                   ``-rf json``: ``params`` and ``rawData``
Criterion             ``new/sample.json``; names of ``benchmark.json`` beside it
Kernel Tuner          cache or T4 results, also ``.json.gz``
Extra-P               text, or JSON lines
====================  ========================================================================
"""

from __future__ import annotations

import gzip
import itertools
import json
import math
import os
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from msbgen.core.durations import UNITS, time_unit
from msbgen.core.errors import ProfileError, is_number, quoted
from msbgen.core.words import number_of
from msbgen.data.columns import NUMBER
from msbgen.data.files import check_input
from msbgen.sources.timings.timings import Timings, column_of, resource_name

# Metadata of pyperf's own, which are no parameters.
_PYPERF_OWN = (
    "loops", "inner_loops", "duration", "load_avg_1min", "mem_max_rss", "mem_peak_pagefile_usage",
    "uptime", "runnable_threads", "calibrate_loops", "recalibrate_loops", "calibrate_warmups",
    "recalibrate_warmups", "cpu_count", "cpu_freq", "cpu_temp", "timer", "boot_time", "date",
    "command_max_rss", "perf_version", "aslr", "name", "unit", "warmups", "values",
)  # fmt: skip
# Parts of a name of Google Benchmark that are no arguments.
_GOOGLE_OWN = ("real_time", "process_time", "manual_time", "cpu_time")
_GOOGLE_OPTIONS = ("iterations", "repeats", "min_time", "min_warmup_time", "real_time")
# Commands that are longer are named by their programs.
_LONGEST = 60
# Parts of a name in brackets: sort[threads=2,size=10].
_IN_BRACKETS = re.compile(r"(.*?)[\[(]([^\[\]()]*)[\])]")
_ASSIGNED = re.compile(r"\s*([^\W\d][\w .-]*?)\s*[=:]\s*(.+?)\s*")


@dataclass
class Run:
    """One run: its task, its parameters, its time [s], and other numbers by name."""

    task: str
    parameters: Mapping[str, Any]
    seconds: float
    totals: Mapping[str, float] = field(default_factory=dict)


@dataclass
class _Found:
    """Runs of a file, and sentences about what was left out."""

    runs: list[Run]
    notes: list[str] = field(default_factory=list)


def read_benchmarks(
    paths: Sequence[str | os.PathLike[str]], extra: Mapping[str, Mapping[str, Any]] = {}
) -> list[Timings]:
    """Timings of the tasks in files of benchmark tools: one for each task, in their order.

    Runs of one task in several files are put together; `extra` has parameters of files by name,
    such as those in their names.  Results of asv of several commits have a setting ``commit``.

    ProfileError: a file cannot be read, is no result of a tool, or has no runs; or runs of one task
    have different parameters.
    """
    runs: list[tuple[str, Run]] = []
    notes: list[str] = []
    documents = {path: _content(check_input(path)) for path in map(Path, paths)}
    commits = {d["commit_hash"] for d in documents.values() if _tool_of(d) == "asv"}
    for path, document in documents.items():
        tool = _tool_of(document)
        if tool is None:
            raise ProfileError(
                f"{path.name}: is no result of a benchmark tool that is known: "
                f"{', '.join(_READERS)}."
            )
        try:
            found = _READERS[tool](document, path)
            more = dict(extra.get(path.name, {}))
            if tool == "asv" and len(commits) > 1:
                more["commit"] = f"@{document['commit_hash'][:8]}"
            own = [
                (path.name, Run(r.task, {**r.parameters, **more}, r.seconds, r.totals))
                for r in found.runs
            ]
        except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
            raise ProfileError(
                f"{path.name}: looks like a result of {tool}, but a part of it has another form "
                f"({type(error).__name__}: {str(error)[:80]}); write it again."
            ) from None
        if not found.runs:
            raise ProfileError(f"{path.name}: holds no run of {tool} with a time; measure again.")
        notes += [f"{path.name}: {note}" for note in (f"read as {tool}", *found.notes)]
        runs += own
    tasks = list(dict.fromkeys(run.task for _, run in runs))
    return [_timings([(f, run) for f, run in runs if run.task == task], notes) for task in tasks]


def is_benchmark(path: Path) -> bool:
    """Whether a file is a result of a tool of this module."""
    try:
        return _tool_of(_content(path)) is not None
    except ProfileError:
        return False


def _timings(runs: Sequence[tuple[str, Run]], notes: Sequence[str]) -> Timings:
    (file, first), *_ = runs
    names = list(first.parameters)
    for source, run in runs:
        if set(run.parameters) != set(names):
            listed = ", ".join(map(str, run.parameters)) or "none"
            raise ProfileError(
                f"{source}: {run.task} has the parameters {listed}, other runs "
                f"{', '.join(names) or 'none'}; the same in all are wanted."
            )
    own: dict[str, str] = {}
    for name in names:
        own[name] = resource_name(str(name), list(own.values()))
    kept = [t for t in first.totals if all(t in run.totals for _, run in runs)]
    return Timings(
        first.task,
        file,
        np.array([run.seconds for _, run in runs]),
        {own[name]: column_of([_text(run.parameters[name]) for _, run in runs]) for name in names},
        {name: (np.array([run.totals[name] for _, run in runs]), "1") for name in kept},
        tuple(notes),
    )


def _text(value: Any) -> str:
    """A parameter as text: numbers plain, and texts without quotes of a programming language."""
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, float):
        return f"{value:.15g}"
    text = str(value).strip()
    quotes = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    text = text[1:-1] if quotes else text
    return text if text.isprintable() and text else quoted(text)


# --------------------------------------------------------------------------- content


def _content(path: Path) -> Any:
    """The JSON document in a file, a list of objects of JSON lines, or a text that is no JSON."""
    data = path.read_bytes()
    try:
        data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except (OSError, EOFError, zlib.error) as error:
        raise ProfileError(f"{path.name}: cannot be decompressed ({error}).") from None
    utf16 = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    try:
        text = data.decode("utf-16" if utf16 else "utf-8-sig")
    except UnicodeDecodeError:
        raise ProfileError(f"{path.name}: is no text in UTF-8 or UTF-16.") from None
    if text.lstrip()[:1] not in ("{", "["):
        return text
    for repaired in (text, _closed(text)):
        try:
            return json.loads(repaired)
        except (ValueError, RecursionError) as error:
            failed = error
    lines = [line for line in text.splitlines() if line.strip()]
    try:
        return [json.loads(line) for line in lines]
    except (ValueError, RecursionError):
        raise ProfileError(
            f"{path.name}: cannot be read as JSON ({failed}); it may be cut: write it again."
        ) from None


def _closed(text: str) -> str:
    """The text of a cache of Kernel Tuner with the brackets that it lacks while it is written."""
    text = text.rstrip()
    return f"{text[:-1]}\n}}\n}}" if text.endswith(",") and '"cache"' in text else text


def _tool_of(document: Any) -> str | None:
    """The tool that wrote a document; None if it is none of these."""
    if isinstance(document, str):
        return "Extra-P" if re.search(r"^\s*PARAMETER\s", document, re.M) else None
    if isinstance(document, list):
        first = document[0] if document else None
        if not isinstance(first, dict):
            return None
        if "primaryMetric" in first and "benchmark" in first:
            return "JMH"
        return "Extra-P" if {"params", "value"} <= first.keys() else None
    if not isinstance(document, dict):
        return None
    results, benchmarks = document.get("results"), document.get("benchmarks")
    if isinstance(results, list) and results and isinstance(results[0], dict):
        if "command" in results[0]:
            return "hyperfine"
        if "configuration" in results[0]:
            return "Kernel Tuner"
    if isinstance(results, dict) and "commit_hash" in document:
        return "asv"
    if isinstance(document.get("cache"), dict) and "tune_params_keys" in document:
        return "Kernel Tuner"
    if isinstance(benchmarks, list):
        one = benchmarks[0] if benchmarks else {}
        if isinstance(one, dict) and "stats" in one:
            return "pytest-benchmark"
        if isinstance(one, dict) and "runs" in one:
            return "pyperf"
        if "context" in document:
            return "Google Benchmark"
    if isinstance(document.get("runs"), list) and "values" in str(document["runs"][:1]):
        return "pyperf"
    if {"iters", "times", "sampling_mode"} <= document.keys():
        return "Criterion"
    return None


def _positive(value: Any) -> bool:
    return is_number(value) and math.isfinite(float(value)) and float(value) > 0


def _in_name(name: str) -> tuple[str, dict[str, str]]:
    """A name without the parameters in its brackets, and these: ``sort[threads=2]``."""
    found = _IN_BRACKETS.fullmatch(name.strip())
    if not found:
        return name, {}
    parts = [part for part in re.split(r"[,;]", found[2]) if part.strip()]
    assigned = [_ASSIGNED.fullmatch(part) for part in parts]
    if parts and all(assigned):
        return found[1].strip(), {one[1]: one[2] for one in assigned if one}
    return name, {}


# --------------------------------------------------------------------------- tools


def _hyperfine(document: Mapping[str, Any], path: Path) -> _Found:
    found = _Found([])
    failed = 0
    for task, result in zip(_templates(document["results"]), document["results"]):
        parameters = dict(result.get("parameters") or {})
        times = result.get("times") or [result["mean"]]
        codes = result.get("exit_codes") or [0] * len(times)
        memory = result.get("memory_usage_byte") or []
        for i, seconds in enumerate(times):
            if i < len(codes) and codes[i] != 0:
                failed += 1
                continue
            more = {"peak_memory": float(memory[i])} if len(memory) == len(times) else {}
            found.runs.append(Run(task, parameters, float(seconds), more))
    if failed:
        found.notes.append(f"{number_of(failed, 'run')} with an exit code other than 0: left out")
    return found


def _templates(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Commands with names in the place of their parameters' values; programs alone if long.

    A value stands alone, as ``-t 2``, or beside letters, as ``part2``: whichever makes fewer
    different templates.
    """
    alone, beside = (
        [_template(str(one["command"]), one.get("parameters") or {}, near) for one in results]
        for near in (r"[\w.]", r"[\d.]")
    )
    found = min(alone, beside, key=lambda templates: len(set(templates)))
    return [task if len(task) <= _LONGEST else PurePath(task.split()[0]).name for task in found]


def _template(command: str, parameters: Mapping[str, Any], near: str) -> str:
    for name, value in parameters.items():
        text = re.escape(str(value))
        command = re.sub(rf"(?<!{near}){text}(?!{near})", f"{{{name}}}", command)
    return command


def _pyperf(document: Mapping[str, Any], path: Path) -> _Found:
    common = document.get("metadata") or {}
    found = _Found([])
    benchmarks = document.get("benchmarks") or [document]
    for benchmark in benchmarks:
        shared = {**common, **(benchmark.get("metadata") or {})}
        name = str(shared.get("name", path.name.partition(".")[0]))
        if shared.get("unit", "second") != "second":
            found.notes.append(f"{name} is in {shared['unit']}s: left out")
            continue
        task, in_name = _in_name(name)
        own = {
            key: value for key, value in shared.items()
            if key not in _PYPERF_OWN and is_number(value) and not isinstance(value, bool)
        }  # fmt: skip
        for run in benchmark["runs"]:
            # values are per loop and per inner loop already
            for value in run.get("values") or ():
                found.runs.append(Run(task, {**own, **in_name}, float(value)))
    return found


def _google(document: Mapping[str, Any], path: Path) -> _Found:
    found = _Found([])
    aggregates = failed = 0
    for one in document["benchmarks"]:
        if one.get("run_type") == "aggregate":
            aggregates += 1
            continue
        if one.get("error_occurred") or one.get("skipped"):
            failed += 1
            continue
        task, parameters = _google_name(str(one.get("run_name", one["name"])))
        unit = UNITS[time_unit(one.get("time_unit", "ns"))]
        found.runs.append(Run(task, parameters, unit * float(one["real_time"])))
    for n, what in ((aggregates, "aggregate"), (failed, "failed run")):
        if n:
            found.notes.append(f"{number_of(n, what)}: left out")
    if aggregates and not found.runs:
        found.notes.clear()
        raise ProfileError(
            f"{path.name}: holds aggregates only; run without --benchmark_report_aggregates_only."
        )
    return found


def _google_name(name: str) -> tuple[str, dict[str, str]]:
    """Name and arguments: ``BM_sort/8/size:1024/real_time`` is ``BM_sort`` of arg1 and size."""
    parts, depth, start = [], 0, 0
    for i, sign in enumerate(name):  # template arguments may hold a slash
        depth += (sign == "<") - (sign == ">")
        if sign == "/" and depth <= 0:
            parts.append(name[start:i])
            start = i + 1
    task, *rest = [*parts, name[start:]]
    arguments: dict[str, str] = {}
    words: list[str] = []
    for part in rest:
        key, colon, value = part.partition(":")
        if part in _GOOGLE_OWN or (colon and key in _GOOGLE_OPTIONS):
            continue
        if colon:
            arguments[key] = value
        elif NUMBER.fullmatch(part):
            arguments[f"arg{1 + sum(n.startswith('arg') for n in arguments)}"] = part
        else:
            words.append(part)
    return "/".join([task, *words]), arguments


def _pytest_benchmark(document: Mapping[str, Any], path: Path) -> _Found:
    found = _Found([])
    means = 0
    for one in document["benchmarks"]:
        params = one.get("params") or {}
        name = str(one["name"])
        task = name.partition("[")[0] if params or one.get("param") is not None else name
        stats = one["stats"]
        times = stats.get("data") or [stats["mean"]]
        means += not stats.get("data")
        found.runs += [Run(task, params, float(seconds)) for seconds in times]
    if means:
        found.notes.append(
            f"{means} of {number_of(len(document['benchmarks']), 'benchmark')} hold a mean only, "
            f"which is one run: add --benchmark-save-data"
        )
    return found


def _asv(document: Mapping[str, Any], path: Path) -> _Found:
    found = _Found([])
    columns = document.get("result_columns") or ["result", "params"]
    described = _asv_benchmarks(path)
    others = 0
    for name, row in document["results"].items():
        values = row if isinstance(row, list) else [row.get(c) for c in columns]
        entry = dict(zip(columns, values))
        about = described.get(name, {})
        kind = name.rpartition(".")[2]
        timed = about.get("unit", "seconds" if kind.startswith("time") else "") == "seconds"
        if not timed or entry.get("result") is None:
            others += 1
            continue
        axes = entry.get("params") or about.get("params") or []
        names = about.get("param_names") or [f"param{i + 1}" for i in range(len(axes))]
        samples = entry.get("samples") or [None] * len(entry["result"])
        levels = itertools.product(*axes)
        for level, result, own in itertools.zip_longest(levels, entry["result"], samples):
            if result is None or level is None:
                continue
            parameters = dict(zip(names, map(_text, level)))
            found.runs += [Run(name, parameters, float(s)) for s in own or [result]
                           if _positive(s)]  # fmt: skip
    if others:
        found.notes.append(f"{number_of(others, 'benchmark')} without times: left out")
    return found


def _asv_benchmarks(path: Path) -> dict[str, Any]:
    """What ``benchmarks.json`` in the folder of the results says of each benchmark."""
    for folder in path.resolve().parents[:2]:
        file = folder / "benchmarks.json"
        if file.is_file():
            content = _content(file)
            return {k: v for k, v in content.items() if isinstance(v, dict)}
    return {}


def _jmh(document: Sequence[Any], path: Path) -> _Found:
    found = _Found([])
    threads = {one.get("threads", 1) for one in document}
    for one in document:
        task = ".".join(str(one["benchmark"]).split(".")[-2:])
        parameters = dict(one.get("params") or {})
        if len(threads) > 1:
            parameters["threads"] = one.get("threads", 1)
        metric = one["primaryMetric"]
        upper, _, lower = str(metric["scoreUnit"]).partition("/")
        rates = upper == "ops"
        unit = UNITS.get(time_unit(lower if rates else upper))
        if unit is None:
            found.notes.append(f"{task} is in {quoted(metric['scoreUnit'])}: left out")
            continue
        raw = metric.get("rawData") or [[metric["score"]]]
        for score in (float(value) for fork in raw for value in fork):
            if score > 0:
                found.runs.append(Run(task, parameters, unit / score if rates else unit * score))
    return found


def _criterion(document: Mapping[str, Any], path: Path) -> _Found:
    beside = path.with_name("benchmark.json")
    about = _content(beside) if beside.is_file() else {}
    folders = [part.name for part in path.resolve().parents if part.name not in ("new", "base")]
    group = str(about.get("group_id") or (folders[1] if len(folders) > 1 else path.stem))
    function, value = about.get("function_id"), about.get("value_str")
    if not about and folders and NUMBER.fullmatch(folders[0]):
        value = folders[0]
        group = folders[1]
    elif not about and folders:
        group = folders[0]
    task = "/".join([group, *([str(function)] if function else [])])
    parameters = {"input": value} if value is not None else {}
    pairs = zip(document["times"], document["iters"])
    return _Found([Run(task, parameters, 1e-9 * float(t) / float(n)) for t, n in pairs])


def _tuner(document: Mapping[str, Any], path: Path) -> _Found:
    found = _Found([])
    task = str(document.get("kernel_name") or path.name.partition(".")[0])
    failed = 0
    if "cache" in document:
        keys = document["tune_params_keys"]
        entries = [
            ({key: one[key] for key in keys}, one.get("time"), one.get("times"))
            for one in document["cache"].values()
        ]
    else:
        entries = [_t4(one) for one in document["results"]]
    for parameters, time, times in entries:
        if not _positive(time) or float(time) >= 1e20:
            failed += 1
            continue
        found.runs += [Run(task, parameters, 1e-3 * float(t)) for t in times or [time]]
    if failed:
        found.notes.append(f"{number_of(failed, 'configuration')} that failed: left out")
    return found


def _t4(one: Mapping[str, Any]) -> tuple[Mapping[str, Any], Any, Any]:
    measured = {m["name"]: m.get("value") for m in one.get("measurements", ())}
    valid = one.get("invalidity", "correct") == "correct"
    times = (one.get("times") or {}).get("runtimes")
    return one["configuration"], measured.get("time") if valid else None, times


def _extrap(document: Any, path: Path) -> _Found:
    if isinstance(document, str):
        return _extrap_text(document, path)
    found = _Found([])
    others = 0
    for one in document:
        region = str(one.get("callpath") or one.get("region") or path.name.partition(".")[0])
        if not re.search("time", str(one.get("metric", "time")), re.I):
            others += 1
            continue
        found.runs.append(Run(region, one["params"], float(one["value"])))
    if others:
        found.notes.append(f"{number_of(others, 'value')} of other metrics: left out")
    return found


def _extrap_text(text: str, path: Path) -> _Found:
    found = _Found([])
    names: list[str] = []
    points: list[list[str]] = []
    region, metric, row = path.name.partition(".")[0], "time", 0
    others = set()
    for number, line in enumerate(text.splitlines(), 1):
        word, _, rest = line.strip().partition(" ")
        if word == "PARAMETER":
            names += rest.split()
        elif word == "POINTS":
            groups = re.findall(r"\(([^()]*)\)", rest)
            points += [re.split(r"[\s,]+", g.strip()) for g in groups] or [
                [value] for value in rest.split()
            ]
        elif word == "REGION":
            region, row = rest.strip(), 0
        elif word == "METRIC":
            metric, row = rest.strip(), 0
        elif word == "DATA":
            if row >= len(points) or len(points[row]) != len(names):
                raise ProfileError(
                    f"{path.name}: line {number}: DATA {row + 1} of {region} has no point of "
                    f"{len(names)} parameters; as many POINTS as lines of DATA are wanted."
                )
            if re.search("time", metric, re.I):
                parameters = dict(zip(names, points[row]))
                found.runs += [Run(region, parameters, float(v)) for v in rest.split()]
            else:
                others.add(metric)
            row += 1
    if others:
        found.notes.append(f"metrics {', '.join(sorted(others))}: left out")
    return found


_READERS: dict[str, Callable[[Any, Path], _Found]] = {
    "hyperfine": _hyperfine,
    "pyperf": _pyperf,
    "Google Benchmark": _google,
    "pytest-benchmark": _pytest_benchmark,
    "asv": _asv,
    "JMH": _jmh,
    "Criterion": _criterion,
    "Kernel Tuner": _tuner,
    "Extra-P": _extrap,
}
