"""What HDF5 files claim costs neither time nor memory."""

import ctypes
import struct
import tracemalloc
import zlib
from types import SimpleNamespace

import netCDF4
import numpy as np
import pytest

from msbgen.core.errors import ProfileError
from msbgen.data import hdf5
from msbgen.data.store import load_netcdf, read_profiles, write_profiles


@pytest.mark.parametrize("size", [0, 8, 2**40, 2**64 - 8])
def test_a_heap_without_an_end_is_found_before_the_library_walks_it_for_ever(
    measured, tmp_path, size
):
    path = tmp_path / "task.nc"
    write_profiles(measured, path)
    data = bytearray(path.read_bytes())
    heap = data.index(b"GCOL")
    free = heap + 16
    while data[free : free + 2] != b"\0\0":
        free += 16 + -(-int.from_bytes(data[free + 8 : free + 16], "little") // 8) * 8
    data[free + 8 : free + 16] = size.to_bytes(8, "little")
    path.write_bytes(data)
    with pytest.raises(ProfileError, match=r"task\.nc: is damaged \(a heap without an end\)"):
        read_profiles(path)


def overlapping_heaps(count):
    """A file of heaps of which each holds all that follow: in the second half of an entry each."""
    size = 8 + 32 * count
    heads = (b"GCOL\x01\0\0\0" + struct.pack("<Q", size - 24 - 32 * i) for i in range(count))
    return b"\x89HDF\r\n\x1a\n" + b"".join(struct.pack("<H6xQ", 1, 16) + head for head in heads)


@pytest.mark.parametrize("count", [300, 3000])
def test_heaps_are_walked_in_a_time_that_grows_with_the_file(tmp_path, monkeypatch, count):
    walked = []

    def unpack(form, data):
        walked.append(form)
        return struct.unpack(form, data)

    monkeypatch.setattr(hdf5, "struct", SimpleNamespace(unpack=unpack))
    path = tmp_path / "heaps.nc"
    path.write_bytes(overlapping_heaps(count))
    with pytest.raises(ProfileError, match=r"heaps\.nc: is damaged"):
        load_netcdf(path)
    assert count < len(walked) <= 2 * count + 1


def test_groups_in_groups_are_no_profiles(tmp_path):
    with netCDF4.Dataset(tmp_path / "deep.nc", "w") as group:
        for _ in range(1200):
            group = group.createGroup("g")
    # netCDF4 reads them where Python does not limit the depth of compiled calls
    with pytest.raises(ProfileError, match=r"^deep\.nc: "):
        read_profiles(tmp_path / "deep.nc")


def structure(path, change):
    """Change the structure of a file by functions of the library that netCDF4 has loaded."""
    library = ctypes.CDLL(netCDF4._netCDF4.__file__)
    for name in ("H5Fopen", "H5Pcreate", "H5Screate_simple", "H5Dcreate2", "H5Dopen2"):
        getattr(library, name).restype = ctypes.c_int64
    ident, text = ctypes.c_int64, ctypes.c_char_p
    file = ident(library.H5Fopen(text(bytes(path)), 1, ident(0)))
    assert file.value >= 0
    assert change(library, file, lambda value: ident(value)) >= 0
    assert library.H5Fclose(file) >= 0


def linked(target):
    def change(library, file, ident):
        return library.H5Lcreate_external(
            target, b"/instructions", file, b"other", ident(0), ident(0)
        )

    return change


def contained(library, file, ident):
    """A group that contains the whole file."""
    return library.H5Lcreate_hard(file, b"/", file, b"again", ident(0), ident(0))


def repeated(library, file, ident):
    """Many names of one variable."""
    return min(
        library.H5Lcreate_hard(file, b"/time", file, b"name%d" % k, ident(0), ident(0))
        for k in range(hdf5.MOST_OBJECTS)
    )


def elsewhere(target):
    """A variable whose bytes are in another file."""

    def change(library, file, ident):
        creation = ctypes.c_int64.in_dll(library, "H5P_CLS_DATASET_CREATE_ID_g")
        number = ctypes.c_int64.in_dll(library, "H5T_NATIVE_UINT8_g")
        settings = ident(library.H5Pcreate(creation))
        assert library.H5Pset_external(settings, target, ident(0), ident(-1)) >= 0
        space = ident(library.H5Screate_simple(1, (ctypes.c_uint64 * 1)(9), None))
        made = library.H5Dcreate2(file, b"ext", number, space, ident(0), settings, ident(0))
        return min(made, library.H5Dclose(ident(made)))

    return change


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (linked(b"none.nc"), "'other' is a link to another file; copy the values into this one"),
        (linked(b"/dev/stdin"), "'other' is a link to another file"),
        (elsewhere(b"/dev/zero"), "'ext' has values in another file; copy them into this one"),
        (contained, "has more than 2048 variables and groups, or groups that contain each other"),
        (repeated, "has more than 2048 variables and groups"),
    ],
)
def test_a_file_that_leads_elsewhere_or_to_itself_is_refused(measured, tmp_path, change, sentence):
    path = tmp_path / "task.nc"
    write_profiles(measured, path)
    structure(path, change)
    with pytest.raises(ProfileError, match=rf"^task\.nc: {sentence}"):
        read_profiles(path)


