"""A standalone Spark cluster: a master and two workers, each a process, and drivers to run on it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from orbitmq.spark.session.java import find_java_home
from tests.peers.machine import LOOPBACK, REPOSITORY, Process, ended_on_error, free_port

WORKERS = 2
PATIENCE_S = 180


class SparkCluster:
    """`url` is what a session takes as its master. Each worker has one core and runs one executor."""

    def __init__(self, folder: Path) -> None:
        import pyspark

        self._folder = folder
        self._home = Path(pyspark.__file__).parent
        self.url = f"spark://{LOOPBACK}:{free_port()}"
        self._environment = {
            **os.environ,
            "JAVA_HOME": str(find_java_home()),
            "SPARK_HOME": str(self._home),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": os.environ["SPARK_SUBMIT_OPTS"],
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
        self._processes: list[Process] = []

    def start(self) -> None:
        """Returns when both workers have registered with the master."""
        host, port = self.url.removeprefix("spark://").split(":")
        web = ["--webui-port", "0"]
        master = self._process("master.Master", "master", "--host", host, "--port", port, *web)
        self._processes.append(master)
        with ended_on_error(master):
            master.wait_until(
                "the master is up", lambda: "I have been elected leader" in master.log.read_text(), PATIENCE_S
            )
        for number in range(WORKERS):
            room = ["--cores", "1", "--memory", "1g", "--work-dir", str(self._folder / f"work{number}")]
            worker = self._process("worker.Worker", f"worker{number}", "--host", host, *web, *room, self.url)
            self._processes.append(worker)
        with ended_on_error(*self._processes):
            master.wait_until(
                "the workers register",
                lambda: master.log.read_text().count("Registering worker") >= WORKERS,
                PATIENCE_S,
            )

    def _process(self, kind: str, name: str, *arguments: str) -> Process:
        launcher = str(self._home / "bin" / "spark-class")
        command = [launcher, f"org.apache.spark.deploy.{kind}", *arguments]
        return Process(command, self._folder / f"{name}.log", environment=self._environment)

    def stop(self) -> None:
        """Ends the workers, their executors and the master."""
        for process in reversed(self._processes):
            process.end(signal.SIGTERM)

    def run(self, script: str, **arguments: Any) -> Any:
        """Runs a script beside this file as a driver of its own; what it prints last, read as JSON."""
        command = [sys.executable, str(Path(__file__).parent / script), self.url, json.dumps(arguments)]
        done = subprocess.run(
            command, env=self._environment, cwd=REPOSITORY, capture_output=True, text=True, timeout=1700
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]
        return json.loads(done.stdout.strip().splitlines()[-1])
