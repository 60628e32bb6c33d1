"""The start of another slave of a group, with the options of its master."""

from __future__ import annotations

import shlex

from orbitmq.admin.replication.survey import GroupSurvey, Replica

TAKEN_OVER = {
    "mappedFileSizeCommitLog": str(1 << 30),
    "mappedFileSizeConsumeQueue": "6000000",
    "messageDelayLevel": "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
    "maxMessageSize": str(4 << 20),
    "autoCreateTopicEnable": "true",
    "autoCreateSubscriptionGroup": "true",
    "enablePropertyFilter": "false",
    "timerWheelEnable": "true",
    "transactionTimeOut": "6000",
    "flushDiskType": "ASYNC_FLUSH",
    "authenticationEnabled": "false",
    "authorizationEnabled": "false",
}
"""Options that a broker takes over from the one whose place it takes, with their defaults."""


def free_id(found: GroupSurvey) -> int:
    """The smallest id that no member of the group has."""
    used = {one.at.broker_id for one in found.members}
    return next(number for number in range(1, len(used) + 2) if number not in used)


def slave_options(found: GroupSurvey, master: Replica) -> dict[str, str]:
    """The options of a slave by Apache's names, without its id."""
    return {
        "brokerClusterName": master.at.cluster,
        "brokerName": found.name,
        "brokerRole": "SLAVE",
        **{
            name: master.options[name]
            for name, usual in TAKEN_OVER.items()
            if master.options.get(name, usual) != usual
        },
    }


def slave_command(
    found: GroupSurvey, master: Replica, broker_id: int, namesrv: str, listen: str = "ADDRESS", **more: str
) -> str:
    """The command that starts a slave of OrbitMQ; the reader fills in DIR, and ADDRESS where `listen` is not
    known.
    """
    words = ["orbitmq", "broker", "--namesrv", namesrv, "--broker-id", str(broker_id)]
    for name, value in {**slave_options(found, master), **more}.items():
        words += ["--set", f"{name}={value}"]
    return f"{shlex.join(words)} --data-dir DIR --listen {listen}"