def test_values_of_different_lengths_are_refused(tmp_path):
    with netCDF4.Dataset(tmp_path / "task.nc", "w") as file:
        file.createDimension("n", 3)
        file.createVariable("rows", file.createVLType(np.int32, "row"), ("n",))
    with pytest.raises(ProfileError, match=r"^task\.nc: 'rows' has values of different lengths"):
        load_netcdf(tmp_path / "task.nc")


def test_a_large_chunk_takes_no_memory(tmp_path):
    with netCDF4.Dataset(tmp_path / "task.nc", "w") as file:
        file.createDimension("n", None)
        file.createVariable("x", "f8", ("n",), zlib=True, chunksizes=(2**26,))
    with pytest.raises(ProfileError, match=r"^task\.nc: is too large \(a chunk .* 0\.537 GB"):
        load_netcdf(tmp_path / "task.nc")


def one_text_many_times(path, texts, kind):
    """A file of texts, each of which is made the longest of them where it is referenced."""
    with netCDF4.Dataset(path, "w") as file:
        if kind == "attribute":  # alone: netCDF4 pads the texts of an attribute
            file.setncattr_string("longest", texts[:1])
            file.setncattr_string("words", ["first word", *texts[1:]])
        else:
            packing = {"zlib": True, "shuffle": False} if kind == "packed" else {}
            file.createDimension("n", len(texts))
            words = file.createVariable("words", str, ("n",), **packing)
            words[:] = np.array(texts, object)
    found = hdf5.read_texts(path)

    def reference_to(text):
        heap, index = divmod(int(found.place[text]), 2**16)
        return struct.pack("<IQI", int(found.size[text]), heap, index)

    *_, second, longest = np.argsort(found.size)
    reference = reference_to(longest)
    if kind == "packed":
        chunk = zlib.compress(reference * len(texts))

        def change(library, file, ident):
            dataset = ident(library.H5Dopen2(file, b"words", ident(0)))
            first, size = (ctypes.c_uint64 * 1)(0), ctypes.c_size_t(len(chunk))
            assert library.H5Dwrite_chunk(dataset, ident(0), 0, first, size, chunk) >= 0
            return library.H5Dclose(dataset)

        structure(path, change)
        return
    with path.open("rb+") as file:
        first = reference_to(second) if kind == "attribute" else reference
        file.seek(file.read().index(first))
        file.write(reference * len(texts))


@pytest.mark.parametrize("kind", ["attribute", "plain", "packed"])
def test_texts_that_are_one_text_take_no_memory(tmp_path, kind):
    path = tmp_path / "texts.nc"
    one_text_many_times(path, ["x" * 2**20, *(f"word {k}" for k in range(299))], kind)
    tracemalloc.start()
    try:
        with pytest.raises(ProfileError, match=r"^texts\.nc: is too large \(its texts take "):
            load_netcdf(path)
        assert tracemalloc.get_traced_memory()[1] < 3 * 2**26
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("packed", [True, False])
def test_texts_of_a_sound_file_are_read(tmp_path, monkeypatch, packed):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("msbgen.data.store._ALWAYS", 2**19)
    monkeypatch.setattr("msbgen.data.store._TEXTS_AT_ONCE", 2**18)
    words = ["x" * 100_000, *(f"word {k}" for k in range(99))]
    with netCDF4.Dataset("texts.nc", "w") as file:
        file.createDimension("n", len(words))
        file.createVariable("words", str, ("n",), zlib=packed)[:] = np.array(words, object)
        file.title = "ü" * 1000
    found = load_netcdf("texts.nc")
    assert found["words"].values.tolist() == words
    assert found.attrs["title"] == "ü" * 1000
