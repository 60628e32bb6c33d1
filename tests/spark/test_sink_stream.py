"""A stream into a topic whose driver, JVM and workers are killed between sending and committing.

`ORBITMQ_SINK_KILLS=50` kills that often, and does it on Apache's broker as well. `ORBITMQ_SINK_SEED` chooses
other moments, so that several runs make one long one.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.peers.apache import Apache
from tests.spark import stream_to_topic
from tests.spark.conftest import Server, create_topic, ends
from tests.spark.killing import kill
from tests.spark.test_sink_once import stored

LONG = "ORBITMQ_SINK_KILLS"
KILLS = int(os.environ.get(LONG, "1"))
ROWS_A_FILE = 240
PATIENCE_SECONDS = 300


@pytest.mark.nightly  # two JVMs; tasks and batches die in one session in `test_sink_once`
@pytest.mark.timeout(PATIENCE_SECONDS * (KILLS + 2))
def test_a_stream_that_is_killed_again_and_again_sends_every_row_once(
    java_for_spark: None, server: Server, tmp_path: Path
) -> None:
    if isinstance(server, Apache) and LONG not in os.environ:
        pytest.skip(f"{LONG} runs it on Apache's broker as well")
    topic = f"killed_stream_{os.getpid()}_{type(server).__name__}"
    create_topic(server, topic)
    files = tmp_path / "files"
    files.mkdir()
    rows = [f"{number:06}" for number in range(ROWS_A_FILE * (KILLS + 2))]
    for start in range(0, len(rows), ROWS_A_FILE):
        (files / f"{start:06}.txt").write_text("\n".join(rows[start : start + ROWS_A_FILE]) + "\n")
    counts_file = tmp_path / "counts.jsonl"
    arguments = [server.namesrv, str(files), topic, str(tmp_path / "checkpoint"), str(counts_file)]
    log = tmp_path / "driver.log"

    def start() -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            command = [sys.executable, stream_to_topic.__file__, *arguments]
            return subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)

    chance = random.Random(int(os.environ.get("ORBITMQ_SINK_SEED", "7")))
    for number in range(KILLS):
        driver = start()
        try:
            # Within the rows of some later file, most likely: a batch takes more than a second.
            enough = ends(server, topic) + chance.randrange(20, ROWS_A_FILE - 20)
            deadline = time.monotonic() + PATIENCE_SECONDS
            while ends(server, topic) < enough and driver.poll() is None:
                assert time.monotonic() < deadline, f"nothing comes: {log.read_text()[-3000:]}"
                time.sleep(0.05)
        finally:
            kill(driver)
        assert driver.returncode == -signal.SIGKILL, f"kill {number}: {log.read_text()[-3000:]}"
    driver = start()
    try:
        assert driver.wait(PATIENCE_SECONDS) == 0, log.read_text()[-3000:]
    finally:
        kill(driver)
    found = stored(server, topic)
    assert {row: count for row, count in found.items() if count > 1} == {}
    assert found == Counter(rows)
    lines = [json.loads(line) for line in counts_file.read_text().splitlines()]
    told = sum(line["messages"] + line["already_there"] for line in lines)
    assert told >= len(rows) - ROWS_A_FILE * KILLS, "every batch but those cut off has told its counts"
    again = sum(line["already_there"] for line in lines)
    print(f"{KILLS} kills, {again} rows found there and not sent again")
