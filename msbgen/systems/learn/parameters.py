"""Parameters of predictors, after the conventions of scikit-learn: stored by ``__init__`` alone."""

import inspect
from typing import Any, Self, get_type_hints

from msbgen.core.errors import ArgumentError
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
