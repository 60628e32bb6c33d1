"""SQL: temporary views, and tables of Spark's catalog, read and written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from tests.spark.conftest import Outgoing, Server, publish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from orbitmq.testing import LocalBroker

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def table(spark: SparkSession, topic: str) -> Iterator[str]:
    """The name of a table that is gone at the end."""
    yield topic
    spark.sql(f"DROP TABLE IF EXISTS {topic}")


def test_a_table_is_created_read_and_written(
    spark: SparkSession, server: Server, topic: str, table: str
) -> None:
    publish(server, topic, [Outgoing(b"one", 0, {"TAGS": "EU"}), Outgoing(b"two", 1, {"TAGS": "US"})])
    where = f"namesrv '{server.namesrv}', subscribe '{topic}'"
    spark.sql(
        f"CREATE TABLE {table} USING orbitmq OPTIONS ({where}, columns 'keys,tags,body', batchSize '1')"
    )
    assert spark.sql(f"SELECT tags, count(*) FROM {table} GROUP BY tags ORDER BY tags").collect() == [
        ("EU", 1),
        ("US", 1),
    ]
    spark.sql(f"INSERT INTO {table} (body, keys) VALUES (CAST('three' AS BINARY), 'k3')")
    spark.sql(f"INSERT INTO {table} SELECT 'k4', 'EU', CAST('four' AS BINARY)")
    rows = spark.sql(f"SELECT CAST(body AS STRING) AS body, keys, tags FROM {table} ORDER BY body").collect()
    assert [tuple(row) for row in rows] == [
        ("four", "k4", "EU"),
        ("one", None, "EU"),
        ("three", "k3", None),
        ("two", None, "US"),
    ]
    # A statement's own options come on top.
    assert spark.sql(f"SELECT * FROM {table} WITH (tags 'EU')").count() == 2


@pytest.mark.parametrize("server", ["orbitmq"], indirect=True)
def test_properties_make_a_table_as_well_and_a_stream_follows_it(
    spark: SparkSession, server: Server, topic: str, table: str
) -> None:
    publish(server, topic, [Outgoing(b"one")])
    properties = f"'namesrv'='{server.namesrv}', 'subscribe'='{topic}', 'columns'='body,queueOffset'"
    spark.sql(f"CREATE TABLE {table} USING orbitmq TBLPROPERTIES ({properties})")
    assert spark.table(table).columns == ["body", "queueOffset"]
    assert spark.readStream.table(table).isStreaming
    # Rows of a table may go to another topic: where the write says so, they go there.
    with pytest.raises(Exception, match="does not exist"):
        spark.table(table).write.format("orbitmq").option("namesrv", server.namesrv).option(
            "topic", f"{topic}_none"
        ).mode("append").save()
    assert spark.table(table).count() == 1


@pytest.mark.parametrize("server", ["orbitmq"], indirect=True)
def test_a_table_of_columns_says_what_spark_does_not_tell(
    spark: SparkSession, server: Server, topic: str, table: str
) -> None:
    publish(server, topic, [Outgoing(b"one")])
    where = f"namesrv '{server.namesrv}', subscribe '{topic}'"
    spark.sql(f"CREATE TABLE {table} (body BINARY) USING orbitmq OPTIONS ({where})")
    with pytest.raises(Exception, match="create it without columns"):
        spark.sql(f"SELECT * FROM {table}").collect()
    assert spark.sql(f"SELECT * FROM {table} WITH ({where})").count() == 1


@pytest.mark.parametrize("server", ["orbitmq"], indirect=True)
def test_what_a_table_cannot_have_is_told_when_it_is_made(
    spark: SparkSession, server: Server, topic: str, table: str
) -> None:
    def create(options: str) -> None:
        spark.sql(f"CREATE TABLE {table} USING orbitmq OPTIONS (namesrv '{server.namesrv}', {options})")

    with pytest.raises(Exception, match="did you mean subscribe"):
        create(f"subscibe '{topic}'")
    with pytest.raises(Exception, match="secretKey would stand in Spark's catalog"):
        create(f"subscribe '{topic}', accessKey 'a', secretKey 'b'")


@pytest.mark.parametrize("server", ["orbitmq"], indirect=True)
def test_a_view_is_read_and_written(spark: SparkSession, server: Server, topic: str) -> None:
    options = f"namesrv '{server.namesrv}', topic '{topic}'"
    view = f"{topic}_view"
    spark.sql(f"CREATE TEMPORARY VIEW {view} (body BINARY, keys STRING) USING orbitmq OPTIONS ({options})")
    spark.sql(f"INSERT INTO {view} VALUES (CAST('one' AS BINARY), 'k1')")
    assert [(bytes(row.body), row["keys"]) for row in spark.table(view).collect()] == [(b"one", "k1")]
    spark.catalog.dropTempView(view)


@pytest.mark.parametrize("server", ["orbitmq"], indirect=True)
def test_a_table_with_a_location_is_of_a_store_s_files(
    spark: SparkSession, server: LocalBroker, topic: str, table: str
) -> None:
    publish(server, topic, [Outgoing(b"one", 0, {"TAGS": "EU"}), Outgoing(b"two", 1, {"TAGS": "US"})])

    def create(options: str) -> None:
        spark.sql(f"CREATE TABLE {table} USING orbitmq OPTIONS ({options}) LOCATION '{server.data_dir}'")

    with pytest.raises(Exception, match="unknown option startingOffsets for a store that is read from its"):
        create(f"subscribe '{topic}', startingOffsets 'earliest'")
    create(f"subscribe '{topic}', columns 'queueId,tags,body'")
    everything = f"SELECT queueId, tags, CAST(body AS STRING) FROM {table} ORDER BY queueId"
    assert spark.sql(everything).collect() == [(0, "EU", "one"), (1, "US", "two")]
    assert spark.sql(f"SELECT body FROM {table} WITH (tags 'EU')").count() == 1
    with pytest.raises(Exception, match="store's files, which are read only"):
        spark.sql(f"INSERT INTO {table} VALUES (0, 'EU', CAST('three' AS BINARY))")
    spark.sql(f"DROP TABLE {table}")
    assert (server.data_dir / "commitlog").is_dir(), "the files are the broker's, not Spark's"


@pytest.mark.parametrize("server", ["orbitmq"], indirect=True)
def test_a_data_frame_cannot_be_written_to_a_table_of_a_topic_but_a_topic_to_a_table_of_files(
    spark: SparkSession, server: Server, topic: str, table: str
) -> None:
    publish(server, topic, [Outgoing(b"one")])
    options = f"namesrv '{server.namesrv}', subscribe '{topic}', columns 'body'"
    spark.sql(f"CREATE TABLE {table} USING orbitmq OPTIONS ({options})")
    more = spark.createDataFrame([(bytearray(b"two"),)], "body binary")
    for write in (
        lambda: more.write.format("orbitmq").mode("append").saveAsTable(table),
        lambda: more.write.insertInto(table),
        lambda: more.writeTo(table).append(),
    ):
        with pytest.raises(Exception, match="neither a column topic nor the option topic"):
            write()
    assert spark.table(table).count() == 1
    copy = f"{table}_copy"
    try:
        spark.table(table).write.saveAsTable(copy)
        assert [bytes(row.body) for row in spark.table(copy).collect()] == [b"one"]
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {copy}")
