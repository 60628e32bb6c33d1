"""The two brokers, each as its own scripts or its own command would start it."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.probe import seconds_to_first_send
from benchmarks.processes import stopped_at_exit, wait_for_port
from orbitmq.server.listener import free_ports

NAMES = ("apache", "orbitmq")
TITLES = {"apache": "Apache RocketMQ 5.4.0", "orbitmq": "OrbitMQ"}

APACHE_OPENS = [
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
]
"""Java 17 needs to be told; Apache's scripts are silent on it."""

APACHE_G1 = [
    "-XX:+UseG1GC",
    "-XX:G1HeapRegionSize=16m",
    "-XX:G1ReservePercent=25",
    "-XX:InitiatingHeapOccupancyPercent=30",
    "-XX:SoftRefLRUPolicyMSPerMB=0",
]

APACHE_BROKER_JVM = [
    "-server",
    "-Xms1g",
    "-Xmx1g",
    *APACHE_G1,
    "-XX:-OmitStackTraceInFastThrow",
    "-XX:+AlwaysPreTouch",
    "-XX:MaxDirectMemorySize=15g",
    "-XX:-UseLargePages",
    "-XX:-UseBiasedLocking",
    "-XX:+IgnoreUnrecognizedVMOptions",
]
"""bin/runbroker.sh, with 1 GiB of heap for its 8 GiB."""

APACHE_NAMESRV_JVM = [
    "-server",
    "-Xms256m",
    "-Xmx256m",
    "-XX:MetaspaceSize=128m",
    "-XX:MaxMetaspaceSize=320m",
    *APACHE_G1,
    "-XX:-OmitStackTraceInFastThrow",
    "-XX:-UseLargePages",
]
"""bin/runserver.sh, with less heap. Its CPU and memory are not counted."""


@dataclass(frozen=True, slots=True)
class Running:
    """A broker that takes messages."""

    name: str
    namesrv: str
    broker_pid: int
    first_send_s: float
    """Seconds from exec to the first accepted send."""


@dataclass(frozen=True, slots=True)
class Installed:
    """Where the programs are."""

    jars: Path
    java: str
    orbitmq: str
    """The `orbitmq` command to measure."""


@contextlib.contextmanager
def running(name: str, installed: Installed, folder: Path) -> Iterator[Running]:
    """Starts broker `name` with an empty store in `folder`; stops it and removes the folder at the end."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    start = _apache if name == "apache" else _orbitmq
    try:
        with start(installed, folder) as broker:
            yield broker
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _apache(installed: Installed, folder: Path) -> Iterator[Running]:
    namesrv_port = free_ports()
    broker_port = free_ports(-2, 1)
    namesrv_conf = folder / "namesrv.conf"
    namesrv_conf.write_text(
        f"listenPort={namesrv_port}\nbindAddress=127.0.0.1\n"
        f"kvConfigPath={folder}/kv.json\nconfigStorePath={folder}/namesrv.properties\n"
    )
    broker_conf = folder / "broker.conf"
    # conf/broker.conf as it is shipped, then where to live
    broker_conf.write_text(
        "brokerClusterName = DefaultCluster\nbrokerName = broker-a\nbrokerId = 0\ndeleteWhen = 04\n"
        "fileReservedTime = 48\nbrokerRole = ASYNC_MASTER\nflushDiskType = ASYNC_FLUSH\n"
        f"namesrvAddr = 127.0.0.1:{namesrv_port}\nlistenPort = {broker_port}\n"
        "bindAddress = 127.0.0.1\nbrokerIP1 = 127.0.0.1\nbrokerIP2 = 127.0.0.1\n"
        f"storePathRootDir = {folder}/store\nstorePathCommitLog = {folder}/store/commitlog\n"
    )
    java = [
        installed.java,
        f"-Duser.home={folder}",
        f"-Drocketmq.home.dir={folder}",
        f"-Drocketmq.log.dir={folder}/logs",
        *APACHE_OPENS,
    ]
    path = ["-cp", f"{installed.jars}/*"]
    namesrv_log, broker_log = folder / "namesrv.out", folder / "broker.out"
    gc_log = f"-Xlog:gc*:file={folder}/rmq_srv_gc_%p_%t.log:time,tags:filecount=5,filesize=30M"
    namesrv = _spawn(
        [
            *java,
            *APACHE_NAMESRV_JVM,
            *path,
            "org.apache.rocketmq.namesrv.NamesrvStartup",
            "-c",
            str(namesrv_conf),
        ],
        namesrv_log,
    )
    with stopped_at_exit(namesrv, "Apache's name server"):
        wait_for_port(namesrv_port, namesrv, namesrv_log)
        # The name server is up already: only the broker's own start counts.
        started = time.monotonic()
        broker = _spawn(
            [
                *java,
                *APACHE_BROKER_JVM,
                gc_log,
                *path,
                "org.apache.rocketmq.broker.BrokerStartup",
                "-c",
                str(broker_conf),
            ],
            broker_log,
        )
        with stopped_at_exit(broker, "Apache's broker"):
            took = seconds_to_first_send(namesrv_port, broker_port, broker, started, broker_log)
            yield Running("apache", f"127.0.0.1:{namesrv_port}", broker.pid, took)


@contextlib.contextmanager
def _orbitmq(installed: Installed, folder: Path) -> Iterator[Running]:
    namesrv_port = free_ports()
    broker_port = free_ports(-2, 1)
    log = folder / "orbitmq.out"
    command = [
        installed.orbitmq,
        "standalone",
        f"--data-dir={folder}/store",
        f"--namesrv-port={namesrv_port}",
        f"--broker-port={broker_port}",
    ]
    started = time.monotonic()
    process = _spawn(command, log)
    with stopped_at_exit(process, "OrbitMQ"):
        took = seconds_to_first_send(namesrv_port, broker_port, process, started, log)
        yield Running("orbitmq", f"127.0.0.1:{namesrv_port}", process.pid, took)


def _spawn(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    """A process in a session of its own, so that Ctrl-C reaches us alone and we end it in order."""
    with log.open("wb") as out:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
