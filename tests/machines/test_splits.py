"""What is held back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from machines import made_runs
from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.machines.dataset import words_of
from msbgen.machines.splits import LEAKY, folds_of, held_rows

RUNS = made_runs(12, scales=("small", "medium", "large"))


@given(st.sampled_from(["runs", "programs", "scales"]), st.integers(2, 12), st.integers(0, 99))
def test_each_run_is_held_back_once(split, folds, seed):
    parts = folds_of(RUNS, split, folds, seed)
    np.testing.assert_array_equal(np.sum(parts, axis=0), 1)
    assert len(parts) == (3 if split == "scales" else folds)


def test_programs_are_held_back_whole_and_scales_too():
    for split, word in (("programs", "program"), ("scales", "scale")):
        words = words_of(RUNS, word)
        for held in folds_of(RUNS, split, 5, 1):
            assert not set(words[held]) & set(words[~held])


def test_runs_without_a_scale_are_never_held_back():
    runs = made_runs(4, scales=("small", "large", ""))
    assert not np.any(folds_of(runs, "scales"), axis=0)[words_of(runs, "scale") == ""].any()


def test_rows_of_one_run_stand_on_both_sides_by_rows_only():
    for split in ("rows", "runs", "programs", "scales"):
        parts = held_rows(RUNS, split, 5, 0)
        np.testing.assert_array_equal(np.sum(parts, axis=0), 1)
        torn = any((held.any(axis=1) & ~held.all(axis=1)).any() for held in parts)
        assert torn == (split in LEAKY)


def test_what_cannot_be_held_back_is_refused():
    with pytest.raises(MeasurementError, match="12 programs for 13 folds"):
        folds_of(RUNS, "programs", 13)
    with pytest.raises(MeasurementError, match="at 1 scale"):
        folds_of(made_runs(4, scales=("small",)), "scales")
    with pytest.raises(ArgumentError, match="split is 'suites'"):
        folds_of(RUNS, "suites")
    with pytest.raises(ArgumentError, match="folds is 1"):
        folds_of(RUNS, "runs", 1)
