"""Readers of recordings, one per format, and resampling onto equal intervals."""
