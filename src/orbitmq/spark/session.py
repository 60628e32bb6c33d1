"""A Spark session on this machine, for jobs, demos and tests that bring no cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from orbitmq.spark.java import prepare_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def local_session(
    app_name: str = "orbitmq", *, cores: int = 2, memory: str = "1g", conf: Mapping[str, str] | None = None
) -> SparkSession:
    """A session with `cores` worker threads that listens on the loopback only and shows no web page.

    `memory` is the JVM's heap; `conf` adds or replaces Spark settings. Finds Java as `orbitmq.spark.java`
    does. Raises JavaNotFound.
    """
    prepare_environment()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.memory": memory,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(2 * cores),
        **(conf or {}),
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName(app_name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
