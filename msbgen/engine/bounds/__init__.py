"""Conformal bounds of a fitted model."""
