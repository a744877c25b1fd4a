"""Sweeps: from a spec to measured runs, resumable, with every changed setting restored."""
