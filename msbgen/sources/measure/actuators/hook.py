"""Settings that an executable of the user reads and sets: GPU clocks, firmware, other machines.

The executable understands three words:

``levels``
    prints all levels it can set, separated by blanks or line ends; nothing if any will do
``read``
    prints the level that is set now
``set LEVEL``
    sets a level, or the text that ``read`` has printed

So the journal holds the level before the first change, and restoring needs no state of the hook.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from msbgen.core.errors import quoted
from msbgen.data.schema import same_level
from msbgen.sources.measure.actuators.actuator import Actuator, Capability, SettingError
from msbgen.sources.measure.actuators.kernel_files import HOOK, call_hook
from msbgen.sources.measure.actuators.kernel_settings import KernelSettings


class Hook(Actuator):
    """A resource that the executable `command` sets; `texts` has the text of each level."""

    def __init__(
        self,
        name: str,
        settings: KernelSettings,
        command: str,
        texts: Mapping[float, str],
        units: str = "1",
    ):
        self.name = name
        self.units = units
        self.long_name = f"set by {os.path.basename(command)}"
        self.settings = settings
        self._command = command
        self._path = f"{HOOK}{command}"
        self._texts = texts
        self._capability: Capability | None = None

    def capability(self) -> Capability:
        """The levels that the hook lists, asked once."""
        if self._capability is None:
            problems = []
            try:
                listed = call_hook(self._command, "levels").split()
                call_hook(self._command, "read")
                problems = [
                    f"{self.name} is '{text}', which {self._command} does not list "
                    f"({quoted(' '.join(listed))}); one of these is wanted."
                    for text in self._texts.values()
                    if listed and not any(_equal(text, other) for other in listed)
                ]
            except OSError as error:
                problems.append(f"{self.name}: {error.strerror}; correct the hook.")
            mechanism = f"hook {os.path.basename(self._command)}"
            lowest, highest = min(self._texts), max(self._texts)
            self._capability = Capability(mechanism, lowest, highest, 0.0, tuple(problems))
        return self._capability

    def apply(self, level: float) -> None:
        """Set a level and read it back."""
        text = self._texts[level]
        try:
            back = self.settings.write(self._path, text)
        except OSError as error:
            raise SettingError(
                f"{self.name} = {text}: {error.strerror}; correct the hook."
            ) from None
        if not _equal(back, text):
            raise SettingError(
                f"{self.name} is {quoted(back)} where {self._command} set '{text}'; list levels "
                f"that it reads back as they were set."
            )

    def read(self) -> float:
        """The level that the hook reads now."""
        try:
            back = call_hook(self._command, "read")
        except OSError as error:
            raise SettingError(f"{self.name}: {error.strerror}; correct the hook.") from None
        for level, text in self._texts.items():
            if _equal(back, text):
                return level
        try:
            return float(back)
        except ValueError:
            raise SettingError(
                f"{self.name} is {quoted(back)} after a run, no level of the spec: another process "
                f"sets it; end that first."
            ) from None


def _equal(text: str, other: str) -> bool:
    """Whether two texts are one level: one word, or one number."""
    try:
        return text == other or bool(same_level(float(text), float(other)))
    except ValueError:
        return False
