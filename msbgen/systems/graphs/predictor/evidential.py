"""Normal-inverse-gamma heads: a Student-t distribution for each output, with a correct likelihood.

A head outputs (γ, ν, α, β): y ~ N(μ, σ²), μ ~ N(γ, σ²/ν), σ² ~ Γ⁻¹(α, β).  Only y is observed.  It
has a Student-t distribution with 2α degrees of freedom, location γ and scale² β(1+ν)/(να), so that

    −log p(y) = ½ log(π/ν) − α log Ω + (α+½) log(ν(y−γ)² + Ω) + log Γ(α)/Γ(α+½),  Ω = 2β(1+ν)

(Amini et al., *Deep evidential regression*, 2020, equation 8).  Equation 20 of the GraphPerf-RT
paper has other terms and is not the logarithm of a density: it integrates to .5 to 34.

The likelihood depends on β(1+ν)/ν and α only, so ν and β are not identified separately.  The
paper's epistemic variance, β/(ν(α−1)), is therefore arbitrary.  Contexts are gated by the whole
interval and ranked by its upper end.  Ranking costs by the lower end would prefer
the most uncertain contexts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError, MeasurementError

if TYPE_CHECKING:
    from torch import Tensor
else:
    Tensor = Any

Floats = NDArray[np.float64]

# From this α on, the ratio of Gamma functions is computed by its series: the difference of their
# logarithms, which grow as α log α, would lose its digits.
_SERIES_FROM = 30.0


@dataclass(frozen=True, eq=False)
class Evidence:
    """Outputs of the heads for some rows, arrays of one shape (n, n_outputs)."""

    gamma: Floats
    nu: Floats
    alpha: Floats
    beta: Floats

    def __post_init__(self) -> None:
        for name in ("nu", "alpha", "beta"):
            values = getattr(self, name)
            if values.shape != self.gamma.shape:
                raise ArgumentError(
                    f"{name} has shape {values.shape}; {self.gamma.shape}, as gamma, is wanted."
                )
            if np.isnan(values).any():
                raise MeasurementError(
                    f"{name} of the network is not a number, as its weights are too large; fit the "
                    f"network again."
                )
            if not np.all(values > 0):
                raise ArgumentError(f"{name} is {values.min():g}; positive numbers are wanted.")

    @property
    def scale(self) -> Floats:
        """Scale of the Student-t."""
        return np.sqrt(self.beta * (1.0 + self.nu) / (self.nu * self.alpha))

    def half_width(self, miscoverage: float) -> Floats:
        """Half width of the central interval of the Student-t."""
        from scipy.special import stdtrit

        if not 0 < miscoverage < 1:
            raise ArgumentError(f"miscoverage is {miscoverage}; a rate in (0, 1) is wanted.")
        return stdtrit(2.0 * self.alpha, 1.0 - miscoverage / 2.0) * self.scale

    def negative_log_likelihood(self, y: Floats) -> Floats:
        """−log of the density of y, elementwise."""
        from scipy.special import gammaln

        omega = 2.0 * self.beta * (1.0 + self.nu)
        off = self.nu * (y - self.gamma) ** 2
        a = np.minimum(self.alpha, _SERIES_FROM)
        exact = gammaln(a) - gammaln(a + 0.5)
        ratio = np.where(self.alpha < _SERIES_FROM, exact, _series(self.alpha, np.log(self.alpha)))
        spread = 0.5 * (np.log(np.pi / self.nu) + np.log(omega))
        return spread + (self.alpha + 0.5) * np.log1p(off / omega) + ratio


def widening(evidence: Evidence, y: Floats, miscoverage: float) -> Floats:
    """Factor τ of each output by which intervals are widened to cover held-back rows.

    The smallest for which at least 1 − `miscoverage` of the rows lie within γ ± τ · half width.
    """
    if len(y) == 0:
        raise MeasurementError("no run is held back; some are wanted to widen the intervals.")
    ratio = np.sort(np.abs(y - evidence.gamma) / evidence.half_width(miscoverage), axis=0)
    return ratio[math.ceil((1.0 - miscoverage) * len(y) - 1e-9) - 1]


# ---------------------------------------------------------------------------- losses, on tensors


def evidential_loss(y: Tensor, gamma: Tensor, nu: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """−log of the Student-t density of y, elementwise; differentiable in all of them."""
    import torch

    omega = 2.0 * beta * (1.0 + nu)
    off = nu * (y - gamma) ** 2
    a = alpha.clamp(max=_SERIES_FROM)
    exact = torch.lgamma(a) - torch.lgamma(a + 0.5)
    ratio = torch.where(alpha < _SERIES_FROM, exact, _series(alpha, torch.log(alpha)))
    spread = 0.5 * (math.log(math.pi) - torch.log(nu) + torch.log(omega))
    return spread + (alpha + 0.5) * torch.log1p(off / omega) + ratio


def overconfidence(y: Tensor, gamma: Tensor, nu: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """max(0, |y−γ| − 2σ) ν of the paper (Appendix M.5), σ² = β(ν+1)/(ν(α−1)); α > 1."""
    import torch

    deviation = torch.sqrt(beta * (nu + 1.0) / (nu * (alpha - 1.0)))
    return torch.relu((y - gamma).abs() - 2.0 * deviation) * nu


def ranking_loss(y: Tensor, upper: Tensor, margin: float = 0.01) -> Tensor:
    """Mean over pairs with yᵢ < yⱼ of max(0, upperᵢ − upperⱼ + margin); 0 where there is no pair.

    The paper ranks by lower ends, which are optimistic for costs.
    """
    import torch

    ahead = (y[:, None] < y[None, :]).to(y.dtype)
    lost = torch.relu(upper[:, None] - upper[None, :] + margin)
    return (ahead * lost).sum() / ahead.sum().clamp(min=1.0)


def _series(alpha: Any, log: Any) -> Any:
    """log Γ(α)/Γ(α+½) for large α: −½ log α + 1/(8α) − 1/(192α³) + 1/(640α⁵) − 17/(14336α⁷)."""
    x = 1.0 / alpha
    return -0.5 * log + x * (0.125 - x**2 * (1 / 192 - x**2 * (1 / 640 - x**2 * 17 / 14336)))
