"""Bounds of a name server's tables: everybody who reaches its port may add to them."""

from __future__ import annotations

MOST_BROKERS = 10_000
"""Living brokers, groups and clusters, each."""
MOST_BROKERS_OF_PEER = 1_000
"""Living brokers that registered from one address."""
MOST_TOPICS_OF_BROKER = 100_000
"""Rows of one broker name."""
MOST_ROWS = 2_000_000
"""Rows of all topics, one for each topic and broker; as many mappings of static topics."""
MOST_FILTER_SERVERS = 64
"""Filter servers of one broker."""
MOST_NAME_CHARACTERS = 255
"""Characters of the name of a topic, broker or cluster, and of an address."""
MOST_KEYS = 100_000
"""Keys of the KV configuration, over all namespaces."""
MOST_KEYS_OF_PEER = 50_000
"""Keys that were set from one address since the start, and are still there."""
MOST_VALUE_CHARACTERS = 64 << 10
MOST_KV_CHARACTERS = 16 << 20
"""Characters of all namespaces, keys and values: the file is written as a whole."""


class LimitReached(Exception):
    """A request that would take a table beyond a bound; the text says which."""


def check_name(text: str, what: str) -> None:
    """Raises LimitReached for a name that is too long."""
    if len(text) > MOST_NAME_CHARACTERS:
        raise LimitReached(f"{what} has {len(text)} characters, the limit is {MOST_NAME_CHARACTERS}")
