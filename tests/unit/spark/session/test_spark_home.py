import os
import site
import sys
from pathlib import Path

import pyspark
import pytest

from orbitmq.spark.session.spark_home import quick_home


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(site, "getsitepackages", lambda: [str(Path(pyspark.__path__[0]).parent)])


def test_the_home_has_spark_without_the_archive_that_is_slow_to_import(tmp_path: Path) -> None:
    for _ in range(2):  # the folder is made once, and is there the next time
        with quick_home({}):
            home = Path(os.environ["SPARK_HOME"])
            assert home.is_relative_to(tmp_path)
            assert (home / "bin" / "spark-submit").is_file()
            assert list((home / "jars").glob("spark-sql_*.jar"))
            assert not (home / "python" / "lib" / "pyspark.zip").exists()
        assert "SPARK_HOME" not in os.environ


def test_a_spark_that_somebody_chose_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    with quick_home({}):
        assert os.environ["SPARK_HOME"] == "/opt/spark"
    assert os.environ["SPARK_HOME"] == "/opt/spark"


def test_workers_of_another_python_keep_the_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    with quick_home({"spark.pyspark.python": "/opt/python"}):
        assert "SPARK_HOME" not in os.environ
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    with quick_home({}):
        assert "SPARK_HOME" not in os.environ


def test_a_spark_that_workers_may_not_find_keeps_the_archive(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(site, "getsitepackages", lambda: [str(tmp_path)])
    with quick_home({}):
        assert "SPARK_HOME" not in os.environ


def test_a_home_that_cannot_be_made_changes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "taken"))
    with quick_home({}):
        assert "SPARK_HOME" not in os.environ
