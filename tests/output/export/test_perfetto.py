"""Traces, decoded by the numbers and types that Perfetto's .proto files give their fields."""

import struct
from importlib.util import find_spec

import numpy as np
import pytest

from conftest import synthetic_task
from msbgen.core.errors import ArgumentError
from msbgen.output.export.perfetto import write_perfetto

# Of each message: field number -> name and type; a dictionary is a message inside.
COUNTER = {6: ("unit_name", "text")}
DESCRIPTOR = {
    1: ("uuid", "number"),
    2: ("name", "text"),
    5: ("parent_uuid", "number"),
    8: ("counter", COUNTER),
    11: ("child_ordering", "number"),
    12: ("sibling_order_rank", "number"),
}
EVENT = {
    9: ("type", "number"),
    11: ("track_uuid", "number"),
    44: ("double_counter_value", "double"),
}
PACKET = {
    8: ("timestamp", "number"),
    10: ("trusted_packet_sequence_id", "number"),
    11: ("track_event", EVENT),
    13: ("sequence_flags", "number"),
    60: ("track_descriptor", DESCRIPTOR),
}
TRACE = {1: ("packet", PACKET)}
TYPE_COUNTER = 4


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def decode(data, message):
    """Pairs of name and value of a message; every byte belongs to a known field."""
    at, found = 0, []
    while at < len(data):
        key, at = varint(data, at)
        name, kind = message[key >> 3]
        wire = {"number": 0, "double": 1}.get(kind, 2) if isinstance(kind, str) else 2
        assert key & 7 == wire, name
        if wire == 0:
            value, at = varint(data, at)
        elif wire == 1:
            (value,), at = struct.unpack("<d", data[at : at + 8]), at + 8
        else:
            size, at = varint(data, at)
            assert at + size <= len(data)
            content, at = data[at : at + size], at + size
            value = content.decode() if kind == "text" else dict(decode(content, kind))
        found.append((name, value))
    return found


@pytest.fixture
def tasks():
    measured = synthetic_task(np.array([[2.0, 1.0], [4.0, 2.0]]), n_runs=2)
    measured["instructions"][0, 0, 2] = np.nan  # a lost sample
    measured["cache_misses"].attrs["units"] = "J"
    generated = measured.isel(context=[1], run=0, drop=True)
    return {"measured": measured, "generated": generated}


@pytest.fixture
def packets(tasks, tmp_path):
    assert write_perfetto(tasks, tmp_path / "x.pftrace") == 5
    return [packet for _, packet in decode((tmp_path / "x.pftrace").read_bytes(), TRACE)]


def test_every_run_is_a_group_of_counter_tracks_beside_those_of_its_context(packets):
    assert packets[0] == {"sequence_flags": 1, "trusted_packet_sequence_id": 1}
    tracks = [p["track_descriptor"] for p in packets if "track_descriptor" in p]
    groups = [t for t in tracks if "parent_uuid" not in t]
    first, last = "cache_ways=2, frequency=1 GHz", "cache_ways=4, frequency=2 GHz"
    names = [f"{first} | measured 0", f"{first} | measured 1", f"{last} | measured 0"]
    assert [g["name"] for g in groups] == [*names, f"{last} | measured 1", f"{last} | generated"]
    assert len({t["uuid"] for t in tracks}) == len(tracks) == 5 * 4
    for group in groups:
        under = [t for t in tracks if t.get("parent_uuid") == group["uuid"]]
        assert [t["name"] for t in under] == ["instructions", "cache_requests", "cache_misses"]
        assert [t["counter"]["unit_name"] for t in under] == ["1/s", "1/s", "W"]


def test_rates_times_their_lengths_are_the_counts(packets, tasks):
    measured = tasks["measured"]
    tracks = {
        (t["parent_uuid"], t["name"]): t["uuid"]
        for t in (p.get("track_descriptor", {}) for p in packets)
        if "parent_uuid" in t
    }
    groups = sorted({group for group, _ in tracks})
    assert {p["track_event"]["type"] for p in packets if "timestamp" in p} == {TYPE_COUNTER}
    for group, (c, r) in zip(groups, [(0, 0), (0, 1), (1, 0), (1, 1)]):
        for name in ("instructions", "cache_requests"):
            events = [
                (p["timestamp"], p["track_event"]["double_counter_value"])
                for p in packets
                if p.get("track_event", {}).get("track_uuid") == tracks[group, name]
            ]
            assert all(
                p["track_event"]["type"] == TYPE_COUNTER for p in packets if "timestamp" in p
            )
            stamps, rates = np.array(events).T
            assert stamps[0] == 0
            assert rates[-1] == 0
            assert stamps[-1] == pytest.approx(1e9 * float(measured["duration"][c, r]), abs=1)
            counts = measured[name].values[c, r]
            counts = counts[np.isfinite(counts)]
            lost = name == "instructions" and (c, r) == (0, 0)
            assert len(rates) == len(counts) + 1
            if not lost:
                np.testing.assert_allclose(rates[:-1] * np.diff(stamps) / 1e9, counts, rtol=1e-6)


@pytest.mark.skipif(find_spec("perfetto") is None, reason="needs perfetto: pip install perfetto")
def test_perfettos_own_library_reads_the_trace(packets, tmp_path):
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

    trace = Trace.FromString((tmp_path / "x.pftrace").read_bytes())
    for packet, decoded in zip(trace.packet, packets, strict=True):
        assert {field.name for field, _ in packet.ListFields()} == decoded.keys()
    values = [p.track_event.double_counter_value for p in trace.packet if p.timestamp]
    assert values == [
        p["track_event"]["double_counter_value"] for p in packets if p.get("timestamp")
    ]


def test_no_dataset_is_refused(tmp_path):
    with pytest.raises(ArgumentError, match="datasets are none"):
        write_perfetto({}, tmp_path / "x.pftrace")
