"""The data folder of a server with access control: others than its owner stay out of it."""

from __future__ import annotations

import logging
import stat
from pathlib import Path

log = logging.getLogger(__name__)

OWNER_ONLY = 0o700


def make_private(folder: Path) -> None:
    """Makes a folder that its owner alone may enter, or takes the rights of others away.

    Messages in it are for users who may read them, and so are not for every user of the machine. A folder
    that cannot be made or changed is left as it is: the store says why it cannot be made.
    """
    try:
        folder.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
    except OSError:
        return
    mode = stat.S_IMODE(folder.stat().st_mode)
    if not mode & ~OWNER_ONLY:
        return
    try:
        folder.chmod(OWNER_ONLY)
    except OSError as error:
        log.warning("others may enter %s (mode %o), and that cannot be changed: %s", folder, mode, error)
    else:
        log.info(
            "%s had mode %o, and may be entered by its owner only now: access control is on", folder, mode
        )
