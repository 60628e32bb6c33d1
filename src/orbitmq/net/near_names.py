"""Names of topics that are like an unknown one: most unknown topics are misspelt."""

from __future__ import annotations

from collections.abc import Iterable

from orbitmq.net.errors import NetError
from orbitmq.net.name_servers import NameServers
from orbitmq.protocol.errors import BrokerRefused, MalformedReply
from orbitmq.protocol.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from orbitmq.protocol.requests.route import GetAllTopicListFromNameserver

MOST_COMPARED = 2_000
"""Names that are compared letter by letter, about 10 ms of work."""
SHOWN = 3
LIKE = 0.7


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """Up to three names that are like `name`, the nearest first; system topics are none of them."""
    asked = name.lower()
    apart = max(2, len(name) // 3)
    candidates: dict[str, str] = {}
    for other in known:
        if len(candidates) == MOST_COMPARED:
            break
        if (
            other != name
            and abs(len(other) - len(name)) <= apart
            and not is_system_topic(other)
            and not other.startswith((RETRY_PREFIX, DLQ_PREFIX))
        ):
            candidates.setdefault(other.lower(), other)
    import difflib  # an error's, and no start's

    return [candidates[one] for one in difflib.get_close_matches(asked, candidates, SHOWN, LIKE)]


async def near_topics(names: NameServers, topic: str) -> list[str]:
    """The topics of the name servers that are like an unknown one; none if they do not tell."""
    try:
        known = (await names.ask(GetAllTopicListFromNameserver())).body.topic_list
    except (BrokerRefused, NetError, MalformedReply):
        return []
    return near_names(topic, known)
