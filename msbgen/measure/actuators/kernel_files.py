"""Access to the kernel's setting files, with one unbuffered write per value.

With a buffered write, the error of a refused value may be lost when the buffer is flushed.  So each
file is opened, written in a single call and closed.  Tests replace these classes by a fake kernel.
"""

from __future__ import annotations

import errno
import os
from typing import Protocol


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
        """Text of a file."""
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
        self.commands.append(f"echo '{text.strip()}' > {path}")

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
