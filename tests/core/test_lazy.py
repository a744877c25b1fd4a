"""Modules that are imported when they are first used."""

import sys

import pytest

from msbgen.core.lazy import lazy_module


def test_a_lazy_module_is_imported_at_its_first_use():
    module = lazy_module("colorsys")
    sys.modules.pop("colorsys", None)
    assert "colorsys" not in sys.modules
    assert module.rgb_to_hls(1.0, 1.0, 1.0) == (0.0, 1.0, 0.0)
    assert module.rgb_to_hls is sys.modules["colorsys"].rgb_to_hls
    with pytest.raises(AttributeError, match="no attribute 'no_such'"):
        module.no_such  # noqa: B018
