"""PostgreSQL and MariaDB on the loopback, each a process of its own, and a new database for every test.

    postgres = postgres_server()        # one for each process of tests, started by the first that asks
    url = postgres.database()           # of a new, empty database: SQLAlchemy's URL
    postgres.stop(); postgres.start()   # the database is away, and back with its data

Both refuse to run as root, so they run as the users that their Debian packages have made. `durable` makes
commits survive a power cut, for measurements. If ORBITMQ_TEST_MYSQL names the folder of a MySQL 8, with
`bin/mysqld` or `sbin/mysqld` in it, that server takes the place of MariaDB in all tests.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from orbitmq.server.turn.listener import free_ports
from tests.kit.environments import without_sanitizers
from tests.needs import need

START_SECONDS = 120.0
_STEP_SECONDS = 0.02


def postgres_program(name: str) -> str | None:
    """The path of a program of PostgreSQL's server, the newest version that is installed."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[4]))
    return str(found[-1]) if found else shutil.which(name)


def mariadb_program(name: str) -> str | None:
    """The path of a program of MariaDB's server."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def mysql_program() -> str | None:
    """The path of the MySQL server that is to stand in for MariaDB; None for MariaDB itself."""
    folder = os.environ.get("ORBITMQ_TEST_MYSQL")
    if not folder:
        return None
    return shutil.which("mysqld", path=os.pathsep.join(f"{folder}/{name}" for name in ("bin", "sbin")))


class DatabaseServer(ABC):
    """One server and its folder, which goes when the server does."""

    OWNER: ClassVar[str]
    """The user that it runs as where tests run as root."""

    def __init__(self, *, durable: bool = False) -> None:
        self.durable = durable
        self.port = free_ports()
        self.folder = Path(tempfile.mkdtemp(prefix="orbitmq-database-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count(1)
        self._user: str | None = self.OWNER if os.geteuid() == 0 else None
        if self._user is not None:
            owner = pwd.getpwnam(self._user)
            os.chown(self.folder, owner.pw_uid, owner.pw_gid)
        self._run(*self.initialisation())
        self.start()

    @abstractmethod
    def initialisation(self) -> Sequence[str]:
        """The command that makes the server's files."""

    @abstractmethod
    def command(self) -> Sequence[str]:
        """The command of the server."""

    @abstractmethod
    def execute(self, statement: str) -> None:
        """Carries out one statement as the administrator. Raises OSError or the driver's error."""

    @abstractmethod
    def url(self, database: str, driver: str = "") -> str:
        """SQLAlchemy's URL of a database, by one of the drivers of its kind."""

    def database(self, driver: str = "") -> str:
        """The URL of a new, empty database."""
        name = f"test_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name, driver)

    def start(self) -> Self:
        """Starts the server; returns when it answers."""
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=self.folder,
                env=self._environment(),
                **self._as(),
            )
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self.execute("SELECT 1")
            except Exception as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    log_text = (self.folder / "server.log").read_text(errors="replace")[-2000:]
                    raise RuntimeError(f"{type(self).__name__} does not start: {error}\n{log_text}") from None
                time.sleep(_STEP_SECONDS)
            else:
                return self

    def stop(self) -> None:
        """Stops the server: its connections end at once, and what was committed stays."""
        if self._process is not None:
            self._process.send_signal(self.stop_signal)
            self._process.wait(START_SECONDS)
            self._process = None

    @property
    def is_running(self) -> bool:
        """True between `start` and `stop`."""
        return self._process is not None

    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM

    def remove(self) -> None:
        """Ends the server and removes its folder."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def _environment(self) -> dict[str, str]:
        # A MariaDB that starts removes each temporary table that it finds: no two may share their folder.
        return {**without_sanitizers(), "TMPDIR": str(self.folder)}

    def _as(self) -> dict[str, Any]:
        if self._user is None:
            return {}
        owner = pwd.getpwnam(self._user)
        return {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self._environment(),
            **self._as(),
        )
        if done.returncode:
            raise RuntimeError(f"{command[0]}: {done.stdout[-2000:]}{done.stderr[-2000:]}")


class PostgresServer(DatabaseServer):
    """PostgreSQL, with drivers psycopg and asyncpg."""

    OWNER = "postgres"
    stop_signal = signal.SIGINT
    """Its fast shutdown: it waits for no client."""

    def initialisation(self) -> Sequence[str]:
        sync = () if self.durable else ("--no-sync",)
        program = postgres_program("initdb") or "initdb"
        return [program, "-D", str(self.folder / "data"), "-U", "orbitmq", "-A", "trust", *sync]

    def command(self) -> Sequence[str]:
        options = [
            "listen_addresses=127.0.0.1",
            f"port={self.port}",
            f"unix_socket_directories={self.folder}",
        ]
        if not self.durable:
            options += ["fsync=off", "full_page_writes=off"]
        program = postgres_program("postgres") or "postgres"
        return [program, "-D", str(self.folder / "data"), *(part for one in options for part in ("-c", one))]

    def execute(self, statement: str) -> None:
        import psycopg

        address = f"host=127.0.0.1 port={self.port} user=orbitmq dbname=postgres"
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(statement.encode())

    def url(self, database: str, driver: str = "") -> str:
        return f"postgresql+{driver or 'psycopg'}://orbitmq@127.0.0.1:{self.port}/{database}"


class MariaDbServer(DatabaseServer):
    """MariaDB, with drivers pymysql, aiomysql and asyncmy."""

    OWNER = "mysql"

    def initialisation(self) -> Sequence[str]:
        program = mariadb_program("mariadb-install-db") or "mariadb-install-db"
        return [
            program,
            "--no-defaults",
            f"--datadir={self.folder / 'data'}",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        ]

    def command(self) -> Sequence[str]:
        quick = () if self.durable else ("--innodb-flush-log-at-trx-commit=0",)
        return [
            mariadb_program("mariadbd") or "mariadbd",
            "--no-defaults",
            f"--datadir={self.folder / 'data'}",
            f"--socket={self.folder / 'socket'}",
            "--bind-address=127.0.0.1",
            f"--port={self.port}",
            "--skip-name-resolve",
            *quick,
        ]

    def execute(self, statement: str) -> None:
        import pymysql

        with pymysql.connect(host="127.0.0.1", port=self.port, user="root") as connection:
            connection.cursor().execute(statement)

    def url(self, database: str, driver: str = "") -> str:
        return f"mysql+{driver or 'pymysql'}://root@127.0.0.1:{self.port}/{database}?charset=utf8mb4"


class MySqlServer(MariaDbServer):
    """MySQL 8, with the same drivers."""

    def initialisation(self) -> Sequence[str]:
        return [
            self._program(),
            "--no-defaults",
            "--initialize-insecure",
            f"--datadir={self.folder / 'data'}",
        ]

    def command(self) -> Sequence[str]:
        # Its only user is root@localhost. Its own protocol beside would listen on every address.
        options = [one for one in super().command()[1:] if one != "--skip-name-resolve"]
        return [self._program(), *options, "--mysqlx=OFF", "--skip-log-bin"]

    def _program(self) -> str:
        found = mysql_program()
        if found is None:
            raise FileNotFoundError("ORBITMQ_TEST_MYSQL names no folder with bin/mysqld or sbin/mysqld")
        return found


def _one_for_this_process(make: Callable[[], DatabaseServer]) -> DatabaseServer:
    server = make()
    atexit.register(server.remove)
    return server


@functools.cache
def _postgres() -> DatabaseServer:
    return _one_for_this_process(PostgresServer)


@functools.cache
def _mariadb() -> DatabaseServer:
    return _one_for_this_process(MySqlServer if os.environ.get("ORBITMQ_TEST_MYSQL") else MariaDbServer)


def postgres_server() -> DatabaseServer:
    """The PostgreSQL of this process of tests. Skips the test where there is none."""
    need("postgres")
    return _postgres()


@contextlib.contextmanager
def postgres_to_stop() -> Iterator[DatabaseServer]:
    """The same for a test that stops it: afterwards it runs again."""
    server = postgres_server()
    try:
        yield server
    finally:
        if not server.is_running:
            server.start()


def mariadb_server() -> DatabaseServer:
    """The MariaDB of this process of tests, or the MySQL in its place. Skips the test where there is none."""
    if not os.environ.get("ORBITMQ_TEST_MYSQL"):
        need("mariadb")
    return _mariadb()
