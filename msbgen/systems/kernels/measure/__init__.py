"""Kernels of neural networks, and networks whole: traced, timed, put into a dataset."""
