"""What a model file says in JSON: taken, or refused in a sentence."""

import json

import pytest

from msbgen.core.arrays import StoredArrays
from msbgen.core.errors import ProfileError
from msbgen.engine.faults.findings import Findings, SlowContext
from msbgen.engine.generate.labels import stored_findings, stored_labels

STORED = StoredArrays("model.nc", {})
LABELS = {"resources": {"ways": {"units": "1"}}, "counters": {"misses": {}}, "attrs": {"task": "x"}}
LABELS |= {"distribution": {}, "kind": "progress"}


@pytest.mark.parametrize(
    "change", [{"kind": "other"}, {"counters": {}}, {"attrs": {"task": None}}, {"distribution": 3}]
)
def test_other_labels_are_refused(change):
    with pytest.raises(ProfileError, match=r"model\.nc"):
        stored_labels(STORED, json.dumps(LABELS | change), ["progress"])
    with pytest.raises(ProfileError, match="labels"):
        stored_labels(STORED, "no JSON", ["progress"])


def test_findings_are_read_or_refused():
    findings = Findings((SlowContext(contexts=(3,), factor=2.0, weight=0.5, log_odds=9.0),))
    assert stored_findings(STORED, json.loads(json.dumps(findings.to_plain()))) == findings
    for wrong in ([{}], [3], 7, [{**findings.to_plain()[0], "factor": "much"}]):
        with pytest.raises(ProfileError, match="findings"):
            stored_findings(STORED, wrong)
