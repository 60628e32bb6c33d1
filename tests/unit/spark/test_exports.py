import importlib

import pytest

pytest.importorskip("pyspark")


def test_every_name_of_the_room_is_what_it_says() -> None:
    """A name that is a module's as well would turn into the module once that is imported."""
    spark = importlib.import_module("orbitmq.spark")
    for name in spark.__all__:
        assert callable(getattr(spark, name)), name
        assert callable(getattr(spark, name)), name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = spark.nothing
