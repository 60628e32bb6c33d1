"""The first lines of a server's log, and the check of its data folder before anything is written there."""

from __future__ import annotations

import logging
import platform
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orbitmq import __version__
from orbitmq.broker.options import VIP_DISTANCE, BrokerSettings
from orbitmq.broker.role.options import HA_DISTANCE
from orbitmq.compiled import hot_modules
from orbitmq.nameserver.options import NamesrvSettings
from orbitmq.net.address import format_address, is_loopback, parse_address, parse_addresses
from orbitmq.options import OptionTable, Settings
from orbitmq.server.errors import StartError

if TYPE_CHECKING:
    from orbitmq.controller.options import ControllerSettings

log = logging.getLogger(__name__)

STORE_NAMES = ("commitlog", "consumequeue", "config/topics.json", "checkpoint", "abort", "lock", "shard-0")
"""One of these is in every data folder of a broker, OrbitMQ's or Apache's."""
NAMESRV_NAMES = ("kvConfig.json", "namesrv.properties")
DLEDGER_PREFIX = "dledger-"
"""The beginning of the name of a folder with a DLedger commit log."""
FOLDER_OF_FILE_SYSTEM = "lost+found"
"""A new file system is not empty: it has this folder."""


class ForeignFolder(StartError):
    """The data folder holds files of something else."""


def check_data_folder(folder: Path, names: Iterable[str], own_files: Iterable[Path | None]) -> None:
    """Raises ForeignFolder for a folder that is not empty and has none of `names`, or whose messages are all
    in a DLedger commit log: its queues would be emptied.

    `own_files` are files that the command line names: they may lie in the folder before its first start.
    """
    try:
        entries = sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return  # It is made later, or the error is reported where it is opened.
    raft_logs = [name for name in entries if name.startswith(DLEDGER_PREFIX)]
    if raft_logs and not any((folder / "commitlog").glob("*")):
        raise ForeignFolder(
            f"{folder} holds the log of a broker with DLedger ({raft_logs[0]}), which has another format: "
            "choose another --data-dir, and move the messages as docs/operate/leaving-dledger.md shows"
        )
    own = {path.absolute() for path in own_files if path is not None}
    foreign = [
        name for name in entries if name != FOLDER_OF_FILE_SYSTEM and folder.absolute() / name not in own
    ]
    if foreign and not any((folder / name).exists() for name in names):
        found = ", ".join(foreign[:3]) + (", ..." if len(foreign) > 3 else "")
        raise ForeignFolder(
            f"{folder} is not empty and holds no data of OrbitMQ or RocketMQ (found {found}): "
            "choose another --data-dir, or add --init to use this one"
        )


def announce(servers: Iterable[tuple[str, OptionTable[Any], Settings]], listeners: Iterable[str]) -> None:
    """Logs the version, the options that differ from their defaults, and the addresses to listen on.

    `servers` are those of the process, each with a prefix for the names of its options.
    """
    modules = hot_modules()
    compiled = sum(path is not None for path in modules.values())
    log.info(
        "OrbitMQ %s, Python %s, %d of %d hot modules compiled",
        __version__, platform.python_version(), compiled, len(modules),
    )  # fmt: skip
    if compiled < len(modules):
        log.warning(
            "this install is interpreted, and several times slower than a compiled one: "
            "install a C compiler, then install OrbitMQ again"
        )
    changed = [
        f"{prefix}{name}={value} ({settings.sources[name]})"
        for prefix, table, settings in servers
        for name, value in table.changed(settings).items()
    ]
    log.info("options that differ from their defaults: %s", ", ".join(changed) or "none")
    log.info("listeners: %s", ", ".join(listeners))


def warn_unreachable(settings: BrokerSettings) -> None:
    """Warns of a broker that registers at its loopback address with name servers of other hosts."""
    host = settings.broker_ip1 or settings.bind_address
    known = parse_addresses(settings.namesrv_addr) if settings.namesrv_addr else []
    elsewhere = [one for one in known if not is_loopback(parse_address(one)[0])]
    if is_loopback(host) and elsewhere:
        log.warning(
            "this broker registers with %s as %s: clients and brokers of other hosts do not reach it there. "
            "Set bindAddress=0.0.0.0 (--listen 0.0.0.0) if they are to",
            ", ".join(elsewhere),
            format_address(host, settings.advertised_port or settings.listen_port),
        )


def broker_listeners(settings: BrokerSettings) -> Iterator[str]:
    """The addresses of a broker."""
    host, port = settings.bind_address, settings.listen_port
    yield f"broker {format_address(host, port)}"
    yield f"broker (VIP) {format_address(host, port - VIP_DISTANCE)}"
    yield f"HA (for slaves) {format_address(host, settings.ha_listen_port or port + HA_DISTANCE)}"
    if settings.metrics_exporter_type == "PROM":
        metrics_host = settings.metrics_prom_exporter_host or host
        yield f"metrics {format_address(metrics_host, settings.metrics_prom_exporter_port)}"
    yield from _health(settings)


def namesrv_listeners(settings: NamesrvSettings) -> Iterator[str]:
    """The addresses of a name server."""
    yield f"name server {format_address(settings.bind_address, settings.listen_port)}"
    yield from _health(settings)


def controller_listeners(settings: ControllerSettings) -> Iterator[str]:
    """The addresses of a controller."""
    yield f"controller {format_address(settings.bind_address, settings.listen_port)}"
    yield from _health(settings)


def _health(settings: BrokerSettings | NamesrvSettings | ControllerSettings) -> Iterator[str]:
    if settings.health_port:
        host = settings.health_host or settings.bind_address
        yield f"health {format_address(host, settings.health_port)}"
