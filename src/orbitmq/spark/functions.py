"""Spark's functions of columns, imported at their first use: help and completion do without Spark."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.functions import *  # noqa: F403 -- as Spark has them
else:

    def __getattr__(name: str) -> object:
        from pyspark.sql import functions

        return getattr(functions, name)
