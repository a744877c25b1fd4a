"""The recorder of a sweep whose runs are sessions, which write their recordings themselves."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from msbgen.core.errors import ProfileError
from msbgen.sources.measure.sweep.process import ProcessResult
from msbgen.sources.measure.sweep.spec import Spec
from msbgen.systems.kernels.measure.plan import MeasurementPlan
from msbgen.systems.kernels.measure.session import CONTEXT, RECORDING, read_session
from msbgen.systems.kernels.measure.torch_import import REMEDY, torch_version


class SessionRecorder:
    """Recorder of sessions; see :class:`msbgen.measure.sweep.recorder.Recorder`."""

    name = "torch"

    def __init__(self, spec: Spec, plan: MeasurementPlan):
        self._spec = spec
        self._plan = plan

    def version(self) -> str | None:
        """Version of torch."""
        return torch_version()

    def problems(self, folder: Path, runs: int) -> Iterator[str]:
        """A sentence if torch is missing."""
        if torch_version() is None:
            yield f"torch is not installed; {REMEDY}."

    def environment(self, path: Path, context: Sequence[float]) -> Mapping[str, str]:
        """Environment variables with the path of the recording and the context."""
        named = {resource.name: level for resource, level in zip(self._spec.resources, context)}
        return {RECORDING: str(path.resolve()), CONTEXT: json.dumps(named)}

    def recording(
        self, pid: int, path: Path, cores: Sequence[int], tag: str, events: Sequence[str]
    ) -> AbstractContextManager[None]:
        """Does nothing: the session records itself."""
        return nullcontext()

    def rejection_reason(self, path: Path, ended: ProcessResult) -> str | None:
        """Reason to reject a recording that is not one of the plan, else None."""
        try:
            read_session(path, self._plan)
        except ProfileError as error:
            return str(error).rstrip(".")
        return None

    def describe(
        self, cores: Sequence[int], shares_cores: bool, events: Sequence[str]
    ) -> Iterator[str]:
        """A line with the numbers of kernels and networks that a session times."""
        plan = self._plan
        seen = len(plan.points) - plan.drawn
        yield (
            f"each run is a session: {seen} kernels of networks, {plan.drawn} drawn at random, "
            f"{len(plan.passes)} networks with their images"
        )
