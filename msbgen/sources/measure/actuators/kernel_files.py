"""Access to the kernel's setting files, with one unbuffered write per value.

With a buffered write, the error of a refused value may be lost when the buffer is flushed.  So each
file is opened, written in a single call and closed.  Tests replace these classes by a fake kernel.
"""

from __future__ import annotations

import errno
import os
import shlex
import subprocess
from typing import Protocol

from msbgen.core.errors import quoted

# Paths with this prefix are executables of the user that read and set a level.
HOOK = "hook:"
# A hook that takes longer is ended [s]: setting a clock takes milliseconds, a remote one seconds.
_HOOK_TIMEOUT = 60.0
# Characters of a hook's message that are quoted.
_SHOWN = 200


class KernelFiles(Protocol):
    """Operations on the kernel's files; they raise the kernel's :class:`OSError`."""

    def read(self, path: str) -> str:
        """Text of a file."""
        ...

    def write(self, path: str, text: str) -> None:
        """Write a text in a single call."""
        ...

    def make(self, path: str) -> None:
        """Create a folder, which creates a group."""
        ...

    def remove(self, path: str) -> None:
        """Remove the folder of a group."""
        ...

    def exists(self, path: str) -> bool:
        """Whether a file or folder exists."""
        ...

    def names(self, path: str) -> list[str]:
        """Sorted names in a folder; empty if there is no such folder."""
        ...


class SystemFiles:
    """The files of the running kernel."""

    def read(self, path: str) -> str:
        """Text of a file, or the level of a hook."""
        if path.startswith(HOOK):
            return call_hook(path.removeprefix(HOOK), "read")
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            parts = []
            while part := os.read(handle, 65536):
                parts.append(part)
        finally:
            os.close(handle)
        return b"".join(parts).decode(errors="replace")

    def write(self, path: str, text: str) -> None:
        """Write a text in a single call, or set the level of a hook."""
        if path.startswith(HOOK):
            call_hook(path.removeprefix(HOOK), "set", text.strip())
            return
        data = text.encode()
        handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            if os.write(handle, data) != len(data):
                raise OSError(errno.EIO, "only a part was taken", path)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None
        finally:
            os.close(handle)

    def make(self, path: str) -> None:
        """Create a folder, which creates a group."""
        os.mkdir(path)

    def remove(self, path: str) -> None:
        """Remove the folder of a group, with its files."""
        os.rmdir(path)

    def exists(self, path: str) -> bool:
        """Whether a file or folder exists."""
        return os.path.lexists(path)

    def names(self, path: str) -> list[str]:
        """Sorted names in a folder; empty if there is no such folder."""
        try:
            return sorted(os.listdir(path))
        except OSError:
            return []


class DryRunFiles:
    """Files for a dry run: reads return what was written, but nothing reaches the kernel.

    `commands` are shell commands that would make the same changes.
    """

    def __init__(self, files: KernelFiles):
        self._files = files
        self._written: dict[str, str] = {}
        self._folders: set[str] = set()
        self.commands: list[str] = []

    def read(self, path: str) -> str:
        """The text written last, else that of the kernel's file."""
        return self._written[path] if path in self._written else self._files.read(path)

    def write(self, path: str, text: str) -> None:
        """Store a text, and the command that would write it."""
        self._written[path] = text
        self.commands.append(writing_command(path, text.strip()))

    def make(self, path: str) -> None:
        """Store a folder, and the command that would create it."""
        if self.exists(path):
            raise FileExistsError(errno.EEXIST, "file exists", path)
        self._folders.add(path)
        self.commands.append(f"mkdir {path}")

    def remove(self, path: str) -> None:
        """Drop a folder, and store the command that would remove it."""
        self._folders.discard(path)
        self.commands.append(f"rmdir {path}")

    def exists(self, path: str) -> bool:
        """Whether a file or folder exists or was created."""
        return path in self._folders or path in self._written or self._files.exists(path)

    def names(self, path: str) -> list[str]:
        """Names in the kernel's folder."""
        return self._files.names(path)


def writing_command(path: str, text: str) -> str:
    """The shell command that writes a text to a file, or sets the level of a hook."""
    if path.startswith(HOOK):
        return shlex.join([path.removeprefix(HOOK), "set", text])
    return f"echo '{text}' > {path}"


def call_hook(command: str, *words: str) -> str:
    """What a hook prints, without blanks around it; OSError with a sentence if it fails."""
    called = shlex.join([command, *words])
    try:
        done = subprocess.run(
            [command, *words], capture_output=True, stdin=subprocess.DEVNULL, check=False,
            start_new_session=True, timeout=_HOOK_TIMEOUT,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        reason = f"did not end within {_HOOK_TIMEOUT:g} s"
    except OSError as error:
        reason = f"does not start ({error.strerror})"
    else:
        if done.returncode == 0:
            return done.stdout.decode(errors="replace").strip()
        reason = f"exited with {done.returncode}"
        if message := " ".join(done.stderr.decode(errors="replace").split()):
            reason += f": {quoted(message, _SHOWN)}"
    # EIO, because any other number would make it another error, such as a missing file
    raise OSError(errno.EIO, f"'{called}' {reason}", command)
