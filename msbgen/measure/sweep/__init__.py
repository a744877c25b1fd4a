"""Measuring by ourselves: from a spec to runs, resumable, everything put back."""
