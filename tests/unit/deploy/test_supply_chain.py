"""A release is made of parts that are named by their hashes, and pods have no more rights than they use."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
HASHED = sorted((ROOT / "requirements" / "hashed").glob("*.txt"))
POD_FILES = sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))


def actions() -> Iterator[tuple[str, str]]:
    for path in WORKFLOWS:
        for found in re.finditer(r"uses: *(\S+)([^\n]*)", path.read_text()):
            if not found[1].startswith("./"):
                yield found[1], found[2].strip()


def test_actions_are_pinned_by_commit_with_the_version_beside_it() -> None:
    assert len(list(actions())) > 20
    loose = [name for name, _ in actions() if not re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}", name)]
    assert loose == []
    unnamed = [name for name, comment in actions() if not re.fullmatch(r"# v\d+\.\d+\.\d+", comment)]
    assert unnamed == [], "a commit says to nobody which version it is"
    pins: dict[str, set[str]] = {}
    for name, comment in actions():
        pins.setdefault(name.partition("@")[0], set()).add(f"{name} {comment}")
    assert all(len(found) == 1 for found in pins.values()), "one version of an action everywhere"


def images() -> set[str]:
    deploy = ROOT / "deploy"
    found = set(re.findall(r"^FROM (\S+)", (deploy / "Dockerfile").read_text(), re.MULTILINE))
    for path in [*deploy.glob("*.yaml"), *POD_FILES]:
        found |= set(re.findall(r"\bimage: *(\S+)", path.read_text()))
    return found


def test_images_are_pinned_by_digest_or_listed_with_the_reason() -> None:
    lines = (ROOT / "deploy" / "unpinned.txt").read_text().splitlines()
    listed = dict(line.split(maxsplit=1) for line in lines if not line.startswith("#"))
    loose = {name for name in images() if not re.search(r"@sha256:[0-9a-f]{64}$", name)}
    assert loose == set(listed)


def commands() -> Iterator[str]:
    """Commands of pip where a release is made."""
    texts = [(ROOT / ".github" / "workflows" / f"{name}.yml").read_text() for name in ("wheels", "release")]
    texts += [(ROOT / "deploy" / "Dockerfile").read_text(), (ROOT / "pyproject.toml").read_text()]
    for text in texts:
        yield from re.findall(r"\bpip (?:install|wheel) [^\"\n&]*", text.replace("\\\n", " "))


def test_pip_takes_nothing_without_its_hash_where_a_release_is_built() -> None:
    assert len(list(commands())) >= 6
    for command in commands():
        is_local = "--no-deps" in command and ("--no-index" in command or "--no-build-isolation" in command)
        assert "--require-hashes" in command or is_local, command
    frontend = (ROOT / "pyproject.toml").read_text()
    assert re.search(r"build-frontend = .*--no-isolation", frontend)


def pinned(text: str) -> dict[str, str]:
    return {
        name.lower().replace(".", "-").replace("_", "-"): version
        for name, version in re.findall(r"^([\w.-]+)==([\w.]+)", text, re.MULTILINE)
    }


@pytest.mark.parametrize("path", HASHED, ids=lambda path: path.name)
def test_hashed_packages_have_hashes_and_the_versions_of_the_locks(path: Path) -> None:
    text = path.read_text()
    requirements = re.split(r"\n(?=[\w.-]+==)", text)[1:]
    assert len(requirements) == len(pinned(text)) >= 4
    for requirement in requirements:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", requirement), requirement
    locked: dict[str, str] = {}
    for name in ("lock.txt", "build.txt"):
        locked |= pinned((ROOT / "requirements" / name).read_text())
    assert {
        name: version for name, version in pinned(text).items() if locked.get(name, version) != version
    } == {}


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in POD_FILES:
        for document in yaml.safe_load_all(path.read_text()):
            if "template" in document.get("spec", {}):
                yield path.name, document["spec"]["template"]["spec"]


def test_pods_have_a_seccomp_profile_and_no_token() -> None:
    found = list(pods())
    assert {name for name, _ in found} == {path.name for path in POD_FILES}
    for name, pod in found:
        assert pod["automountServiceAccountToken"] is False, name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        for container in pod["containers"]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False, name
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}, name
