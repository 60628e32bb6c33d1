"""The file of users and rules: where it is, and that nothing in it stays in clear."""

from __future__ import annotations

import logging
from pathlib import Path

from orbitmq.broker.auth.encryption import Sealing, Unsealable
from orbitmq.broker.auth.options import AuthSettings
from orbitmq.broker.auth.table import AuthTable, may_hold_clear_secrets
from orbitmq.extras import install
from orbitmq.server.errors import StartError
from orbitmq.server.tasks.table_writer import TableFile, load_table
from orbitmq.store.config_files import backup_path, write_text
from orbitmq.store.files import RealDisk
from orbitmq.store.snapshot import KEY_FILE

log = logging.getLogger(__name__)


def load_auth(settings: AuthSettings, config: Path, table: AuthTable) -> TableFile:
    """Fills the table from its file, which is in `config` unless an option names another folder, and seals
    what an earlier version, or one without `cryptography`, left in clear. Raises StartError.
    """
    path = Path(settings.auth_config_path or config).expanduser() / table.FILE
    key = Path(settings.auth_key_path).expanduser() if settings.auth_key_path else path.with_name(KEY_FILE)
    table.sealing = sealing = Sealing(path, key)
    # Secrets are for their owner alone; without a user there is no file.
    file = TableFile(path, table.snapshot, is_ours=False, mode=0o600)
    is_asked = settings.authentication_enabled or settings.authorization_enabled
    try:
        load_table(path, table.load_text)
        in_clear = any(map(_may_be_in_clear, (path, backup_path(path))))
        if is_asked or table.has_users or in_clear:
            if sealing.prepare():
                if in_clear:
                    _write_sealed(file)
            elif is_asked:
                log.warning(
                    "users' secrets are stored in clear in %s: to have them sealed, %s",
                    path,
                    install("auth"),
                )
    except Unsealable as error:
        # Not a reason to take the .bak: with another key it might open, and be of long ago.
        raise StartError(str(error)) from None
    return file


def _may_be_in_clear(path: Path) -> bool:
    try:
        return may_hold_clear_secrets(RealDisk().content(path).decode("utf-8", "replace"))
    except OSError:
        return False  # A file that no other user can read gives nothing away.


def _write_sealed(file: TableFile) -> None:
    """Twice: the first write makes the `.bak` of what is in clear."""
    try:
        for _ in range(2):
            write_text(file.path, file.snapshot()(), file.mode)
    except OSError as error:
        log.warning(
            "%s or its .bak still hold secrets in clear: %s; the next start tries again", file.path, error
        )
    else:
        log.info("sealed the secrets in %s and its .bak", file.path)
