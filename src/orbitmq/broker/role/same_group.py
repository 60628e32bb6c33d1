"""Checks of a slave before it follows: the master is of its group, is guarded alike, and has the same log."""

from __future__ import annotations

from collections.abc import Mapping

from orbitmq.broker.role.options import RoleOptions
from orbitmq.protocol.replication import BadStream


def require_same_guards(settings: RoleOptions, address: str, said: Mapping[str, str]) -> None:
    """Raises BadStream if the master's HA port has TLS or a sign-in and this slave's has not, or the reverse.
    `said` are the master's options.
    """
    for name, wanted in (
        ("haTlsEnable", settings.ha_tls_enable),
        ("haAuthenticationEnable", settings.ha_authentication_enable),
    ):
        if (said.get(name) == "true") is not wanted:
            raise BadStream(
                f"{name} is {said.get(name, 'not known')} at the master {address}, and "
                f"{str(wanted).lower()} here: set it alike at all brokers of the group"
            )


def require_same_group(
    settings: RoleOptions, segment_bytes: int, address: str, said: Mapping[str, str]
) -> None:
    """Raises BadStream if the master is of another cluster or group, or has segments of another size."""
    for name, mine, remedy in (
        ("brokerClusterName", settings.broker_cluster_name, "look at namesrvAddr and haMasterAddress"),
        ("brokerName", settings.broker_name, "look at namesrvAddr and haMasterAddress"),
        (
            "mappedFileSizeCommitLog",
            segment_bytes,
            "a slave's segments are as large as its master's: set it to the same here, in an empty store",
        ),
    ):
        theirs = said.get(name)
        # Brokers differ in how they write other characters.
        if theirs is not None and theirs.isascii() and theirs != str(mine):
            raise BadStream(f"{name} is {theirs} at the master {address}, and {mine} here: {remedy}")


def require_overlap(log_end: int, masters_begin: int, address: str) -> None:
    """Raises BadStream if the master's log begins behind the end of this one."""
    if log_end < masters_begin:
        raise BadStream(
            f"this log ends at {log_end}, and that of the master {address} begins at {masters_begin}: what "
            "lies between is gone. Start this slave with an empty store"
        )


def require_same_record(mine: bytes, theirs: bytes, physical_offset: int, address: str) -> None:
    """Raises BadStream if the master has another record in the place of this log's last one, or none."""
    if theirs != mine:
        raise BadStream(
            f"the master {address} has another record at {physical_offset} than this broker, or none: their "
            "logs have gone different ways. Nothing is cut off here: start this slave with an empty store, "
            "or make it the master if its messages are the ones to keep"
        )
