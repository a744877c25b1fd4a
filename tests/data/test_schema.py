"""Names, tables and labels of a profile dataset."""

import numpy as np
import pytest

from msbgen.data.schema import all_contexts, context_table, counter_names, resource_names
from msbgen.errors import ProfileError


def test_names_and_table_follow_the_dataset(measured):
    assert resource_names(measured) == ["cache_ways", "frequency"]
    assert counter_names(measured) == ["instructions", "cache_requests", "cache_misses"]
    assert context_table(measured)[3].tolist() == [4.0, 2.0]
    everything = all_contexts(measured)
    assert everything.shape == (12, 2)
    assert len(np.unique(everything, axis=0)) == 12


def test_all_contexts_needs_levels(measured):
    del measured["frequency"].attrs["levels"]
    with pytest.raises(ProfileError, match="'frequency' has no attribute 'levels'"):
        all_contexts(measured)
