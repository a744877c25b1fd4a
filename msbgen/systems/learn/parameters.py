"""What all predictors share, after the conventions of scikit-learn.

Parameters are only stored by ``__init__``; names of fitted attributes end in ``_``.
"""

import inspect
import os
from typing import Any, ClassVar, Self, get_type_hints

from msbgen.core.errors import ArgumentError
from msbgen.core.parts import fitted_names
from msbgen.core.records import check


class Parameters:
    """Base of predictors: arguments of ``__init__``, read and changed by name."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; `deep` has no effect, and is there for scikit-learn."""
        names = list(inspect.signature(type(self).__init__).parameters)[1:]
        return {name: getattr(self, name) for name in names}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters.

        Raises
        ------
        ArgumentError
            An unknown name, or a value that is not as ``__init__`` declares it; then nothing is
            changed.
        """
        known = self.get_params()
        for name in parameters:
            if name not in known:
                raise ArgumentError(f"parameter is {name!r}; one of {', '.join(known)} is wanted.")
        hints = get_type_hints(type(self).__init__, include_extras=True)
        for name, value in parameters.items():
            check(hints.get(name, Any), value, name)
        for name, value in parameters.items():
            setattr(self, name, value)
        return self


class Predictor(Parameters):
    """Base of predictors of a system, which are kept in files.

    A class annotates what it fits (:mod:`msbgen.core.parts`), and says what `schema` its files
    have, and in words what it is a model `of`.
    """

    schema: ClassVar[str]
    of: ClassVar[str]

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the fitted predictor to one netCDF file (arrays and JSON; nothing is pickled).

        Raises
        ------
        ArgumentError
            It is not fitted.
        FileExistsError
            `path` exists and `overwrite` is False.
        """
        from msbgen.data.models import save_part  # xarray, which no settings class needs

        self.check_fitted()
        save_part(self, path, schema=self.schema, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Predictor that :meth:`save` wrote; it predicts the same as the saved one.

        Raises
        ------
        ProfileError
            The file cannot be read, is no such model, or was changed since it was saved.
        """
        from msbgen.data.models import load_part

        return load_part(cls, path, schema=cls.schema, what=cls.of)

    def check_fitted(self) -> None:
        """Raise ArgumentError if the predictor is not fitted."""
        if not all(hasattr(self, name) for name in fitted_names(type(self))):
            raise ArgumentError("the predictor is not fitted; call fit first.")
