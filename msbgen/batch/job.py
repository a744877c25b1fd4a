"""One task of a batch: where its files are, and the parts of its work that ask the generator.

A fit comes first and leaves the model in a file; then blocks of contexts are generated, each by
itself, and joined to one file of profiles a kind.
"""

from __future__ import annotations

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

from msbgen.batch import zarr_store
from msbgen.batch.held_out import check_leave_out
from msbgen.batch.tasks import BatchTask
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.data.files import check_input, replace_file
from msbgen.data.schema import join_profiles
from msbgen.data.store import load_netcdf, read_profiles, save_netcdf, write_blocks
from msbgen.evaluate.scores import scored_contexts
from msbgen.generate.law import Kind
from msbgen.generate.model import PRESETS, ProfileModel, fit_profiles
from msbgen.generate.size import most_rows

Floats = NDArray[np.float64]
Facts = dict[str, Any]
# Contexts that a text names, of what was measured: as ``--contexts`` does.
FindContexts = Callable[[str, xr.Dataset], Floats]

# Folder of what units leave for one another.
SCRATCH = ".work"
# Contexts of a block: a few seconds of work.
_BLOCK = 2048
_SAMPLES = 10240


@dataclass(frozen=True)
class Job:
    """A task and the folder of its batch.

    Attributes
    ----------
    task : BatchTask
    out : Path
        Folder of the batch.
    zarr : bool
        Whether profiles become Zarr stores, or netCDF files.
    models : bool
        Whether the fitted model is kept.
    block : int or None
        Contexts of a block; a few seconds' worth where nothing is said.
    """

    task: BatchTask
    out: Path
    zarr: bool = False
    models: bool = False
    block: int | None = None

    @property
    def folder(self) -> Path:
        """Of the task's results."""
        return self.out / self.task.name

    @property
    def scratch(self) -> Path:
        """Of what the task's units leave for one another."""
        return self.out / SCRATCH / self.task.name

    @property
    def model_file(self) -> Path:
        """Where the fitted model is."""
        return (self.folder if self.models else self.scratch) / "model.nc"

    def product(self, kind: str) -> Path:
        """Profiles of a kind."""
        return self.folder / f"{kind}.{'zarr' if self.zarr else 'nc'}"

    def part(self, kind: str, start: int) -> Path:
        """A block of them; the store that is being filled."""
        return self.scratch / (f"{kind}.zarr" if self.zarr else f"{kind}-{start}.nc")

    def measured(self) -> xr.Dataset:
        """What was measured, read once."""
        return _kept_profiles(*_state(self.task.measured))

    def truth(self) -> xr.Dataset:
        """What was measured in other contexts, where there is such a file."""
        assert self.task.truth is not None
        return _kept_profiles(*_state(self.task.truth))

    def model(self) -> ProfileModel:
        """The fitted model, read once."""
        return _kept_model(*_state(self.model_file))

    @property
    def contexts_file(self) -> Path:
        """Where the contexts are that the task wants, as the fit found them."""
        return self.scratch / "contexts.npy"

    def contexts(self) -> Floats:
        """Contexts that the task wants, (n, n_resources), read once."""
        return _kept_contexts(*_state(self.contexts_file))

    def sample_rng(self) -> np.random.Generator:
        """Where samples come from: as `msbgen generate` draws them."""
        return np.random.default_rng(self.task.settings.seed).spawn(2)[1]


def _state(path: Path) -> tuple[str, int, int]:
    there = check_input(path).stat()
    return str(path), there.st_size, there.st_mtime_ns


@lru_cache(maxsize=2)
def _kept_profiles(path: str, size: int, changed: int) -> xr.Dataset:
    return read_profiles(path)


@lru_cache(maxsize=2)
def _kept_model(path: str, size: int, changed: int) -> ProfileModel:
    return ProfileModel.load(path)


@lru_cache(maxsize=2)
def _kept_contexts(path: str, size: int, changed: int) -> Floats:
    return np.load(path, allow_pickle=False)


def clear_caches() -> None:
    """Let go of what was read and kept."""
    _kept_contexts.cache_clear()
    _kept_profiles.cache_clear()
    _kept_model.cache_clear()


def identify(task: BatchTask) -> Facts:
    """Hash of the content of a task's inputs, and what of the files tells cheaply of a change.

    Raises
    ------
    ProfileError
        One cannot be read.
    """
    found = blake2b(digest_size=16)
    for path in task.inputs:
        content = check_input(path).read_bytes()
        found.update(f"{len(content)}\n".encode())
        found.update(content)
    return {"input": found.hexdigest(), "stat": state_of(task)}


def state_of(task: BatchTask) -> list[list[int]]:
    """Size and time of change of each input; none where one is missing."""
    try:
        found = [path.stat() for path in task.inputs]
    except OSError:
        return []
    return [[one.st_size, one.st_mtime_ns] for one in found]


