"""What predictors share: boosted and randomised trees, Gaussian conditioning, parameters."""

from msbgen.core.lazy import public_names

__getattr__, __dir__, __all__ = public_names(
    __name__, {"boosting": ("BoostingSettings",), "randomised": ("TreesSettings",)}
)
