"""Runtimes that were never measured, of workloads on platforms, beside others."""
