"""Names of the version numbers that peers send."""

from __future__ import annotations

_FIRST = 392
"""The number of 4.9.0-SNAPSHOT. From there on every minor version has twenty: ten snapshots, ten releases."""
_FIRST_MINOR = 49


def version_name(number: int) -> str:
    """`5.4.0` for 493; the number itself for those before 4.9."""
    if number < _FIRST:
        return str(number)
    minors, within = divmod(number - _FIRST, 20)
    major, minor = divmod(_FIRST_MINOR + minors, 10)
    patch, released = divmod(within, 2)
    return f"{major}.{minor}.{patch}{'' if released else '-SNAPSHOT'}"


def version_description(number: int) -> str:
    """`v5_4_0` for 493, as metrics have it; the number itself for those before 4.9."""
    if number < _FIRST:
        return str(number)
    return "v" + version_name(number).replace(".", "_").replace("-", "_").lower()
