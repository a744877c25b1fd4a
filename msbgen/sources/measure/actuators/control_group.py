"""The control group of a program, version 1 or 2: CPU quota, memory limit and I/O limit use it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msbgen.sources.measure.actuators.actuator import SettingError
from msbgen.sources.measure.actuators.kernel_files import KernelFiles
from msbgen.sources.measure.actuators.kernel_settings import KernelSettings

_MOUNTS, _OUR_GROUPS = "/proc/self/mounts", "/proc/self/cgroup"
# Names of controllers that differ in version 1.
_VERSION_1 = {"io": "blkio"}


@dataclass(frozen=True)
class Place:
    """Where a group can be created."""

    version: int  # of control groups, 1 or 2
    parent: str  # parent folder of our group
    above: tuple[str, ...]  # the parent and its parents, up to the mount point


class ControlGroup:
    """Our group, the folder `name` in the hierarchy of each of the `controllers`.

    In version 2, a process is in one group, which therefore needs all controllers.
    """

    def __init__(self, settings: KernelSettings, name: str, controllers: Sequence[str]):
        self.settings = settings
        self.files = settings.files
        self._name = name
        self._controllers = tuple(controllers)
        self._places: dict[str, Place | str] = {}

    def place(self, controller: str) -> Place | str:
        """Where a controller's group can be created, or why it cannot."""
        if controller not in self._places:
            self._places[controller] = _find_place(self.files, controller, self._controllers)
        return self._places[controller]

    def open(self, what: str, controller: str) -> tuple[str, int]:
        """Folder and version of the group, created if necessary; `what` begins messages."""
        place = self.place(controller)
        if isinstance(place, str):
            raise SettingError(f"{what}: {place}")
        folder = f"{place.parent}/{self._name}"
        if place.version == 2:
            self._enable(what, controller, place.parent)
        if not self.files.exists(folder):
            try:
                self.settings.make(folder)
            except OSError as error:
                raise SettingError(
                    f"{what}: group {folder} cannot be created ({error.strerror}); run as root, or "
                    f"delegate the folder to your user (systemd: Delegate={controller})."
                ) from None
        return folder, place.version

    def add(self, what: str, controller: str, pid: int) -> None:
        """Put a process into the group."""
        folder, _ = self.open(what, controller)
        remedy = "run as root, or as the owner of the process and of both its groups."
        self.write(f"{folder}/cgroup.procs", str(pid), remedy)

    def write(self, path: str, text: str, remedy: str) -> None:
        """Write a file of the group; the message of a refusal ends with the remedy."""
        try:
            self.settings.write(path, text)
        except OSError as error:
            raise SettingError(
                f"{path}: the kernel refused '{text}' ({error.strerror}); {remedy}"
            ) from None

    def ensure(self, path: str, text: str) -> None:
        """Write a file of the group unless it shows this text."""
        if not self.files.exists(path) or self.files.read(path).strip() != text:
            self.write(path, text, "run as root.")

    def _enable(self, what: str, controller: str, parent: str) -> None:
        """Enable the controller for the groups below."""
        file = f"{parent}/cgroup.subtree_control"
        if controller not in self.files.read(file).split():
            try:
                self.settings.write(file, f"+{controller}", f"controller {controller}")
            except OSError as error:
                raise SettingError(
                    f"{what}: controller '{controller}' cannot be enabled in {parent} "
                    f"({error.strerror}); run as root, or delegate it to your user "
                    f"(Delegate={controller})."
                ) from None


def mount_points(files: KernelFiles) -> tuple[str, ...]:
    """Folders in which control groups are mounted."""
    if not files.exists(_MOUNTS):
        return ()
    mounts = [line.split() for line in files.read(_MOUNTS).splitlines()]
    return tuple(fields[1] for fields in mounts if fields[2] in ("cgroup", "cgroup2"))


def _find_place(files: KernelFiles, controller: str, together: Sequence[str]) -> Place | str:
    """Where a group with a controller, and in version 2 with all, can be created, or why not."""
    lack = (
        f"no control group with the controller '{controller}' is mounted here; on a machine of "
        f"your own: mount -t cgroup2 none /sys/fs/cgroup"
    )
    if not files.exists(_OUR_GROUPS):  # a kernel without control groups
        return lack
    mounts = [line.split() for line in files.read(_MOUNTS).splitlines()]
    groups = [line.split(":", 2) for line in files.read(_OUR_GROUPS).splitlines()]
    old = _VERSION_1.get(controller, controller)
    for fields in mounts:
        if fields[2] == "cgroup" and old in fields[3].split(","):
            ours = next((path for _, names, path in groups if old in names.split(",")), "/")
            parent = _below(files, fields[1], ours)
            return Place(1, parent, _up(fields[1], parent))
    for fields in mounts:
        if fields[2] == "cgroup2":
            root = fields[1]
            present = files.read(f"{root}/cgroup.controllers").split()
            if controller not in present:
                continue
            wanted = {controller, *together}.intersection(present)
            ours = next((path for number, _, path in groups if number == "0"), "/")
            parent = _below(files, root, ours)
            # a group with processes cannot delegate controllers, except for the root
            for folder in _up(root, parent):
                file = f"{folder}/cgroup.subtree_control"
                if folder == root or wanted <= set(files.read(file).split()):
                    return Place(2, folder, _up(root, folder))
    return lack


def _below(files: KernelFiles, root: str, path: str) -> str:
    """Folder of our group; the mount point if the path is not visible, as in a container."""
    folder = root + path.rstrip("/")
    return folder if files.exists(folder) else root


def _up(root: str, folder: str) -> tuple[str, ...]:
    """A folder and its parents, up to the mount point."""
    folders = [folder]
    while folder != root:
        folder = folder.rpartition("/")[0]
        folders.append(folder)
    return tuple(folders)
