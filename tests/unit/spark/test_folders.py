from pathlib import Path

import pytest

from orbitmq.spark.errors import BadOption
from orbitmq.spark.folders import local_path, remote_folder


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("lake", "lake"),
        ("/var/lake", "/var/lake"),
        ("file:///var/lake", "/var/lake"),
        ("file:/var/lake", "/var/lake"),
        (Path("/var/a lake").as_uri(), "/var/a lake"),
        ("file:///backup/?/store", "/backup/?/store"),
    ],
)
def test_a_folder_of_this_machine_has_a_path(url: str, path: str) -> None:
    assert local_path(url) == Path(path)


def test_any_other_url_is_of_elsewhere() -> None:
    assert local_path("s3://bucket/lake") is None


def test_a_url_is_a_file_system_and_a_path() -> None:
    pytest.importorskip("fsspec")
    filesystem, path = remote_folder("memory://folders/lake/", {})
    filesystem.pipe_file(f"{path}/file", b"held")
    assert remote_folder("memory://folders", {})[0].cat_file("/folders/lake/file") == b"held"


def test_a_url_that_nobody_knows_is_named() -> None:
    pytest.importorskip("fsspec")
    with pytest.raises(BadOption, match="nowhere://lake"):
        remote_folder("nowhere://lake", {})
