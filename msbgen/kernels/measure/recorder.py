"""Sessions take their own recordings: what a sweep needs to know of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from msbgen.core.errors import ProfileError
from msbgen.kernels.measure.plan import Plan
from msbgen.kernels.measure.session import CONTEXT, RECORDING, read_session
from msbgen.kernels.measure.torches import REMEDY, torch_version
from msbgen.measure.sweep.process import ProcessResult
from msbgen.measure.sweep.spec import Spec


class SessionRecorder:
    """The session writes what it timed; see :class:`msbgen.measure.sweep.recorder.Recorder`."""

    name = "torch"

    def __init__(self, spec: Spec, plan: Plan):
        self._spec = spec
        self._plan = plan

    def version(self) -> str | None:
        """Of torch."""
        return torch_version()

    def problems(self, folder: Path, runs: int) -> Iterator[str]:
        """Torch."""
        if torch_version() is None:
            yield f"torch is not installed; {REMEDY}."

    def environment(self, path: Path, context: Sequence[float]) -> Mapping[str, str]:
        """Where the recording goes, and the context."""
        named = {resource.name: level for resource, level in zip(self._spec.resources, context)}
        return {RECORDING: str(path.resolve()), CONTEXT: json.dumps(named)}

    def recording(
        self, pid: int, path: Path, cores: Sequence[int], tag: str, events: Sequence[str]
    ) -> AbstractContextManager[None]:
        """Nothing to do from outside."""
        return nullcontext()

    def rejection_reason(self, path: Path, ended: ProcessResult) -> str | None:
        """No recording of the plan."""
        try:
            read_session(path, self._plan)
        except ProfileError as error:
            return str(error).rstrip(".")
        return None

    def describe(
        self, cores: Sequence[int], shares_cores: bool, events: Sequence[str]
    ) -> Iterator[str]:
        """What each session times."""
        plan = self._plan
        seen = len(plan.points) - plan.drawn
        yield (
            f"each run is a session: {seen} kernels of networks, {plan.drawn} drawn at random, "
            f"{len(plan.passes)} networks with their images"
        )
