"""`orbitmq` that notes which requests it served, and in which languages their senders are written.

    python -m tests.peers.recording FILE standalone --data-dir ...

Tests start it in place of `orbitmq` with ORBITMQ_PEERS_RECORD=1. The notes become `docs/seen.json`, and that
a column of the request codes in `docs/reference/compatibility.md`.
"""

from __future__ import annotations

import atexit
import json
import sys
from pathlib import Path
from typing import Any

from orbitmq.cli import main
from orbitmq.protocol.codes import LanguageCode
from orbitmq.server.turn.dispatcher import Dispatcher

SEEN = Path(__file__).parents[2] / "docs" / "seen.json"
PEERS = {"remoting": "java", "files": "java", "mqadmin": "mqadmin", "go4": "go"}
"""Suite of the judge -> the name of its client in the documents."""


def record(notes: Path) -> None:
    """From now on notes every served request; `notes` is written when the process ends."""
    served: set[tuple[int, str]] = set()
    answer_or_wait = Dispatcher._answer_or_wait

    def noting(self: Dispatcher, connection: Any, command: Any, result: Any, *more: Any) -> None:
        served.add((command.code, LanguageCode(command.language).name))
        answer_or_wait(self, connection, command, result, *more)

    Dispatcher._answer_or_wait = noting  # type: ignore[method-assign]
    atexit.register(lambda: notes.write_text(json.dumps(sorted(served))))


def remember(notes: Path, suite: str) -> None:
    """Adds one run's notes to `docs/seen.json`: what the suite's client sent, not its Java admin client."""
    language = "GO" if suite == "go4" else "JAVA"
    seen = {int(code): set(who) for code, who in json.loads(SEEN.read_text()).items()}
    for code, sender in json.loads(notes.read_text()):
        if sender == language:
            seen.setdefault(code, set()).add(PEERS[suite])
    rows = ",\n".join(f'  "{code}": {json.dumps(sorted(seen[code]))}' for code in sorted(seen))
    SEEN.write_text(f"{{\n{rows}\n}}\n")


if __name__ == "__main__":
    record(Path(sys.argv.pop(1)))
    main()
