import logging
from pathlib import Path

import pytest

from orbitmq import __version__, compiled
from orbitmq.broker.options import BROKER_TABLE
from orbitmq.cli.app import run
from orbitmq.cli.starting import (
    STORE_NAMES,
    ForeignFolder,
    announce,
    broker_listeners,
    check_data_folder,
    namesrv_listeners,
    warn_unreachable,
)
from orbitmq.nameserver.options import NAMESRV_TABLE
from orbitmq.options import Layer


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_the_first_lines_name_version_options_and_listeners(caplog: pytest.LogCaptureFixture) -> None:
    given = {
        "flushDiskType": "SYNC_FLUSH",
        "listenPort": "10911",  # the default
        "initAuthenticationUser": '{"username":"root","password":"hush"}',
        "healthPort": "8081",
        "metricsExporterType": "PROM",
    }
    broker = BROKER_TABLE.load([Layer("broker.conf", given, lines={"flushDiskType": 7})])
    namesrv = NAMESRV_TABLE.load([Layer("--set", {"listenPort": "19876"})])
    with caplog.at_level(logging.INFO):
        announce(
            [("", BROKER_TABLE, broker), ("namesrv.", NAMESRV_TABLE, namesrv)],
            [*namesrv_listeners(namesrv), *broker_listeners(broker)],
        )
    first, *_, options, listeners = lines(caplog)
    assert first.startswith(f"OrbitMQ {__version__}, Python 3.")
    assert "hot modules compiled" in first
    assert "flushDiskType=SYNC_FLUSH (broker.conf line 7)" in options
    assert "namesrv.listenPort=19876 (--set)" in options
    assert "initAuthenticationUser=******" in options
    assert "hush" not in options
    assert "10911" not in options
    assert listeners == (
        "listeners: name server 127.0.0.1:19876, broker 127.0.0.1:10911, broker (VIP) 127.0.0.1:10909, "
        "HA (for slaves) 127.0.0.1:10912, "
        "metrics 127.0.0.1:5557, health 127.0.0.1:8081"
    )


def test_a_start_without_options_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        announce([("", BROKER_TABLE, BROKER_TABLE.load([]))], ["broker x"])
    assert "options that differ from their defaults: none" in lines(caplog)


@pytest.mark.parametrize(("share", "said"), [(1.0, "compiled"), (0.5, "interpreted"), (0.0, "interpreted")])
def test_an_interpreted_install_says_so(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    share: float,
    said: str,
) -> None:
    hot: dict[str, Path | None] = {
        "a": Path("a.so") if share else None,
        "b": Path("b.so") if share == 1 else None,
    }
    monkeypatch.setattr(compiled, "hot_modules", lambda: hot)
    monkeypatch.setattr("orbitmq.cli.starting.hot_modules", lambda: hot)
    assert run(["--version"]) == 0
    assert f", {said}" in capsys.readouterr().out
    announce([], [])
    warned = any("interpreted" in line for line in lines(caplog))
    assert warned == (share < 1)


def test_folders_that_may_be_used(tmp_path: Path) -> None:
    check_data_folder(tmp_path, STORE_NAMES, [])  # empty
    check_data_folder(tmp_path / "none", STORE_NAMES, [])
    (tmp_path / "lost+found").mkdir()  # of a new file system
    (tmp_path / "ready").touch()
    check_data_folder(tmp_path, STORE_NAMES, [tmp_path / "ready", None])
    with pytest.raises(ForeignFolder, match="found ready"):
        check_data_folder(tmp_path, STORE_NAMES, [])
    (tmp_path / "config").mkdir()  # many programs have a folder of that name
    with pytest.raises(ForeignFolder):
        check_data_folder(tmp_path, STORE_NAMES, [])
    (tmp_path / "config" / "topics.json").touch()
    check_data_folder(tmp_path, STORE_NAMES, [])


def test_a_store_of_dledger_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    """But for its log, all of it looks like a store of others."""
    for name in ("config", "consumequeue", "dledger-n0/data", "commitlog"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "config" / "topics.json").touch()
    with pytest.raises(ForeignFolder, match="DLedger"):
        check_data_folder(tmp_path, STORE_NAMES, [])
    (tmp_path / "commitlog" / "00000000000000000000").touch()  # of before, or of afterwards
    check_data_folder(tmp_path, STORE_NAMES, [])


@pytest.mark.parametrize(
    ("given", "is_warned"),
    [
        ({"namesrvAddr": "ns1:9876"}, True),
        ({"namesrvAddr": "127.0.0.1:9876;10.0.0.7:9876"}, True),
        ({"namesrvAddr": "ns1:9876", "bindAddress": "0.0.0.0", "brokerIP1": "127.0.0.1"}, True),
        ({"namesrvAddr": "ns1:9876", "bindAddress": "0.0.0.0"}, False),
        ({"namesrvAddr": "ns1:9876", "brokerIP1": "10.0.0.8"}, False),
        ({"namesrvAddr": "localhost:9876;127.0.0.2:9876;[::1]:9876"}, False),
    ],
)
def test_a_broker_that_other_hosts_cannot_reach_is_warned_of(
    given: dict[str, str], is_warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    warn_unreachable(BROKER_TABLE.load([Layer("--set", given)]))
    assert ["bindAddress=0.0.0.0" in line for line in lines(caplog)] == [True] * is_warned
