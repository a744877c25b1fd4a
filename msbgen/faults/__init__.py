"""Measurements that do not belong: found from the known data alone, named, and mended."""
