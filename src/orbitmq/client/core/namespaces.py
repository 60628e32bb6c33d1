"""Namespaces: several users of one cluster, each with names of their own for topics and groups.

On the wire a name is `<namespace>%<name>`; a prefix of retry and dead-letter topics stays in front. Names of
the system belong to everybody.
"""

from __future__ import annotations

from orbitmq.protocol.names import DLQ_PREFIX, RETRY_PREFIX, is_system_group, is_system_topic

SEPARATOR = "%"


def wrap(namespace: str, name: str) -> str:
    """The name on the wire of a topic or group of `namespace`; one that is so already stays."""
    if not namespace or is_system_topic(name) or is_system_group(name):
        return name
    prefix, bare = _split(name)
    own = namespace + SEPARATOR
    return name if bare.startswith(own) else f"{prefix}{own}{bare}"


def unwrap(namespace: str, name: str) -> str:
    """The name as users of `namespace` know it; names of others stay as they are."""
    if not namespace:
        return name
    prefix, bare = _split(name)
    return prefix + bare.removeprefix(namespace + SEPARATOR)


def _split(name: str) -> tuple[str, str]:
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if name.startswith(prefix):
            return prefix, name.removeprefix(prefix)
    return "", name
