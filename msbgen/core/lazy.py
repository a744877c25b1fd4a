"""Modules and public names that are imported when they are first used.

Importing a package then costs nothing, nor does the command line's ``--help``.  Type checkers read
the ``__init__.pyi`` beside the package, which lists the same names.  Kernels are imported so, too:
numba takes half a second of a core, which answers of a saved model save if they need no kernel.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType


def public_names(
    package: str, modules: Mapping[str, Sequence[str]], subpackages: Sequence[str] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package (PEP 562).

    `modules` lists public names by the module, relative to the package, that defines them, and
    `subpackages` those that are addressed by their last name, in whichever folder they lie.
    """
    home = {name: module for module, names in modules.items() for name in names}
    namespaces = {path.rpartition(".")[2]: path for path in subpackages}

    def get(name: str) -> object:
        if name in namespaces:
            return import_module(f"{package}.{namespaces[name]}")
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{home[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    names = sorted([*home, *namespaces])
    return get, lambda: sorted({*vars(sys.modules[package]), *names}), names


def lazy_module(name: str) -> ModuleType:
    """Module that is imported when one of its names is first used."""
    return _LazyModule(name)


class _LazyModule(ModuleType):
    def __getattr__(self, name: str) -> object:
        value = getattr(import_module(self.__name__), name)
        setattr(self, name, value)
        return value
