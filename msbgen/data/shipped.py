"""Profiles, traces and device sheets that ship with the package."""

from pathlib import Path

from msbgen.core.errors import ArgumentError, quoted

_PACKAGE = Path(__file__).resolve().parent.parent
_KINDS = ("*.nc", "*.toml")


def shipped_folder() -> Path:
    """Folder of the shipped files: inside an installed package, or beside it in a checkout."""
    places = (_PACKAGE / "profiles", _PACKAGE.parent / "profiles")
    return next((place for place in places if place.is_dir()), places[0])


def shipped_file(name: str) -> Path:
    """Path of a shipped file.

    Parameters
    ----------
    name : str
        As ``gzip.nc`` (measured profiles of gzip), ``gzip-truth.nc`` (other contexts, held back),
        ``traces/gzip.nc`` (a recorded trace for the virtual platform), or ``devices/tx2.toml`` (a
        device sheet).

    Returns
    -------
    pathlib.Path

    Raises
    ------
    ArgumentError
        No such file ships; the message names those that do.

    Examples
    --------
    >>> shipped_file("gzip.nc").name
    'gzip.nc'
    """
    folder = shipped_folder()
    found = (path for kind in _KINDS for path in folder.rglob(kind))
    files = sorted(path.relative_to(folder).as_posix() for path in found)
    if not isinstance(name, str) or name not in files:
        raise ArgumentError(f"name is {quoted(name)}; one of {', '.join(files)} is wanted.")
    return folder / name
