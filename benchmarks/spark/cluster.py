"""A standalone Spark cluster of real processes on this machine: one master, workers of one core each."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.processes import stopped_at_exit, wait_for_port
from orbitmq.server.turn.listener import free_ports
from orbitmq.spark.session.java import prepare_environment


@contextlib.contextmanager
def standalone_cluster(workers: int, folder: Path) -> Iterator[str]:
    """Starts them, gives the address of the master, and stops them at the end."""
    import pyspark

    prepare_environment()
    folder.mkdir(parents=True, exist_ok=True)
    home = Path(pyspark.__path__[0])
    port = free_ports()
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_MASTER_HOST": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    master = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    commands = [
        [f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"],
        *[
            [f"{deploy}.worker.Worker", "--cores", "1", "--memory", "1g", "--webui-port", "0",
             "--work-dir", str(folder / f"work-{n}"), master]
            for n in range(workers)
        ],
    ]  # fmt: skip
    with contextlib.ExitStack() as stack:
        for number, command in enumerate(commands):
            log = folder / f"{number}.out"
            with log.open("wb") as out:
                process = subprocess.Popen(
                    [str(home / "bin" / "spark-class"), *command],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    start_new_session=True,
                )
            stack.enter_context(stopped_at_exit(process, "Spark"))
            if number == 0:
                wait_for_port(port, process, log)
            else:
                _wait_for_text(log, "Successfully registered with master", process)
        yield master


def _wait_for_text(log: Path, text: str, process: subprocess.Popen[bytes], limit_s: float = 300) -> None:
    deadline = time.monotonic() + limit_s
    while text not in log.read_text(errors="replace"):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"no worker: see {log}")
        time.sleep(0.1)
