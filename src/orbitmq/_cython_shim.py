"""Stands in for the `cython` package where it is not installed.

The `_cy.py` modules are written in Cython's pure-Python mode. Interpreted, they need the names below
and nothing else; importing the real package only for them would cost 17 MB at run time.
"""

from collections.abc import Callable
from typing import Any, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])

compiled = False


class _Type:
    """A C type in an annotation or declaration; it means nothing to the interpreter."""

    def __getitem__(self, _: object) -> "_Type":
        return self

    def __call__(self, value: object = 0) -> object:
        return value


char = uchar = int = uint = longlong = ulonglong = Py_ssize_t = bint = void = _Type()


def _unchanged(*_: object, **__: object) -> Callable[[_F], _F]:
    def keep(function: _F) -> _F:
        return function

    return keep


def cfunc(function: _F) -> _F:
    """Compiled: a C function. Interpreted: the function itself."""
    return function


def ccall(function: _F) -> _F:
    """Compiled: callable from C and Python. Interpreted: the function itself."""
    return function


def final(function: _F) -> _F:
    """Compiled: nothing is derived from the type. Interpreted: the class itself."""
    return function


def cclass(function: _F) -> _F:
    """Compiled: an extension type. Interpreted: the class itself."""
    return function


def inline(function: _F) -> _F:
    """Compiled: inlined. Interpreted: the function itself."""
    return function


locals = exceptval = cdivision = _unchanged


def declare(_type: object = None, value: object = None, **_: object) -> object:
    """Compiled: declares a C variable. Interpreted: its initial value."""
    return value


def cast(_type: object, value: object, **_: object) -> object:
    """Compiled: a C cast. Interpreted: the value."""
    return value
