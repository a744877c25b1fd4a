"""What an HDF5 file claims, checked before the netCDF library opens it.

The library follows every link, and takes memory for every chunk and text of any stated size: a
file of some kilobytes can keep it busy for ever, or fill the memory.  Section numbers are those of
the HDF5 File Format Specification 3.0.
"""

import ctypes
import functools
import math
import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import ProfileError, quoted

MAGIC = b"\x89HDF\r\n\x1a\n"
# Variables and groups of a file; the library and xarray take some milliseconds for each.
MOST_OBJECTS = 2048
# How a heap begins (III.E), and the lengths of the heads of a heap and of what it holds.
_HEAP, _HEAP_HEAD, _ENTRY_HEAD = b"GCOL\x01\0\0\0", 16, 16
# Bytes of a reference to a text: length, address of the heap, and index; more than any index.
REFERENCE = 16
_PLACES = np.uint64(2**16)
# Bytes that are searched for references at a time.
_WINDOW = 2**25

# Constants of the library: kinds of links, of objects and of layouts, a class of types.
_HARD_LINK, _SOFT_LINK, _GROUP, _DATASET = 0, 1, 2, 5
_CHUNKED, _VIRTUAL, _VARIABLE_LENGTH, _MOST_DIMS = 2, 3, 9, 32


@dataclass(frozen=True)
class Texts:
    """The entries of all heaps: texts, and other values of variable length.

    Attributes
    ----------
    place : numpy.ndarray
        Address of the heap, times 2¹⁶, and index in it, as a reference has them.
    size : numpy.ndarray
        Bytes of each entry.
    """

    place: NDArray[np.uint64]
    size: NDArray[np.float64]

    @property
    def longest(self) -> int:
        """Bytes of the longest entry."""
        return int(self.size.max(initial=0))


def read_texts(path: Path) -> Texts | None:
    """The entries of the heaps of a file; None if one has no end: the library would never return.

    Index, references, four bytes, size of each entry (III.E): entry 0 is the free space, its own
    head included, the others are padded to eight bytes.  Heaps share no entries.  The walk ends
    where they must, so that its time grows with the file.
    """
    found: list[tuple[int, int, int]] = []
    with _mapped(path) as data:
        at, left = data.find(_HEAP), len(data) // _ENTRY_HEAD
        while at >= 0:
            place = at + _HEAP_HEAD
            end = at + int.from_bytes(data[at + len(_HEAP) : place], "little")
            while place + _ENTRY_HEAD <= min(end, len(data)):
                index, size = struct.unpack("<H6xQ", data[place : place + _ENTRY_HEAD])
                step = _ENTRY_HEAD + -(-size // 8) * 8 if index else size
                left -= 1
                if step < _ENTRY_HEAD or place + step > end or left < 0:
                    return None
                if index:
                    found.append((at, index, min(size, len(data))))
                place += step
            at = data.find(_HEAP, at + 1)
    at, index, size = np.array(found, np.uint64).reshape(-1, 3).T
    return Texts(at * _PLACES + index, size.astype(float))


def referenced_bytes(path: Path, texts: Texts) -> float:
    """Bytes of the texts that are referenced by what is not packed: attributes, most variables.

    Every reference counts, as the library makes a copy for each.
    """
    if not len(texts.place):
        return 0.0
    order = np.argsort(texts.place)
    places, sizes, total = texts.place[order], texts.size[order], 0.0
    with _mapped(path) as data:
        for first in range(0, len(data), _WINDOW):
            for shift in range(8):
                total += _referenced(data, first + shift, places, sizes)
    return total


def _referenced(
    data: mmap.mmap, start: int, places: NDArray[np.uint64], sizes: NDArray[np.float64]
) -> float:
    """Bytes that are referenced from a start, and from every eight bytes after it in a window."""
    count = min(_WINDOW // 8, (len(data) - start - 4) // 8)
    if count <= 0:
        return 0.0
    words = np.frombuffer(data, "<u8", count, start)
    lowest, highest = places[0] // _PLACES, places[-1] // _PLACES
    at = np.flatnonzero((words >= lowest) & (words <= highest))
    heaps = words[at].astype(np.uint64)
    del words  # a view of the map, which is closed later
    indices = [int.from_bytes(data[p : p + 4], "little") for p in (start + 8 * (at + 1)).tolist()]
    wanted = heaps * _PLACES + np.minimum(np.array(indices, np.uint64), _PLACES - np.uint64(1))
    found = np.minimum(np.searchsorted(places, wanted), len(places) - 1)
    return float(sizes[found][places[found] == wanted].sum())


@contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap]:
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data


# --------------------------------------------------------------------------- objects


def check_objects(path: Path, name: str, most: float) -> None:
    """Raise if a file has objects without number, values in other files, or chunks above `most`.

    `path` must be encodable; `name` is that of messages.

    Raises
    ------
    ProfileError
        A link to another file, values in another file or of different lengths, or more than
        :data:`MOST_OBJECTS` variables and groups: groups may contain each other.
    MemoryError
        A chunk of more than `most` bytes.
    """
    library = _library()
    file = library.H5Fopen(os.fsencode(path), 0, 0)
    if file < 0:  # the netCDF library will say why
        return
    groups, found = [file], 0
    try:
        while groups:
            group = groups.pop()
            try:
                links = _links(library, group, MOST_OBJECTS - found)
                found += len(links)
                if found > MOST_OBJECTS:
                    raise ProfileError(
                        f"{name}: has more than {MOST_OBJECTS} variables and groups, or groups "
                        f"that contain each other; split it."
                    )
                for link, kind in links:
                    if kind not in (_HARD_LINK, _SOFT_LINK):
                        raise ProfileError(
                            f"{name}: {quoted(_text(link))} is a link to another file; copy the "
                            f"values into this one."
                        )
                    child = library.H5Oopen(group, link, 0)
                    if child < 0:
                        continue
                    if library.H5Iget_type(child) == _GROUP:
                        groups.append(child)
                        continue
                    try:
                        if library.H5Iget_type(child) == _DATASET:
                            _check_dataset(library, child, f"{name}: {quoted(_text(link))}", most)
                    finally:
                        library.H5Oclose(child)
            finally:
                if group != file:
                    library.H5Oclose(group)
    finally:
        for group in groups:
            library.H5Oclose(group)
        library.H5Fclose(file)


def _links(library: Any, group: int, most: int) -> list[tuple[bytes, int]]:
    """Name and kind of the links of a group, at most one more than `most`."""
    found: list[tuple[bytes, int]] = []

    def visit(_: int, link: bytes, kind: Any, __: Any) -> int:
        found.append((link, kind[0]))
        return len(found) > most

    library.iterate(group, 0, 2, None, _VISIT(visit), None)
    return found


def _check_dataset(library: Any, dataset: int, place: str, most: float) -> None:
    settings, kind = library.H5Dget_create_plist(dataset), library.H5Dget_type(dataset)
    try:
        layout = library.H5Pget_layout(settings)
        if layout == _VIRTUAL or library.H5Pget_external_count(settings) > 0:
            raise ProfileError(f"{place} has values in another file; copy them into this one.")
        if library.H5Tget_class(kind) == _VARIABLE_LENGTH:
            raise ProfileError(f"{place} has values of different lengths; numbers are wanted.")
        if layout == _CHUNKED:
            sides = (ctypes.c_uint64 * _MOST_DIMS)()
            rank = library.H5Pget_chunk(settings, _MOST_DIMS, sides)
            taken = math.prod(sides[: max(rank, 0)]) * max(library.H5Tget_size(kind), 1)
            if taken > most:
                raise MemoryError(f"a chunk of its arrays takes {taken / 1e9:.3g} GB")
    finally:
        library.H5Pclose(settings)
        library.H5Tclose(kind)


def _text(name: bytes) -> str:
    return name.decode(errors="replace")


_VISIT = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.c_int64, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int), ctypes.c_void_p
)


