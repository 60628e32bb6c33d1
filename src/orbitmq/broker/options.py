"""The rows of a broker: Apache's BrokerConfig, BrokerIdentity and AuthConfig, the store's and the network's.

A property of Apache's broker that no code reads is a row of `options/apache.json`.
"""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.broker.admin.options import AdminOptions
from orbitmq.broker.client.options import ClientOptions
from orbitmq.broker.delay.options import RecallOptions
from orbitmq.broker.fast_failure import FastFailureOptions
from orbitmq.broker.lite.options import LiteOptions
from orbitmq.broker.offset.options import UpkeepOptions
from orbitmq.broker.pop.options import PopOptions
from orbitmq.broker.pull.options import PullOptions
from orbitmq.broker.role.options import RoleOptions
from orbitmq.broker.send.options import SendOptions
from orbitmq.broker.static_topic.options import StaticTopicOptions
from orbitmq.broker.stats.options import MetricsOptions
from orbitmq.options import OptionTable, Status, option
from orbitmq.options.apache import apache_rows
from orbitmq.options.reporting import ReportingSettings

VIP_DISTANCE = 2
"""The VIP port is the broker's port less this; the port of replication is one above the broker's."""


@dataclass(kw_only=True)
class BrokerSettings(
    ReportingSettings,
    FastFailureOptions,
    MetricsOptions,
    LiteOptions,
    UpkeepOptions,
    RoleOptions,
    AdminOptions,
    ClientOptions,
    PullOptions,
    StaticTopicOptions,
    PopOptions,
    SendOptions,
    RecallOptions,
    owner="BrokerConfig",
):
    """Options of one broker. Rules read those of their subject at every use, so updates count at once."""

    # Addresses, and the servers that know them.
    listen_port: int = option(
        10911,
        "Port for clients. The VIP port is 2 below it, the port of replication 1 above.",
        minimum=VIP_DISTANCE + 1,
        maximum=65534,
        owner="BrokerConfig NettyServerConfig",
    )
    broker_ip1: str | None = option(
        None,
        "Host in routes and message ids.",
        name="brokerIP1",
        apache_default="the first address that is not loopback",
    )
    advertised_port: int | None = option(
        None,
        "Port in routes and message ids, if it differs from listenPort.",
        minimum=1,
        maximum=65535,
        owner="",
    )
    broker_ip2: str | None = option(
        None,
        "Host for slaves; brokerIP1 if not set.",
        name="brokerIP2",
        apache_default="the first address that is not loopback",
    )
    namesrv_addr: str | None = option(
        None,
        "Name servers to register with: HOST:PORT separated by `;`.",
        apache_default="NAMESRV_ADDR of the environment",
    )
    broker_config_path: str | None = option(
        None,
        "File that the options were read from.",
        status=Status.NO_EFFECT,
        reason="filled in from --config",
    )

    # Registration.
    register_name_server_period: int = option(
        30_000, "Interval of registrations with name servers, limited to 10 s to 60 s.", unit="ms", minimum=1
    )
    register_broker_timeout_mills: int = option(24_000, "Timeout of a registration.", unit="ms", minimum=1)
    force_register: bool = option(
        True,
        "Send a full registration every time, not only to name servers with outdated tables.",
        mutable=True,
    )
    enable_split_registration: bool = option(False, "Register many topics in several requests.", mutable=True)
    split_registration_size: int = option(
        800, "Topics in one of several registration requests.", unit="topics", mutable=True, minimum=1
    )

    # Held requests.
    max_held_requests: int = option(
        200_000,
        "Maximum of held long polls, over all connections. Further ones are answered at once, "
        "as after a timeout. Each takes about 1 KB, and each of many connections may hold "
        "4,096.",
        mutable=True,
        minimum=1,
        owner="",
    )


BROKER_TABLE = OptionTable(BrokerSettings, apache_rows("broker", "network"))
"""Every option of a broker."""
