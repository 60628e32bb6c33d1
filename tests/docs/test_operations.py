"""The operations guide is right about options."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orbitmq.cli.flags import ServerFlags
from orbitmq.cli.settings import broker_settings, standalone_settings

GUIDE = (Path(__file__).parents[2] / "docs" / "operate" / "operations.md").read_text()


def test_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    found = re.search(r"`(ORBITMQ_FLUSH_DISK_TYPE)=(SYNC_FLUSH)`", GUIDE)
    assert found is not None
    monkeypatch.setenv(found[1], found[2])
    monkeypatch.setenv("NAMESRV_ADDR", "ns:9876")
    settings = broker_settings(ServerFlags(), {})
    assert (settings.flush_disk_type, settings.namesrv_addr) == ("SYNC_FLUSH", "ns:9876")


def test_the_toml_file(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text("\n".join(re.findall(r"^```toml\n(.*?)```", GUIDE, re.MULTILINE | re.DOTALL)))
    settings = broker_settings(ServerFlags(config=file), {})
    assert settings.broker_cluster_name == "payments"
    assert settings.flush_disk_type == "SYNC_FLUSH"
    assert settings.namesrv_addr == "ns1:9876;ns2:9876"
    assert settings.file_reserved_time == 48


@pytest.mark.parametrize("way", ["--set", "environment", "toml"])
def test_the_name_server_of_a_standalone(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "namesrv.listenPort=19876" in GUIDE
    assert "ORBITMQ_NAMESRV_LISTEN_PORT" in GUIDE
    flags = ServerFlags()
    if way == "--set":
        flags = ServerFlags(assignments=("namesrv.listenPort=19876",))
    elif way == "environment":
        monkeypatch.setenv("ORBITMQ_NAMESRV_LISTEN_PORT", "19876")
    else:
        file = tmp_path / "both.toml"
        file.write_text("[namesrv]\nlistenPort = 19876\n")
        flags = ServerFlags(config=file)
    broker, namesrv = standalone_settings(flags, None, {})
    assert (namesrv.listen_port, broker.listen_port) == (19876, 10911)
