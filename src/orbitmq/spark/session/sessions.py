"""Spark sessions for jobs, demos and tests: on this machine, on a cluster, or on a Connect server."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from orbitmq.spark.errors import BadOption
from orbitmq.spark.session.java import LOGGING, prepare_environment
from orbitmq.spark.session.spark_home import quick_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def local_session(
    app_name: str = "orbitmq",
    *,
    cores: int = 2,
    memory: str = "1g",
    conf: Mapping[str, str] | None = None,
    quiet: bool = False,
) -> SparkSession:
    """A session with `cores` worker threads that listens on the loopback only and shows no web page.

    `memory` is the JVM's heap; `conf` adds or replaces Spark settings; with `quiet` the JVM writes errors
    only. Finds Java as the module `java` beside this one does. Raises JavaNotFound.
    """
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {
        "spark.driver.memory": memory,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(2 * cores),
        **(conf or {}),
    }
    return _classic(f"local[{cores}]", app_name, settings, quiet)


def spark_session(
    app_name: str = "orbitmq",
    *,
    master: str | None = None,
    remote: str | None = None,
    conf: Mapping[str, str] | None = None,
    quiet: bool = False,
) -> SparkSession:
    """A session on a cluster (`master`, as in `spark://host:7077`), or on a Connect server (`remote`, as in
    `sc://host:15002`); on this machine where neither is given.

    OrbitMQ has to be installed where the workers run, and on a Connect server's machine. Raises BadOption
    where both are given, JavaNotFound (a Connect client needs no Java).
    """
    if master and remote:
        raise BadOption("master and remote exclude each other: a Connect server has its own master")
    if remote:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.appName(app_name).remote(remote)
        for key, value in (conf or {}).items():
            builder = builder.config(key, value)
        return builder.getOrCreate()
    if master is None:
        return local_session(app_name, conf=conf, quiet=quiet)
    return _classic(master, app_name, conf or {}, quiet)


def _classic(master: str, app_name: str, conf: Mapping[str, str], quiet: bool) -> SparkSession:
    home = prepare_environment(quiet=quiet)
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        **conf,
    }
    if quiet:
        logging = f"-Dlog4j2.configurationFile={(home / LOGGING).as_uri()}"
        own = settings.get("spark.driver.extraJavaOptions", "")
        settings["spark.driver.extraJavaOptions"] = f"{logging} {own}".strip()
    builder = SparkSession.builder.master(master).appName(app_name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    with quick_home(settings):
        return builder.getOrCreate()
