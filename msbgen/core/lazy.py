"""Public names of a package, each imported from its module when it is first used.

Importing the package then costs nothing, nor does the command line's ``--help``.  Type checkers
read the ``__init__.pyi`` beside the package, which lists the same names.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def public_names(
    package: str, modules: Mapping[str, Sequence[str]], subpackages: Sequence[str] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package (PEP 562).

    `modules` lists public names by the module, relative to the package, that defines them.
    """
    home = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> object:
        if name in subpackages:
            return import_module(f"{package}.{name}")
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{home[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    names = sorted([*home, *subpackages])
    return get, lambda: sorted({*vars(sys.modules[package]), *names}), names
