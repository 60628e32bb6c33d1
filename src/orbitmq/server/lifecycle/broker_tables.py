"""The tables of a broker and their files: loaded at its start, and where snapshots of them are written."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

from orbitmq.broker.auth.table import AuthTable
from orbitmq.broker.broker import Broker
from orbitmq.broker.metadata.static_mappings import StaticMappings
from orbitmq.broker.offset.offsets import LMQ_FILE, PLAIN_FILE
from orbitmq.server.lifecycle.auth_file import load_auth
from orbitmq.server.tasks.table_writer import TableFile, load_table
from orbitmq.store import FlushFailed, MessageStore

log = logging.getLogger(__name__)


def load_tables(broker: Broker) -> dict[str, TableFile]:
    """Fills the tables from their files, and gives the files by name of the table. Raises StartError."""
    settings, store = broker.settings, broker.store
    config = Path(settings.store_path_root_dir).expanduser() / "config"
    files = {}
    for name, (file_name, snapshot, load_text) in broker.files.items():
        if name == AuthTable.NAME:
            files[name] = load_auth(settings, config, broker.auth)
            continue
        path = config / file_name
        if name in (broker.deletions.NAME, StaticMappings.NAME):
            load_table(path, load_text)
            # The next start looks for the last record of the log of then, where a topic was deleted.
            is_ahead = name == broker.deletions.NAME
            files[name] = TableFile(  # most have none
                path, _after_flush(store, snapshot) if is_ahead else snapshot, is_ours=False
            )
            continue
        found = load_table(path, load_text)
        if not found and file_name == LMQ_FILE:
            # Light message queues were switched on since.
            found = load_table(config / PLAIN_FILE, load_text)
        if not found and store.max_physical:
            log.warning("%s and its .bak are missing, though the store holds messages: begins empty", path)
        # A group's offset may not be on the disk before what it rests on, the check points of its pops.
        is_ahead = name == broker.offsets.NAME
        files[name] = TableFile(path, _after_flush(store, snapshot) if is_ahead else snapshot)
    config_path = settings.broker_config_path
    if config_path and not config_path.endswith(".toml"):
        files[broker.config.NAME] = TableFile(
            Path(config_path), partial(_rewriting, broker, config_path), is_ours=False
        )
    return files


def _after_flush(
    store: MessageStore, snapshot: Callable[[], Callable[[], str]]
) -> Callable[[], Callable[[], str]]:
    """Snapshots whose text is made once the log is on the disk as far as it went when they were taken."""

    def taken() -> Callable[[], str]:
        to_text = snapshot()

        def text() -> str:
            try:
                store.flushing.flush_now()
            except FlushFailed as error:
                raise OSError(str(error)) from error
            return to_text()

        return text

    return taken


def _rewriting(broker: Broker, path: str) -> Callable[[], str]:
    """Options changed over the network, written into the properties file that the broker was started with."""
    rewrite = broker.config.rewrite()
    return lambda: rewrite(Path(path).read_bytes())
