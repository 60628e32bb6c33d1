"""Spark on this machine, and brokers that hold what the tests read."""

from __future__ import annotations

import itertools
import os
import shutil
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from orbitmq.net.blocking import BlockingConnection
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.requests.offset import GetMaxOffset
from orbitmq.protocol.requests.route import GetRouteinfoByTopic
from orbitmq.protocol.requests.send import SendMessage
from orbitmq.protocol.requests.topic import UpdateAndCreateTopic
from tests.needs import need
from tests.peers.apache import Apache
from tests.peers.machine import jars
from tests.peers.object_store import local_s3
from tests.spark.standalone import SparkCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from orbitmq.testing import LocalBroker

Server: TypeAlias = "Apache | LocalBroker"

_topics = itertools.count(1)


@dataclass(slots=True)
class Outgoing:
    """A message to put into a topic."""

    body: bytes
    queue_id: int = 0
    properties: dict[str, str] = field(default_factory=dict)
    flag: int = 0
    compressed: bool = False


@pytest.fixture(scope="session")
def java_for_spark() -> None:
    """Skips, loudly, where Spark has no Java to run on."""
    pytest.importorskip("pyspark")
    need("spark")


@pytest.fixture(scope="session")
def spark(java_for_spark: None) -> Iterator[SparkSession]:
    """One session for all tests, with Spark's Avro package where Maven can fetch it."""
    from orbitmq.spark import local_session

    # Of a state, each partition has files for each batch, and tests have few rows.
    conf = {"spark.sql.shuffle.partitions": "2"}
    if shutil.which("mvn"):
        avro = jars(Path(__file__).with_name("avro.xml"), "spark-avro")
        conf["spark.jars"] = ",".join(map(str, sorted(avro.glob("*.jar"))))
    session = local_session("orbitmq-tests", conf=conf)
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def spark_cluster(java_for_spark: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A standalone master with two workers, as processes: where closures, pickles and paths break.

    `.url` is its master; `.run(script, **arguments)` runs a driver on it, for this process has its own.
    """
    cluster = SparkCluster(tmp_path_factory.mktemp("cluster"))
    cluster.start()
    yield cluster
    cluster.stop()


@pytest.fixture(scope="session")
def orbitmq_server() -> Iterator[LocalBroker]:
    """OrbitMQ as a process of its own, as Spark's workers would meet it."""
    from orbitmq.testing import LocalBroker

    with LocalBroker(own_process=True, timeout_seconds=120, enablePropertyFilter="true") as server:
        yield server


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """The address of a local S3. Buckets must be the test's own."""
    with local_s3() as address:
        yield address


@pytest.fixture(params=["orbitmq", pytest.param("apache", marks=pytest.mark.nightly)])
def server(request: pytest.FixtureRequest) -> Server:
    """OrbitMQ, and at night Apache's broker; a test with `BOTH_SERVERS` has both in every run."""
    found: Server = request.getfixturevalue("orbitmq_server" if request.param == "orbitmq" else "apache")
    return found


@pytest.fixture
def topic(server: Server) -> str:
    """A new topic of four queues."""
    name = f"spark_{os.getpid()}_{next(_topics)}"
    create_topic(server, name)
    return name


@pytest.fixture
def read(spark: SparkSession, server: Server, topic: str) -> Callable[..., DataFrame]:
    """Reads the topic with the given options on top."""

    def read(schema: str | None = None, **options: Any) -> DataFrame:
        given = {"namesrv": server.namesrv, "subscribe": topic} | options
        reader = spark.read.format("orbitmq").options(**given)
        return (reader.schema(schema) if schema else reader).load()

    return read


def create_topic(server: Server, name: str, queues: int = 4) -> None:
    """Makes a topic and waits until the name server knows it."""
    with BlockingConnection(server.broker) as broker, BlockingConnection(server.namesrv) as namesrv:
        broker.call(
            UpdateAndCreateTopic(
                topic=name,
                default_topic="TBW102",
                read_queue_nums=queues,
                write_queue_nums=queues,
                perm=6,
                topic_filter_type="SINGLE_TAG",
                topic_sys_flag=0,
                order=False,
            )
        )
        deadline = time.monotonic() + 30
        while True:
            try:
                namesrv.call(GetRouteinfoByTopic(topic=name))
                return
            except BrokerRefused:
                assert time.monotonic() < deadline, f"the name server never heard of {name}"
                time.sleep(0.05)


def ends(server: Server, topic: str, queues: int = 4) -> int:
    """Number of messages the topic has had."""
    with BlockingConnection(server.broker) as broker:
        return sum(broker.call(GetMaxOffset(topic, queue)).offset for queue in range(queues))


def publish(server: Server, topic: str, messages: list[Outgoing]) -> None:
    """Sends the messages one after the other, each to its queue."""
    with BlockingConnection(server.broker) as broker:
        for message in messages:
            broker.call(
                SendMessage(
                    producer_group="spark_tests",
                    topic=topic,
                    default_topic="TBW102",
                    default_topic_queue_nums=4,
                    queue_id=message.queue_id,
                    sys_flag=int(message.compressed),
                    born_timestamp=int(time.time() * 1000),
                    flag=message.flag,
                    properties="".join(f"{k}\x01{v}\x02" for k, v in message.properties.items()),
                    body=zlib.compress(message.body) if message.compressed else message.body,
                )
            )
