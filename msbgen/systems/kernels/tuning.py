"""Results of auto-tuners in JSON: the cache of Kernel Tuner, and T4 results.

Each configuration that ran is one kernel in one context.  Tuned parameters with positive numbers
are resources.  A parameter with words, or with 0 among its values, is a part of the kind, as
``kernel/use_shmem=0``: each of its values is a program of its own.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from msbgen.core.errors import ProfileError, is_number, printable, quoted
from msbgen.data.files import check_input, read_text
from msbgen.data.json_files import json_object
from msbgen.systems.kernels.dataset import RESERVED
from msbgen.systems.kernels.dataset import make as make_kernels
from msbgen.systems.kernels.dataset import validate as validate_kernels

_WANTED = "a cache of Kernel Tuner, or T4 results,"
# Units of the parameters that set a GPU, and names of a power [W] and of an energy [J].
_UNITS = {"nvml_gr_clock": "MHz", "nvml_mem_clock": "MHz", "nvml_pwr_limit": "W"}
_POWERS = ("nvml_power", "ps_power", "power")
_ENERGIES = ("nvml_energy", "ps_energy", "energy")


@dataclass(frozen=True)
class _Result:
    """One configuration that ran."""

    parameters: Mapping[str, Any]
    times: tuple[float, ...]  # of its runs [ms]
    power: float  # [W], NaN without a meter


def read_tuning(path: str | os.PathLike[str]) -> xr.Dataset:
    """Measurements of kernels from a cache of Kernel Tuner or from T4 results, in JSON.

    A file whose name ends in ``.gz`` is decompressed.  Every run of a configuration is a
    measurement; its power is the mean over the runs.  Failed configurations are left out.  A cache
    that is still written to is read up to its last entry.

    Raises
    ------
    ProfileError
        No such file, another form, no configuration that ran, or no parameter with positive numbers
        of which several were tried.
    """
    file = check_input(path)
    name = file.name
    text = read_text(file)
    content = json_object(_closed(text), name, _WANTED)
    if isinstance(content.get("cache"), dict):
        found = list(_of_cache(content, name))
    elif isinstance(content.get("results"), list):
        found = list(_of_t4(content["results"], name))
    else:
        raise ProfileError(f"{name}: has no 'cache' and no 'results'; {_WANTED} is wanted.")
    if not found:
        raise ProfileError(f"{name}: has no configuration that ran; tune again.")
    kernel = content.get("kernel_name") or file.name.partition(".")[0]
    return _dataset(found, str(kernel), name, str(content.get("device_name", "")))


def _closed(text: str) -> str:
    """The text of a cache with its last two brackets, which it lacks while a tuner writes to it."""
    text = text.rstrip()
    return f"{text[:-1]}\n}}\n}}" if text.endswith(",") and '"cache"' in text else text


def _of_cache(content: Mapping[str, Any], name: str) -> Iterator[_Result]:
    keys = content.get("tune_params_keys")
    if not isinstance(keys, list) or not keys or not all(isinstance(key, str) for key in keys):
        raise ProfileError(f"{name}: has no list 'tune_params_keys' of names; {_WANTED} is wanted.")
    for place, entry in content["cache"].items():
        where = f"{name}: entry {quoted(place)}"
        if not isinstance(entry, dict) or not all(key in entry for key in keys):
            raise ProfileError(f"{where} lacks one of {', '.join(keys)}; tune it again.")
        parameters = {key: entry[key] for key in keys}
        yield from _result(parameters, entry.get("time"), entry.get("times"), entry, where)


def _of_t4(results: Sequence[Any], name: str) -> Iterator[_Result]:
    for number, entry in enumerate(results):
        where = f"{name}: result {number}"
        parameters = entry.get("configuration") if isinstance(entry, dict) else None
        if not isinstance(parameters, dict):
            raise ProfileError(f"{where} has no 'configuration'; {_WANTED} is wanted.")
        if entry.get("invalidity", "correct") != "correct":
            continue
        measured = {
            one["name"]: one.get("value")
            for one in entry.get("measurements", ())
            if isinstance(one, dict) and isinstance(one.get("name"), str)
        }
        times = entry.get("times")
        runs = times.get("runtimes") if isinstance(times, dict) else None
        yield from _result(parameters, measured.get("time"), runs, measured, where)


def _result(
    parameters: Mapping[str, Any], time: Any, runs: Any, measured: Mapping[str, Any], where: str
) -> Iterator[_Result]:
    """The result of one configuration; none where its time says that it failed."""
    if not _positive(time) or float(time) >= 1e20:  # words, or the value of a failure
        return
    times = runs if isinstance(runs, list) and runs else [time]
    if not all(map(_positive, times)):
        raise ProfileError(f"{where} has times that are no positive numbers; tune it again.")
    powers = [float(measured[n]) for n in _POWERS if _positive(measured.get(n))]
    energies = [float(measured[n]) for n in _ENERGIES if _positive(measured.get(n))]
    mean = float(np.mean(times)) * 1e-3
    power = powers[0] if powers else energies[0] / mean if energies else float("nan")
    yield _Result(parameters, tuple(map(float, times)), power)


def _positive(value: Any) -> bool:
    number = is_number(value)
    return number and float(value) > 0 and math.isfinite(float(value))


def _dataset(found: Sequence[_Result], kernel: str, name: str, device: str) -> xr.Dataset:
    """All runs of all configurations as measurements."""
    names = list(found[0].parameters)
    for number, result in enumerate(found):
        if list(result.parameters) != names:
            raise ProfileError(
                f"{name}: configuration {number} has the parameters "
                f"{printable(', '.join(map(str, result.parameters)), 200)}, others "
                f"{printable(', '.join(map(str, names)), 200)}; the same in each are wanted."
            )
    several = [n for n in names if len({repr(each.parameters[n]) for each in found}) > 1]
    resources = [n for n in several if all(_positive(each.parameters[n]) for each in found)]
    if not resources:
        raise ProfileError(
            f"{name}: no parameter has several positive numbers ({', '.join(names)}); tune more "
            f"configurations."
        )
    own = {n: n.replace("/", "_") + ("_" if n in RESERVED else "") for n in resources}
    words = [n for n in several if n not in resources]
    runs = [(each, time, run) for each in found for run, time in enumerate(each.times)]

    def kind(result: _Result) -> str:
        parts = [f"{n}={result.parameters[n]}" for n in words]
        return printable("/".join([kernel, ",".join(parts)]) if parts else kernel, 200)

    dataset = make_kernels(
        [kind(each) for each, _, _ in runs],
        [1e-3 * time for _, time, _ in runs],
        resources={own[n]: [float(each.parameters[n]) for each, _, _ in runs] for n in resources},
        power=[each.power for each, _, _ in runs],
        run=[run for _, _, run in runs],
        units={own[n]: _UNITS.get(n, "1") for n in resources},
        attrs={"source": f"imported from {name}", **({"platform": device} if device else {})},
    )
    return validate_kernels(dataset, source=name)
