"""The rows about what a server tells of itself: its health, and its logs."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.options.declare import Settings, option


@dataclass(kw_only=True)
class ReportingSettings(Settings):
    """OrbitMQ's own options; brokers and name servers have them in common."""

    health_port: int = option(
        "healthPort",
        "int",
        0,
        "Serve /health/live and /health/ready over HTTP on this port; 0: on none of its own.",
        owner="",
        minimum=0,
        maximum=65535,
    )
    health_host: str = option(
        "healthHost",
        "String",
        "",
        "The address of that port; bindAddress if empty.",
        owner="",
    )
    log_level: str = option(
        "logLevel",
        "String",
        "info",
        "debug, info, warning or error; or several with `,` between, of parts of the program: "
        "info,orbitmq.store=debug.",
        owner="",
        mutable=True,
    )
