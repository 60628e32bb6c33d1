"""Retention of log segments: by age at set hours, by disk use, or on request.

Never the newest one. Consume queues and index files follow the log.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from orbitmq.store.files import Disk
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.log.segment import Segment
from orbitmq.store.options import StoreOptions

log = logging.getLogger(__name__)

ROUNDS_BY_HAND = 20
"""Rounds that one request by hand is good for."""
HOUR_MS = 3_600_000


@dataclass(eq=False, repr=False)
class Retention:
    """Looks at age and disk once per round.

    Everything is changed by the thread of the rounds; others read it, and leave word of what they want
    (`ask`, `follow_again`, `keep_from`).
    """

    _options: StoreOptions
    _disk: Disk
    _log: CommitLog
    _follow: Callable[[int], None]
    _pause: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        self._asked = False
        self._asked_to_follow = False
        self._rounds_by_hand = 0
        self._followed = self._log.min_physical
        self._full_since: dict[int, int] = {}
        """When a round first saw the segments full, by their starts. 0: before the first one."""
        self._has_looked = False
        self.disk_is_full = False
        """Disk use is above diskSpaceWarningLevelRatio: no messages are taken."""
        self.is_pressed = False
        """Disk use is above diskSpaceCleanForciblyRatio: segments may go that still matter."""
        self.keep_from: int | None = None
        """Physical offset of the oldest message whose work is not done, such as a delayed one that waits."""

    def ask(self) -> None:
        """Has expired segments deleted by the next rounds, whatever the hour."""
        self._asked = True

    def follow_again(self) -> None:
        """Has the next round look at queues and index, even if the log lost nothing."""
        self._asked_to_follow = True

    def used_ratio(self) -> float:
        """Used part of the disk of the commit log, 0 to 1."""
        total, free = self._disk.space(self._log.folder)
        return 1 - free / total if total else 0.0

    def run(self, now_ms: int) -> None:
        if self._asked:
            self._asked = False
            self._rounds_by_hand = ROUNDS_BY_HAND
        if self._asked_to_follow:
            self._asked_to_follow = False
            self._followed = -1
        self._note_segments(now_ms)
        used = self.used_ratio() * 100
        options = self._options
        self._note_full(used > options.disk_space_warning_level_ratio)
        scarce = used > min(options.disk_space_clean_forcibly_ratio, options.disk_space_warning_level_ratio)
        forced = options.clean_file_forcibly_enable and scarce
        # The newest segment never goes: while there is no other one, nothing is in danger.
        self.is_pressed = forced and len(self._log.segments) > 1
        by_hand = self._rounds_by_hand > 0
        if by_hand:
            self._rounds_by_hand -= 1
        if by_hand or forced or used > options.disk_max_used_space_ratio or self._is_hour(now_ms):
            self._remove(now_ms, forced)
        if self._log.min_physical > self._followed:
            self._followed = self._log.min_physical
            self._follow(self._followed)

    def _note_segments(self, now_ms: int) -> None:
        known, seen_ms = self._full_since, now_ms if self._has_looked else 0
        self._full_since = {
            segment.start: known.get(segment.start, seen_ms) for segment in self._log.segments[:-1]
        }
        self._has_looked = True

    def _written_ms(self, segment: Segment) -> int:
        """Time of the last write to a segment.

        Files have it by the machine's clock, which may be set: those written after it was set back by an hour
        would go an hour early. Segments written since the start are dated by our own clock.
        """
        return self._full_since.get(segment.start, 0) or segment.file.modified_ms()

    def _note_full(self, full: bool) -> None:
        if full != self.disk_is_full:
            if full:
                log.error("the disk of %s is too full: no messages are taken", self._log.folder)
            else:
                log.warning("the disk of %s has room again", self._log.folder)
            self.disk_is_full = full

    def _is_hour(self, now_ms: int) -> bool:
        hour = datetime.fromtimestamp(now_ms / 1000).hour
        return any(
            word.strip().isdigit() and int(word) == hour for word in self._options.delete_when.split(";")
        )

    def _remove(self, now_ms: int, forced: bool) -> None:
        """Removes from the oldest on: at most deleteFileBatchMax, with a pause between two."""
        oldest_kept_ms = now_ms - self._options.file_reserved_time * HOUR_MS
        for number in range(self._options.delete_file_batch_max):
            segments = self._log.segments
            if len(segments) < 2 or not (forced or self._written_ms(segments[0]) < oldest_kept_ms):
                return
            if self.keep_from is not None and segments[1].start > self.keep_from:
                if not forced:
                    return
                log.error("%s holds messages that still wait to be delivered", segments[0].file.path)
            if number:
                self._pause(self._options.delete_commit_log_files_interval / 1000)
            path = segments[0].file.path
            self._log.remove_first()
            log.info("%s removed: %s", path, "the disk is full" if forced else "its time is over")
            if forced and self.used_ratio() * 100 <= self._options.disk_space_clean_forcibly_ratio:
                return
