"""Targets: a topic of a cluster, as senders name it, and the clusters that a service knows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from orbitmq.delay_service.errors import NotSchedulable
from orbitmq.delay_service.rules.times import shown
from orbitmq.protocol.names import IllegalName, check_topic

WEBHOOK = "webhook"
"""Stands for the cluster of web addresses. No cluster may have this name."""
MAX_URL = 1024
_KAFKA_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True)
class Target:
    """A topic of a cluster."""

    cluster: str
    topic: str

    def __str__(self) -> str:
        return f"{self.cluster}/{self.topic}"


@dataclass(frozen=True, slots=True)
class Known:
    """The clusters of a service."""

    kafka: Mapping[str, bool]
    """True for a cluster of Kafka, by the cluster's name."""
    sources: frozenset[Target]
    """Topics that are read: no message is sent to them."""
    dead_topic: str
    """Topic for dead letters, in the cluster from which their order came."""
    webhooks: tuple[str, ...] = ()
    """Beginnings of web addresses that may be targets: senders of orders choose them."""
    owners: Mapping[Target, str] = field(default_factory=dict)
    """Owners by the source that is theirs alone."""
    max_targets: int = 100_000
    """Limit of targets with pending messages: senders choose them."""

    def target(self, name: str, own: str, text: str) -> Target:
        """The target of a text `topic` or `cluster/topic` that came from the cluster `own`.

        `name` is the property. Raises NotSchedulable.
        """
        if text.startswith(("https://", "http://")):
            return self._webhook(name, text)
        cluster, slash, topic = text.partition("/")
        if not slash:
            cluster, topic = own, text
        if cluster not in self.kafka:
            raise NotSchedulable(
                f"{name}: there is no cluster {shown(cluster)}: the service knows {', '.join(self.kafka)}"
            )
        if self.kafka[cluster]:
            if not _KAFKA_TOPIC.fullmatch(topic) or topic in (".", ".."):
                raise NotSchedulable(f"{name}: {shown(topic)} is no name of a topic of Kafka")
        else:
            try:
                check_topic(topic)
            except IllegalName as error:
                raise NotSchedulable(f"{name}: {error}") from None
        target = Target(cluster, topic)
        if target in self.sources:
            raise NotSchedulable(f"{name}: {target} is a source of the service: it would never end")
        return target

    def _webhook(self, name: str, text: str) -> Target:
        plain = len(text) <= MAX_URL and text.isascii() and text.isprintable() and " " not in text
        # A prefix that ends in a slash names its host for good; `..` would leave its folder.
        if not plain or ".." in text or "@" in text or not text.startswith(self.webhooks):
            raise NotSchedulable(f"{name}: {shown(text)} is no web address that --webhook allows")
        return Target(WEBHOOK, text)

    def owner(self, source: Target, given: str) -> str:
        """The owner of an order that came from `source` and names `given`. Raises NotSchedulable."""
        own = self.owners.get(source, "")
        if own:
            if given not in ("", own):
                raise NotSchedulable(f"delay.owner: orders in {source} are of {shown(own)}")
            return own
        if given and self.topic_of(source.cluster, given):
            raise NotSchedulable(f"delay.owner: orders of {shown(given)} come through a topic of their own")
        return given

    def is_others(self, source: Target, owner: str) -> bool:
        return self.owners.get(source, owner) != owner

    def topic_of(self, cluster: str, owner: str) -> str:
        """The topic of an owner in a cluster, empty without one."""
        found = (one.topic for one, name in self.owners.items() if (one.cluster, name) == (cluster, owner))
        return next(found, "")

    def dead_letters(self, cluster: str) -> Target:
        return Target(cluster, self.dead_topic)
