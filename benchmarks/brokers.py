"""The two brokers, each as its own scripts or its own command would start it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.probe import seconds_to_first_send
from benchmarks.processes import stopped_at_exit, wait_for_port
from orbitmq.server.turn.listener import free_ports

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


FIRST_USER = ("root", "benchmark-root")
LOADER = ("loader", "benchmark-loader")
"""The user whom the load is from: a normal one, for whom rules are asked."""
_AUTHENTICATION = "org.apache.rocketmq.auth.authentication.provider"
_AUTHORIZATION = "org.apache.rocketmq.auth.authorization.provider"


@dataclass(slots=True)
class Running:
    """A broker that takes messages."""

    name: str
    namesrv: str
    broker: str
    processes: list[int]
    """Leaders of the sessions that it consists of; the last one is the broker, and the one that counts."""
    first_send_s: float
    """Seconds from exec to the first accepted send."""
    folder: Path
    protection: str = ""
    """See `Row.protection`."""
    slave_pid: int | None = None

    @property
    def broker_pid(self) -> int:
        """The process whose CPU time and memory are taken."""
        return self.processes[-1]

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stands still in the block: it neither works nor wakes up while the other one is measured."""
        for pid in self.processes:
            os.killpg(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in self.processes:
                os.killpg(pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kills the broker with SIGKILL; the name server goes on."""
        os.killpg(self.broker_pid, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Installed:
    """Paths of the programs."""

    jars: Path
    java: str
    orbitmq: str
    """The `orbitmq` command to measure."""
    source: Path | None = None
    """A folder with OrbitMQ's modules, none of them compiled, that goes before the installed ones."""


@dataclass(frozen=True, slots=True)
class Place:
    """Folder of a broker: it may be started there again."""

    folder: Path
    namesrv_port: int
    broker_port: int
    flush: str
    protection: str = ""
    replicated: bool = False
    slave_port: int = 0

    @classmethod
    def fresh(
        cls, folder: Path, flush: str = "ASYNC_FLUSH", protection: str = "", replicated: bool = False
    ) -> Place:
        """An empty folder and free ports."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        ports = free_ports(), free_ports(-2, 1)
        return cls(folder, *ports, flush, protection, replicated, free_ports(-2, 1))

    @property
    def role(self) -> str:
        """Options of the master's role. Apache's waits for a slave only where two copies are asked for."""
        if self.replicated:
            return "brokerRole=SYNC_MASTER\ninSyncReplicas=2\n"
        return "brokerRole=ASYNC_MASTER\n"

    @property
    def first_user(self) -> tuple[str, str] | None:
        """The super user and its secret where access is controlled."""
        return FIRST_USER if self.protection == "acl" else None

    @property
    def options(self) -> str:
        """Lines of broker.conf, the same for both brokers, that control access. TLS both take unasked."""
        if self.first_user is None:
            return ""
        name, secret = self.first_user
        return (
            "authenticationEnabled=true\nauthorizationEnabled=true\n"
            f"authenticationProvider={_AUTHENTICATION}.DefaultAuthenticationProvider\n"
            f"authenticationMetadataProvider={_AUTHENTICATION}.LocalAuthenticationMetadataProvider\n"
            f"authorizationProvider={_AUTHORIZATION}.DefaultAuthorizationProvider\n"
            f"authorizationMetadataProvider={_AUTHORIZATION}.LocalAuthorizationMetadataProvider\n"
            f'initAuthenticationUser={{"username":"{name}","password":"{secret}"}}\n'
            f'innerClientAuthenticationCredentials={{"accessKey":"{name}","secretKey":"{secret}"}}\n'
        )

    def forget_caches(self) -> None:
        """Has the kernel let go of the pages of all files. Nobody may have them mapped."""
        for path in self.folder.rglob("*"):
            if path.is_file():
                with path.open("rb") as file:
                    os.fdatasync(file.fileno())
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@contextlib.contextmanager
def running(name: str, installed: Installed, place: Place) -> Iterator[Running]:
    """Starts broker `name`, on whatever its folder holds, and stops it at the end."""
    start = _apache if name == "apache" else _orbitmq
    with start(installed, place) as broker:
        broker.protection = place.protection
        if place.first_user is not None:
            _add_loader(installed, place)
        yield broker


def _add_loader(installed: Installed, place: Place) -> None:
    """Makes the user whom the load is from, unless an earlier start has, and its rules."""
    name, secret = LOADER
    files = {"root.secret": FIRST_USER[1], "loader.secret": secret}
    for file, text in files.items():
        (place.folder / file).write_text(text)
    rules = [f"--resource={kind}:*" for kind in ("Topic", "Group", "Cluster")]
    signing = [f"--access-key={FIRST_USER[0]}", f"--secret-file={place.folder}/root.secret"]
    for command in (
        ["user", "create", name, f"--password-file={place.folder}/loader.secret"],
        ["acl", "create", name, *rules, "--action=all"],
    ):
        subprocess.run(
            [installed.orbitmq, "admin", *command, f"--namesrv=127.0.0.1:{place.namesrv_port}", *signing],
            check=True,
            stdout=subprocess.DEVNULL,
        )


@contextlib.contextmanager
def _slave_if_asked(name: str, installed: Installed, place: Place) -> Iterator[int | None]:
    if place.replicated:
        with slave(name, installed, place) as pid:
            yield pid
    else:
        yield None


@contextlib.contextmanager
def slave(name: str, installed: Installed, place: Place) -> Iterator[int]:
    """Starts the slave of the broker at `place`, and stops it at the end; gives its process id."""
    command = _apache_slave if name == "apache" else _orbitmq_slave
    with stopped_at_exit(
        _spawn(command(installed, place), place.folder / "slave.out", _environment(installed)),
        f"the slave of {TITLES[name]}",
    ) as process:
        yield process.pid


def _environment(installed: Installed) -> dict[str, str]:
    own = {} if installed.source is None else {"PYTHONPATH": str(installed.source)}
    return {**os.environ, **own}


def _apache_broker_conf(place: Place, broker_id: int) -> str:
    """conf/broker.conf as it is shipped, then where to live."""
    folder = place.folder / "store" if broker_id == 0 else place.folder / "slave"
    port = place.broker_port if broker_id == 0 else place.slave_port
    return (
        f"brokerClusterName = DefaultCluster\nbrokerName = broker-a\nbrokerId = {broker_id}\n"
        "deleteWhen = 04\nfileReservedTime = 48\n"
        f"{place.role if broker_id == 0 else 'brokerRole=SLAVE'}\nflushDiskType = {place.flush}\n"
        f"namesrvAddr = 127.0.0.1:{place.namesrv_port}\nlistenPort = {port}\nhaListenPort = {port + 1}\n"
        "bindAddress = 127.0.0.1\nbrokerIP1 = 127.0.0.1\nbrokerIP2 = 127.0.0.1\n"
        f"storePathRootDir = {folder}\nstorePathCommitLog = {folder}/commitlog\n{place.options}"
    )


def _apache_java(installed: Installed, place: Place) -> list[str]:
    return [
        installed.java,
        f"-Duser.home={place.folder}",
        f"-Drocketmq.home.dir={place.folder}",
        f"-Drocketmq.log.dir={place.folder}/logs",
        *APACHE_OPENS,
    ]


def _apache_broker(installed: Installed, place: Place, broker_id: int) -> list[str]:
    conf = place.folder / f"broker-{broker_id}.conf"
    conf.write_text(_apache_broker_conf(place, broker_id))
    gc_log = f"-Xlog:gc*:file={place.folder}/rmq_srv_gc_%p_%t.log:time,tags:filecount=5,filesize=30M"
    path = ["-cp", f"{installed.jars}/*", "org.apache.rocketmq.broker.BrokerStartup", "-c", str(conf)]
    return [*_apache_java(installed, place), *APACHE_BROKER_JVM, gc_log, *path]


def _apache_slave(installed: Installed, place: Place) -> list[str]:
    return _apache_broker(installed, place, 1)


def _orbitmq_slave(installed: Installed, place: Place) -> list[str]:
    options = place.folder / "slave.conf"
    options.write_text(f"brokerRole=SLAVE\n{place.options}")
    options.chmod(0o600)
    return [
        installed.orbitmq,
        "broker",
        f"--data-dir={place.folder}/slave",
        f"--namesrv=127.0.0.1:{place.namesrv_port}",
        f"--port={place.slave_port}",
        "--broker-id=1",
        f"--set=flushDiskType={place.flush}",
        f"--config={options}",
    ]


@contextlib.contextmanager
def _apache(installed: Installed, place: Place) -> Iterator[Running]:
    folder, namesrv_port, broker_port = place.folder, place.namesrv_port, place.broker_port
    namesrv_conf = folder / "namesrv.conf"
    namesrv_conf.write_text(
        f"listenPort={namesrv_port}\nbindAddress=127.0.0.1\n"
        f"kvConfigPath={folder}/kv.json\nconfigStorePath={folder}/namesrv.properties\n"
    )
    java = _apache_java(installed, place)
    path = ["-cp", f"{installed.jars}/*"]
    namesrv_log, broker_log = folder / "namesrv.out", folder / "broker.out"
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
        broker = _spawn(_apache_broker(installed, place, 0), broker_log)
        with (
            stopped_at_exit(broker, "Apache's broker"),
            _slave_if_asked("apache", installed, place) as slave_pid,
        ):
            took = seconds_to_first_send(
                namesrv_port, broker_port, broker, started, broker_log, place.first_user
            )
            yield Running(
                "apache",
                f"127.0.0.1:{namesrv_port}",
                f"127.0.0.1:{broker_port}",
                [namesrv.pid, *_known(slave_pid), broker.pid],
                took,
                folder,
                slave_pid=slave_pid,
            )


@contextlib.contextmanager
def _orbitmq(installed: Installed, place: Place) -> Iterator[Running]:
    log, options = place.folder / "orbitmq.out", place.folder / "broker.conf"
    options.write_text(place.role + place.options)
    options.chmod(0o600)
    command = [
        installed.orbitmq,
        "standalone",
        f"--data-dir={place.folder}/store",
        f"--namesrv-port={place.namesrv_port}",
        f"--broker-port={place.broker_port}",
        f"--set=flushDiskType={place.flush}",
        f"--config={options}",
    ]
    started = time.monotonic()
    process = _spawn(command, log, _environment(installed))
    with stopped_at_exit(process, "OrbitMQ"), _slave_if_asked("orbitmq", installed, place) as slave_pid:
        took = seconds_to_first_send(
            place.namesrv_port, place.broker_port, process, started, log, place.first_user
        )
        yield Running(
            "orbitmq",
            f"127.0.0.1:{place.namesrv_port}",
            f"127.0.0.1:{place.broker_port}",
            [*_known(slave_pid), process.pid],
            took,
            place.folder,
            slave_pid=slave_pid,
        )


def _known(pid: int | None) -> list[int]:
    return [] if pid is None else [pid]


def _spawn(
    command: list[str], log: Path, environment: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """A process in a session of its own, so that Ctrl-C reaches us alone and we end it in order."""
    with log.open("wb") as out:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=environment,
        )
