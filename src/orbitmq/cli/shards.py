"""`orbitmq broker --shards N`: the command line and the folder of each shard."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from orbitmq.broker.options import VIP_DISTANCE, BrokerSettings
from orbitmq.cli.flags import ServerFlags
from orbitmq.options import OptionError
from orbitmq.server.errors import StartError
from orbitmq.server.lifecycle.shards import ShardCommand

PORT_STRIDE = 10
"""Every port of a shard is this far above the same port of the shard before."""
MAX_PORT = 65_534
_FOLDER = re.compile(r"shard-(0|[1-9][0-9]*)")


def shard_folder(root: Path, number: int) -> Path:
    """The data folder of a shard."""
    return root / f"shard-{number}"


def shards_in(root: Path) -> list[int]:
    """The numbers of the shards whose folders are in `root`."""
    try:
        names = [entry.name for entry in root.iterdir() if entry.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(int(found[1]) for found in map(_FOLDER.fullmatch, names) if found)


def check_folder(root: Path, count: int) -> None:
    """Raises StartError where `count` shards would leave out messages that are in `root`."""
    found = shards_in(root)
    if found and found[-1] >= count:
        left_out = ", ".join(f"shard-{number}" for number in found if number >= count)
        raise StartError(
            f"{root} holds {len(found)} shards: with --shards {count} the messages of {left_out} would be "
            f"out of reach; start it with --shards {found[-1] + 1}, or move those folders elsewhere"
        )
    if (root / "commitlog").exists():
        raise StartError(
            f"{root} is the store of a broker without shards; give --shards another folder, or move all of "
            f"it to {shard_folder(root, 0)} to make it the first shard"
        )


def check_not_sharded(root: Path) -> None:
    """Raises StartError where a lone broker would begin empty beside the shards in `root`."""
    found = shards_in(root)
    if found and not (root / "commitlog").exists():
        raise StartError(
            f"{root} holds {len(found)} shards: start it with --shards {found[-1] + 1}, "
            f"or one of them with --data-dir {shard_folder(root, found[0])}"
        )


def shard_commands(
    settings: BrokerSettings, flags: ServerFlags, log_format: str, count: int
) -> list[ShardCommand]:
    """The command that starts each shard. Raises OptionError for settings that `count` brokers cannot have.

    `settings` are those of a broker with the same command line but for `--shards`.
    """
    last = PORT_STRIDE * (count - 1)
    for name, port in _ports(settings):
        if port + last > MAX_PORT:
            raise OptionError(
                f"--shards {count}: {name}={port} is too high, the last shard would have port {port + last}"
            )
    return [
        ShardCommand(
            f"{settings.broker_name}-{number}", list(_arguments(settings, flags, log_format, number))
        )
        for number in range(count)
    ]


def _ports(settings: BrokerSettings) -> Iterator[tuple[str, int]]:
    yield "listenPort", settings.listen_port
    for name, port in (
        ("advertisedPort", settings.advertised_port),
        ("haListenPort", settings.ha_listen_port),
        ("metricsPromExporterPort", settings.metrics_prom_exporter_port),
        ("healthPort", settings.health_port),
    ):
        if port:
            yield name, port


def _arguments(settings: BrokerSettings, flags: ServerFlags, log_format: str, number: int) -> Iterator[str]:
    root = Path(settings.store_path_root_dir)
    folder = shard_folder(root, number)
    yield from ("broker", "--supervised", "--log-format", log_format)
    yield from ("--name", f"{settings.broker_name}-{number}", "--data-dir", str(folder))
    yield from ("--cluster", settings.broker_cluster_name, "--broker-id", str(settings.broker_id))
    yield from ("--namesrv", settings.namesrv_addr or "")
    yield from ("--port", str(settings.listen_port + PORT_STRIDE * number))
    if flags.config is not None:
        yield from ("--config", str(flags.config))
    if flags.listen is not None:
        yield from ("--listen", flags.listen)
    if flags.log_level is not None:
        yield from ("--log-level", flags.log_level)
    if flags.advertise is not None:
        yield from ("--advertise", flags.advertise[0])
    for assignment in flags.assignments:
        yield from ("--set", assignment)
    for name, port in list(_ports(settings))[1:]:
        yield from ("--set", f"{name}={port + PORT_STRIDE * number}")
    if settings.store_path_commit_log:
        yield from ("--set", f"storePathCommitLog={folder / 'commitlog'}")
    if settings.auth_config_path:
        yield from ("--set", f"authConfigPath={Path(settings.auth_config_path) / folder.name}")


assert PORT_STRIDE > VIP_DISTANCE + 1, "a broker's own ports are P-2, P and P+1"