def fit(job: Job, contexts_of: FindContexts) -> Facts:
    """Fit the task's model, and say into which blocks its contexts fall."""
    settings = job.task.settings
    facts = identify(job.task)
    measured = job.measured()
    contexts = _checked(job, measured, contexts_of)
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
    model.save(job.model_file, overwrite=True)  # last: it says that all of this is there
    within = {kind: _written_at_once(job, model, kind) for kind in settings.kinds}
    wanted = {"wanted": job.task.wanted}
    return {**facts, **wanted, "contexts": len(query), "blocks": blocks, "within": within}


def _checked(job: Job, measured: xr.Dataset, contexts_of: FindContexts) -> Floats:
    """Contexts that the task wants; settings that its file cannot meet are said before the fit."""
    settings = job.task.settings
    try:
        if job.task.truth is None and {"all", "evaluate", "report"} & set(settings.steps):
            n = len(scored_contexts(measured)[0])
            if n > 1:  # what leaves one out says that there must be two
                check_leave_out(settings.leave_out, n)
        return contexts_of(settings.contexts, measured)
    except (ArgumentError, ProfileError) as error:
        raise ProfileError(f"{job.task.measured.name}: {error}") from None


def _written_at_once(job: Job, model: ProfileModel, kind: Kind) -> int:
    """Contexts that a file of profiles is written from at a time, as `msbgen generate` does."""
    settings = job.task.settings
    return model.block_size(kind, n_samples=settings.samples, times=settings.times)


def _block_size(job: Job, model: ProfileModel, kind: Kind) -> int:
    """Contexts of a block, within those that a file is written from at a time."""
    settings = job.task.settings
    own = max(_SAMPLES // settings.samples, 1) if kind == "sample" else _BLOCK
    own = job.block or own
    if job.zarr:
        return -(-own // zarr_store.CHUNK) * zarr_store.CHUNK
    return min(own, _written_at_once(job, model, kind))


def starts(n_contexts: int, size: int, within: int) -> list[int]:
    """Where blocks of at most so many contexts begin, none of which crosses multiples of `within`.

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
    """Where the blocks of a kind begin, by what the fit said."""
    size = facts["blocks"][kind]
    within = facts["contexts"] if job.zarr else facts["within"][kind]
    return starts(facts["contexts"], size, within)


def _labelled(job: Job, model: ProfileModel, query: Floats, kind: Kind) -> Iterator[xr.Dataset]:
    """Profiles of contexts, with the attributes that `msbgen generate` gives them."""
    settings = job.task.settings
    blocks = model.stream(
        query, kind=kind, times=settings.times, n_samples=settings.samples, rng=job.sample_rng()
    )
    for block in blocks:
        yield block.assign_attrs(preset=settings.preset, seed=settings.seed)


def generate(job: Job, kind: Kind, start: int, stop: int) -> Facts:
    """Generate the profiles of a block of contexts, from the `start`-th until before the `stop`-th.

    The block's contexts are asked for alone: nothing of it depends on the others.
    """
    query = job.contexts()[start:stop]
    profiles = join_profiles(list(_labelled(job, job.model(), query, kind)))
    part = job.part(kind, start)
    if job.zarr:
        zarr_store.write_region(part, profiles, start)
    else:
        save_netcdf(profiles, part, overwrite=True)
    return {"rows": profiles.sizes["time"], "extrapolated": int(profiles["extrapolated"].sum())}


def join(job: Job, kind: Kind, facts: Facts, rows: int) -> Facts:
    """Make one file of the blocks of a kind; it appears whole."""
    if job.zarr:
        if job.part(kind, 0).exists():  # or it was moved to its place, and that not noted any more
            zarr_store.finish_store(job.part(kind, 0), job.product(kind), rows)
        return {}
    within = facts["within"][kind]
    every = block_starts(job, kind, facts)

    def blocks() -> Iterator[xr.Dataset]:
        for whole in range(0, facts["contexts"], within):
            own = [start for start in every if whole <= start < whole + within]
            parts = [load_netcdf(job.part(kind, start)).drop_encoding() for start in own]
            yield join_profiles(parts)

    job.folder.mkdir(parents=True, exist_ok=True)
    write_blocks(blocks(), job.product(kind), overwrite=True)
    return {}


def product_files(path: Path) -> dict[str, int]:
    """Files that a result consists of, with their sizes."""
    if not path.is_dir():
        return {path.name: path.stat().st_size}
    return {
        str(file.relative_to(path.parent)): file.stat().st_size
        for file in sorted(path.rglob("*"))
        if file.is_file()
    }


def clear(job: Job) -> None:
    """Remove what the task's units left for one another."""
    shutil.rmtree(job.scratch, ignore_errors=True)
