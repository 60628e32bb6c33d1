"""Options of delayed messages."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.broker.metadata.options import IdentityOptions
from orbitmq.options import Long, option
from orbitmq.store.option_rows import StoreSettings


@dataclass(kw_only=True)
class RecallOptions(IdentityOptions, StoreSettings, owner="BrokerConfig"):
    """Options of recalls, and of the table of delayed messages."""

    recall_message_enable: bool = option(
        False, "Let producers recall timer messages before their delivery.", mutable=True
    )
    allow_recall_when_broker_not_writeable: bool = option(
        True, "Allow recalls while brokerPermission refuses sends.", mutable=True
    )
    delay_offset_update_version_step: Long = option(
        200, "The same for the table of delayed messages.", minimum=1
    )
