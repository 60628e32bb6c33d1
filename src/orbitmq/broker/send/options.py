"""Options of sends and replies."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.broker.metadata.options import IdentityOptions
from orbitmq.broker.transaction.options import TransactionOptions
from orbitmq.options import option


@dataclass(kw_only=True)
class SendOptions(IdentityOptions, TransactionOptions, owner="BrokerConfig"):
    """Options of sends and replies."""

    store_reply_message_enable: bool = option(True, "Store replies as well as forwarding them.", mutable=True)
