"""Range queries of Prometheus, in JSON."""

import json

import numpy as np
import pytest

from measure_fixtures import FIXTURES
from msbgen.core.errors import ProfileError
from msbgen.sources.measure.readers.prometheus import read_prometheus
from msbgen.sources.measure.readers.recording import assemble

GOOD = {"metric": {"__name__": "a_total"}, "values": [[0, "1"], [1, "2"]]}


def test_totals_become_differences_and_levels_their_sums_over_time():
    rows = read_prometheus(FIXTURES / "tables/prometheus.json")
    found = assemble(rows)
    np.testing.assert_allclose(found.times, [1, 3])
    columns = dict(zip(found.events, found.counts.T))
    np.testing.assert_allclose(columns["container_llc_occupancy_bytes"], [2e6, 8e6])
    np.testing.assert_allclose(columns["container_memory_bandwidth_bytes"], [5e8, 1.5e9 + 300])
    assert dict(zip(found.events, found.units))["container_llc_occupancy_bytes"] == "bytes s"
    one = assemble(rows, places=["node_id=1"])
    np.testing.assert_allclose(one.counts[:, 0], [0, 300])


def test_series_of_other_metrics_are_not_added(tmp_path):
    labelled = {**GOOD, "metric": {**GOOD["metric"], "node": "0"}}
    other = {**GOOD, "metric": {"__name__": "b_total", "cpu": "total"}}
    more = {**GOOD, "metric": {**GOOD["metric"], "node": "1"}}
    for series, sentences in (((), 0), ((more,), 1)):
        (tmp_path / "q.json").write_text(json.dumps(answer(labelled, other, *series)))
        warnings = assemble(read_prometheus(tmp_path / "q.json")).warnings
        assert len(warnings) == sentences
        assert all("counts of 2 places (node=0, node=1) were added" in text for text in warnings)


def answer(*series, **other):
    return {"status": "success", "data": {"resultType": "matrix", "result": [*series]}, **other}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ([], "is no JSON object; the answer of /api/v1/query_range is wanted"),
        ({"status": "error", "error": "bad\n"}, "the query failed: 'bad\\n'"),
        (answer(), "has no series (resultType matrix)"),
        ({"data": {"resultType": "vector", "result": [GOOD]}}, "has no series (resultType matrix)"),
        (answer(GOOD, 3), "series 1 has no labels 'metric'"),
        (answer({**GOOD, "values": [[0, "1"]]}), "series 0 has no two or more samples"),
        (answer({**GOOD, "values": [[1, "1"], [0, "2"]]}), "series 0 has no two or more samples"),
        (answer({**GOOD, "values": [[0, "NaN"], [1, "2"]]}), "series 0 has no two or more"),
        (answer({**GOOD, "values": [[0, "3"], [1, "2"]]}), "series 0 (a_total) falls at 1.000 s"),
    ],
)
def test_what_is_no_range_query_is_refused(tmp_path, content, sentence):
    (tmp_path / "q.json").write_text(json.dumps(content))
    with pytest.raises(ProfileError) as caught:
        read_prometheus(tmp_path / "q.json")
    assert sentence in str(caught.value)
    assert str(caught.value).startswith("q.json: ")


def test_series_of_unequal_spans_are_read_where_all_have_samples(tmp_path):
    other = {"metric": {"__name__": "b_total"}, "values": [[t, str(3 * t)] for t in range(2, 9)]}
    first = {**GOOD, "values": [[t, str(t)] for t in range(6)]}
    (tmp_path / "q.json").write_text(json.dumps(answer(first, other)))
    found = assemble(read_prometheus(tmp_path / "q.json"))
    assert found.times.tolist() == [1, 2, 3]
    assert found.counts.tolist() == [[1, 3]] * 3
    assert "series have unequal spans: the 3 s that all have were read" in found.warnings[0]
    other["values"] = [[t, "1"] for t in (5, 6, 7)]
    (tmp_path / "q.json").write_text(json.dumps(answer(first, other)))
    with pytest.raises(ProfileError, match=r"series 0 \(a_total\) has no two samples while all"):
        read_prometheus(tmp_path / "q.json")
