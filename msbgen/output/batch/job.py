"""One task of a batch: its files, and the units of work that fit and generate.

The fit comes first and saves the model.  Blocks of contexts are then generated independently and
joined into one file of profiles for each kind.
"""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.answers.evaluate.scores import scored_contexts
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.data.build import join_profiles
from msbgen.data.files import check_input, replace_file
from msbgen.data.profiles import Profiles
from msbgen.data.schema import trusting
from msbgen.data.store import load_netcdf, read_profiles, save_netcdf, write_blocks
from msbgen.engine.generate.distribution import Kind
from msbgen.engine.generate.fit import PRESETS, fit_profiles
from msbgen.engine.generate.model import ProfileModel
from msbgen.engine.generate.size import most_rows
from msbgen.output.batch import zarr_store
from msbgen.output.batch.held_out import check_leave_out
from msbgen.output.batch.tasks import BatchTask

Floats = NDArray[np.float64]
Facts = dict[str, Any]
# Finds the contexts that a text, such as that of ``--contexts``, names for a measured dataset.
FindContexts = Callable[[str, Profiles], Floats]

# Folder of intermediate files.
SCRATCH = ".work"
# Contexts of a block: a few seconds of work.
_BLOCK = 2048
_SAMPLES = 10240


@dataclass(frozen=True)
class Job:
    """A task and the folder of its batch."""

    task: BatchTask
    out: Path
    zarr: bool = False  # whether profiles become Zarr stores, not netCDF files
    models: bool = False  # whether the fitted model is kept
    block: int | None = None  # contexts of a block; None for a few seconds of work

    @property
    def folder(self) -> Path:
        """Folder of the results of the task."""
        return self.out / self.task.name

    @property
    def scratch(self) -> Path:
        """Folder of intermediate files of the task."""
        return self.out / SCRATCH / self.task.name

    @property
    def model_file(self) -> Path:
        """File of the fitted model."""
        return (self.folder if self.models else self.scratch) / "model.nc"

    def product(self, kind: str) -> Path:
        """File or store of the profiles of a kind."""
        return self.folder / f"{kind}.{'zarr' if self.zarr else 'nc'}"

    def part(self, kind: str, start: int) -> Path:
        """File of a block of profiles, or the store while it is filled."""
        return self.scratch / (f"{kind}.zarr" if self.zarr else f"{kind}-{start}.nc")

    def measured(self) -> xr.Dataset:
        """The measured profiles; cached."""
        return self._read(self.task.measured)

    def truth(self) -> xr.Dataset:
        """The measured profiles of other contexts; cached."""
        assert self.task.truth is not None
        return self._read(self.task.truth)

    def _read(self, path: Path) -> xr.Dataset:
        dataset = _cached_profiles(*_state(path))
        return trusting(dataset) if self.task.settings.keep_all else dataset

    def model(self) -> ProfileModel:
        """The fitted model; cached."""
        return _cached_model(*_state(self.model_file))

    @property
    def contexts_file(self) -> Path:
        """File of the contexts of the task, written by the fit."""
        return self.scratch / "contexts.npy"

    def contexts(self) -> Floats:
        """Contexts of the task, (n, n_resources); cached."""
        return _cached_contexts(*_state(self.contexts_file))

    def sample_rng(self) -> np.random.Generator:
        """Generator of the samples, as in ``msbgen generate``."""
        return np.random.default_rng(self.task.settings.seed).spawn(2)[1]


def _state(path: Path) -> tuple[str, int, int]:
    there = check_input(path).stat()
    return str(path), there.st_size, there.st_mtime_ns


@lru_cache(maxsize=2)
def _cached_profiles(path: str, size: int, changed: int) -> xr.Dataset:
    return read_profiles(path)


@lru_cache(maxsize=2)
def _cached_model(path: str, size: int, changed: int) -> ProfileModel:
    return ProfileModel.load(path)


@lru_cache(maxsize=2)
def _cached_contexts(path: str, size: int, changed: int) -> Floats:
    return np.load(path, allow_pickle=False)


def clear_caches() -> None:
    """Clear the caches of files that were read."""
    _cached_contexts.cache_clear()
    _cached_profiles.cache_clear()
    _cached_model.cache_clear()


def identify(task: BatchTask) -> Facts:
    """Hash of the contents of a task's inputs, with their sizes and times of change."""
    digest = blake2b(digest_size=16)
    for path in task.inputs:
        content = check_input(path).read_bytes()
        digest.update(f"{len(content)}\n".encode())
        digest.update(content)
    return {"input": digest.hexdigest(), "stat": state_of(task)}


def state_of(task: BatchTask) -> list[list[int]]:
    """Size and time of change of each input; empty where one is missing."""
    try:
        found = [path.stat() for path in task.inputs]
    except OSError:
        return []
    return [[one.st_size, one.st_mtime_ns] for one in found]


