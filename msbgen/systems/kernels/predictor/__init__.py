"""Runtime and power of kernels, networks and whole programs in configurations never measured."""