@functools.cache
def _library() -> Any:
    """The HDF5 library that netCDF4 has loaded, with the types of the functions used here.

    netCDF4 offers no look at a file before its library walks it.  h5py does, but brings a second
    HDF5 library: a file that one version refuses and the other one reads would pass unchecked.
    """
    import netCDF4

    ident, index, number = ctypes.c_int64, ctypes.c_size_t, ctypes.c_int
    text, place = ctypes.c_char_p, ctypes.c_void_p
    library: Any = ctypes.PyDLL(netCDF4._netCDF4.__file__)  # pyright: ignore
    # since version 1.12 under a name with a number; the kind of a link is first in any version
    old = hasattr(library, "H5Literate")
    library.iterate = library.H5Literate if old else library.H5Literate2
    for function, result, arguments in (
        (library.H5Fopen, ident, (text, ctypes.c_uint, ident)),
        (library.H5Fclose, number, (ident,)),
        (library.iterate, number, (ident, number, number, place, _VISIT, place)),
        (library.H5Oopen, ident, (ident, text, ident)),
        (library.H5Oclose, number, (ident,)),
        (library.H5Iget_type, number, (ident,)),
        (library.H5Dget_create_plist, ident, (ident,)),
        (library.H5Dget_type, ident, (ident,)),
        (library.H5Pget_layout, number, (ident,)),
        (library.H5Pget_external_count, number, (ident,)),
        (library.H5Pget_chunk, number, (ident, number, ctypes.POINTER(ctypes.c_uint64))),
        (library.H5Pclose, number, (ident,)),
        (library.H5Tget_class, number, (ident,)),
        (library.H5Tget_size, index, (ident,)),
        (library.H5Tclose, number, (ident,)),
        (library.H5Eset_auto2, number, (ident, place, place)),
    ):
        function.restype, function.argtypes = result, arguments
    library.H5Eset_auto2(0, None, None)  # messages are ours
    return library
