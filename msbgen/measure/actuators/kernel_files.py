"""Files in which the kernel shows and takes settings: one unbuffered write each.

A buffered write of a refused value vanishes silently when its buffer is flushed too late; these
files are opened, written in a single call, and closed.  Tests put a fake kernel in their place.
"""

from __future__ import annotations

import errno
import os
from typing import Protocol


class KernelFiles(Protocol):
    """What actuators ask of the kernel's files; failures are the kernel's :class:`OSError`."""

    def read(self, path: str) -> str:
        """Whole text of a file."""
        ...

    def write(self, path: str, text: str) -> None:
        """Write a text in a single call."""
        ...

    def make(self, path: str) -> None:
        """Make a folder: a group."""
        ...

    def remove(self, path: str) -> None:
        """Remove a folder that is a group."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder."""
        ...

    def names(self, path: str) -> list[str]:
        """What a folder holds, sorted; nothing where there is none."""
        ...


class SystemFiles:
    """The files of the kernel that runs."""

    def read(self, path: str) -> str:
        """Whole text of a file."""
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            parts = []
            while part := os.read(handle, 65536):
                parts.append(part)
        finally:
            os.close(handle)
        return b"".join(parts).decode(errors="replace")

    def write(self, path: str, text: str) -> None:
        """Write a text in a single call."""
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
        """Make a folder: a group."""
        os.mkdir(path)

    def remove(self, path: str) -> None:
        """Remove a folder that is a group: its files go with it."""
        os.rmdir(path)

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder."""
        return os.path.lexists(path)

    def names(self, path: str) -> list[str]:
        """What a folder holds, sorted; nothing where there is none."""
        try:
            return sorted(os.listdir(path))
        except OSError:
            return []


class DryRunFiles:
    """Files that can be written without effect: reads see what was written, the kernel does not.

    Attributes
    ----------
    commands : list of str
        What a shell would be told to do the same.
    """

    def __init__(self, files: KernelFiles):
        self._files = files
        self._written: dict[str, str] = {}
        self._folders: set[str] = set()
        self.commands: list[str] = []

    def read(self, path: str) -> str:
        """What was written last, or what is there."""
        return self._written[path] if path in self._written else self._files.read(path)

    def write(self, path: str, text: str) -> None:
        """Remember a text."""
        self._written[path] = text
        self.commands.append(f"echo '{text.strip()}' > {path}")

    def make(self, path: str) -> None:
        """Remember a folder."""
        if self.exists(path):
            raise FileExistsError(errno.EEXIST, "file exists", path)
        self._folders.add(path)
        self.commands.append(f"mkdir {path}")

    def remove(self, path: str) -> None:
        """Forget a folder."""
        self._folders.discard(path)
        self.commands.append(f"rmdir {path}")

    def exists(self, path: str) -> bool:
        """Whether there is one, or was made."""
        return path in self._folders or path in self._written or self._files.exists(path)

    def names(self, path: str) -> list[str]:
        """What is there."""
        return self._files.names(path)
