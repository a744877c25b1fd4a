"""The study of pressures, on made-up durations; its runs themselves need an idle machine."""

import pressure_study
import pytest

NAMES = ("a", "b", "c")


@pytest.fixture
def result():
    """Programs whose slowdown is 1 + level / 10,000; b presses with 1,000 MB/s, c with 4,000."""
    own = dict(zip(NAMES, (0.0, 1000.0, 4000.0)))
    seconds = {f"{a}|alone": [2.0, 2.0, 2.2] for a in NAMES}
    for a in NAMES:
        seconds |= {f"{a}|{x}": [2 * (1 + x / 1e4)] * 3 for x in pressure_study.LEVELS[1:]}
        seconds |= {f"{a}|{b}": [2 * (1 + own[b] / 1e4)] * 3 for b in NAMES if a != b}
    seconds["a|c"] = [2.8, 3.5, 2.1]
    pressures = {name: {"level": x, "low": x, "high": x} for name, x in own.items()}
    return {"machine": "m", "seconds": seconds, "pressures": pressures}


def test_a_slowdown_is_read_at_the_pressure_of_the_other(result):
    rows = {(row["program"], row["beside"]): row for row in pressure_study.pairs(result)}
    assert len(rows) == 6
    row = rows["a", "b"]
    assert (row["slowdown"], row["predicted"], row["rerun"]) == pytest.approx((1.1, 1.1, 0))
    # the mean of the pairs that are not {a, b}: a and c, b and c
    assert row["others"] == pytest.approx((1.4 + 1.4 + 1.0 + 1.1) / 4)
    assert rows["a", "c"]["rerun"] == pytest.approx((0 + 0.25 + 0.25) / 3)


def test_the_tables_hold_errors_of_every_method(result, monkeypatch):
    monkeypatch.setattr(pressure_study, "stored", lambda name: result)
    tables = pressure_study.tables()
    assert "| pressure | 0.0 % | 0.0 % |" in tables["pressure-errors"]
    assert "| alone (no slowdown) | 12.6 % | 28.6 % |" in tables["pressure-errors"]
    assert "| a | 2.00 s | 1.100 | 1.300 | 1.600 | 0 (0 to 0) |" in tables["pressure-programs"]
    assert "| a | b | 1.100 | 1.100 | +0.0 % | 0.0 % |" in tables["pressure-pairs"]
