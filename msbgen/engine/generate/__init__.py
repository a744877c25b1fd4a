"""Distributions of profiles, fitted to measurements, that generate profiles of any context."""
