"""Kernels of a made-up machine whose times and powers follow from a law that is known."""

import numpy as np

from msbgen.systems.kernels.dataset import make as make_kernels

CLOCKS = np.array([200.0, 400.0, 600.0, 800.0, 1000.0])  # [MHz]


def made_kernels(sizes=(64, 96, 128, 192, 256, 384, 512), clocks=CLOCKS, noise=0.0, seed=0):
    """Matrix products: time = launch + flops/f + bytes; power = idle + share of it × f³."""
    m, f = (x.ravel().astype(float) for x in np.meshgrid(sizes, clocks, indexing="ij"))
    compute, memory = 2 * m**3 / (512e6 * f), 12 * m**2 / 50e9
    time = 5e-6 + 2e-3 / (f * 1e3) + compute + memory
    power = 8.0 + 22.0 * (compute / time) * (f / 1000.0) ** 2.5
    rng = np.random.default_rng(seed)
    blur = np.exp(noise * rng.standard_normal((2, len(m))))
    return make_kernels(
        ["matmul"] * len(m),
        time * blur[0],
        power=power * blur[1],
        parameters={"m": m, "k": m, "n": m},
        resources={"clock": f},
        units={"clock": "MHz"},
    )