def fit(job: Job, contexts_of: FindContexts) -> Facts:
    """Fit and save the task's model; returns facts such as the sizes of blocks."""
    settings = job.task.settings
    facts = identify(job.task)
    measured = job.measured()
    contexts = _checked(job, Profiles.of(measured), contexts_of)
    rng = np.random.default_rng(settings.seed).spawn(2)[0]
    model = fit_profiles(measured, PRESETS[settings.preset], rng=rng)
    query = model.checked(contexts)
    for folder in (job.scratch, job.model_file.parent):
        folder.mkdir(parents=True, exist_ok=True)
    blocks = {kind: _block_size(job, model, kind) for kind in settings.kinds}
    if job.zarr:
        rows = most_rows(model, query, settings.times)
        for kind in settings.kinds:
            layout = next(_labelled(job, model, query[:1], kind))
            zarr_store.create_store(job.part(kind, 0), layout, len(query), rows)
    with replace_file(job.contexts_file, overwrite=True) as partial:
        np.save(partial, query)
    model.save(job.model_file, overwrite=True)  # last: its presence marks the unit as done
    within = {kind: _written_at_once(job, model, kind) for kind in settings.kinds}
    wanted = {"wanted": job.task.wanted}
    return {**facts, **wanted, "contexts": len(query), "blocks": blocks, "within": within}


def _checked(job: Job, measured: Profiles, contexts_of: FindContexts) -> Floats:
    """Contexts of the task; raises where the measured file cannot meet the settings."""
    settings = job.task.settings
    try:
        if job.task.truth is None and {"all", "evaluate", "report"} & set(settings.steps):
            n = len(scored_contexts(measured)[0])
            if n > 1:  # the steps themselves refuse a single context
                check_leave_out(settings.leave_out, n)
        return contexts_of(settings.contexts, measured)
    except (ArgumentError, ProfileError) as error:
        raise ProfileError(f"{job.task.measured.name}: {error}") from None


def _written_at_once(job: Job, model: ProfileModel, kind: Kind) -> int:
    """Contexts that `msbgen generate` would write at a time."""
    settings = job.task.settings
    return model.block_size(kind, n_samples=settings.samples, times=settings.times)


def _block_size(job: Job, model: ProfileModel, kind: Kind) -> int:
    """Contexts of a block, at most those that a file is written from at a time."""
    settings = job.task.settings
    default = max(_SAMPLES // settings.samples, 1) if kind == "sample" else _BLOCK
    size = job.block or default
    if job.zarr:
        return -(-size // zarr_store.CHUNK) * zarr_store.CHUNK
    return min(size, _written_at_once(job, model, kind))


def starts(n_contexts: int, size: int, within: int) -> list[int]:
    """Starts of blocks of at most `size` contexts; no block crosses a multiple of `within`.

    Examples
    --------
    >>> starts(10, 3, 5)
    [0, 3, 5, 8]
    """
    return [
        start
        for whole in range(0, n_contexts, within)
        for start in range(whole, min(whole + within, n_contexts), size)
    ]


def block_starts(job: Job, kind: str, facts: Facts) -> list[int]:
    """Starts of the blocks of a kind, by the facts of the fit."""
    size = facts["blocks"][kind]
    within = facts["contexts"] if job.zarr else facts["within"][kind]
    return starts(facts["contexts"], size, within)


def _labelled(job: Job, model: ProfileModel, query: Floats, kind: Kind) -> Iterator[xr.Dataset]:
    """Profiles of contexts, with the attributes of `msbgen generate`."""
    settings = job.task.settings
    blocks = model.stream(
        query, kind=kind, times=settings.times, n_samples=settings.samples, rng=job.sample_rng()
    )
    for block in blocks:
        yield block.assign_attrs(preset=settings.preset, seed=settings.seed)


def generate(job: Job, kind: Kind, start: int, stop: int) -> Facts:
    """Generate the profiles of the contexts `start` to `stop` - 1.

    The result does not depend on other blocks.
    """
    query = job.contexts()[start:stop]
    profiles = join_profiles(list(_labelled(job, job.model(), query, kind)))
    part = job.part(kind, start)
    if job.zarr:
        zarr_store.write_region(part, profiles, start)
    else:
        save_netcdf(profiles, part, overwrite=True)
    return {
        "rows": profiles.sizes.get("time", 0),
        "extrapolated": int(profiles["extrapolated"].sum()),
    }


def join(job: Job, kind: Kind, facts: Facts, rows: int) -> Facts:
    """Join the blocks of a kind into one file, which appears whole."""
    if job.zarr:
        if job.part(kind, 0).exists():  # otherwise it was moved already, before an interruption
            zarr_store.finish_store(job.part(kind, 0), job.product(kind), rows)
        return {}
    within = facts["within"][kind]
    every = block_starts(job, kind, facts)

    def blocks() -> Iterator[xr.Dataset]:
        for whole in range(0, facts["contexts"], within):
            inside = [start for start in every if whole <= start < whole + within]
            parts = [load_netcdf(job.part(kind, start)).drop_encoding() for start in inside]
            yield join_profiles(parts)

    job.folder.mkdir(parents=True, exist_ok=True)
    write_blocks(blocks(), job.product(kind), overwrite=True)
    return {}


def product_files(path: Path) -> dict[str, int]:
    """Files of a result, with their sizes [bytes]."""
    if not path.is_dir():
        return {path.name: path.stat().st_size}
    return {
        str(file.relative_to(path.parent)): file.stat().st_size
        for file in sorted(path.rglob("*"))
        if file.is_file()
    }


def clear(job: Job) -> None:
    """Remove the intermediate files of a task."""
    shutil.rmtree(job.scratch, ignore_errors=True)
