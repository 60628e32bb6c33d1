"""Settings of a server that follow from flags, --set, environment, file and defaults."""

from pathlib import Path

import pytest

from orbitmq.broker.options import BrokerSettings
from orbitmq.cli.flags import ServerFlags
from orbitmq.cli.settings import broker_settings, namesrv_settings, standalone_settings
from orbitmq.nameserver.options import NamesrvSettings
from orbitmq.options import OptionError, RefusedValue, UnknownOption


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    return monkeypatch


def broker(config: Path | None = None, *assignments: str, **given: object) -> BrokerSettings:
    flags = ServerFlags(config=config, assignments=assignments)
    return broker_settings(flags, {"namesrvAddr": "127.0.0.1:9876", **given})


def standalone(
    *assignments: str,
    config: Path | None = None,
    listen: str | None = None,
    advertise: tuple[str, int | None] | None = None,
) -> tuple[BrokerSettings, NamesrvSettings]:
    flags = ServerFlags(listen, advertise, config, assignments)
    return standalone_settings(flags, None, {})


def test_defaults() -> None:
    settings, namesrv = standalone()
    assert (settings.bind_address, settings.listen_port) == ("127.0.0.1", 10911)
    assert (namesrv.bind_address, namesrv.listen_port) == ("127.0.0.1", 9876)
    assert (settings.broker_name, settings.broker_cluster_name, settings.broker_id) == (
        "broker-a",
        "DefaultCluster",
        0,
    )
    assert settings.store_path_root_dir == str(Path.home() / "store")
    assert settings.namesrv_addr is None


def test_flag_over_set_over_environment_over_file_over_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "broker.conf"
    config.write_text("brokerName=from-file\n")
    assert broker(config).broker_name == "from-file"
    monkeypatch.setenv("ORBITMQ_BROKER_NAME", "from-environment")
    assert broker(config).broker_name == "from-environment"
    assert broker(config, "brokerName=from-set").broker_name == "from-set"
    assert broker(config, "brokerName=from-set", brokerName="from-flag").broker_name == "from-flag"


def test_apaches_own_variable_is_the_weakest_and_only_for_brokers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "env:9876")
    assert broker_settings(ServerFlags(), {}).namesrv_addr == "env:9876"
    config = tmp_path / "broker.toml"
    config.write_text('namesrv_addr = "file:9876"\n')
    assert broker_settings(ServerFlags(config=config), {}).namesrv_addr == "file:9876"
    assert namesrv_settings(ServerFlags(), {}).listen_port == 9876


def test_one_file_for_both_servers(tmp_path: Path) -> None:
    config = tmp_path / "both.toml"
    config.write_text(
        'store_path_root_dir = "/data"\ndeleteTopicWithBrokerRegistration = true\n'
        "[broker]\nlisten_port = 20911\n[namesrv]\nlisten_port = 19876\n"
    )
    settings, namesrv = standalone(config=config)
    assert (settings.store_path_root_dir, settings.listen_port) == ("/data", 20911)
    assert (namesrv.listen_port, namesrv.delete_topic_with_broker_registration) == (19876, True)
    assert settings.broker_config_path is None


def test_set_for_the_name_server_of_a_standalone() -> None:
    settings, namesrv = standalone("namesrv.listenPort=19876", "listenPort=20911", "enableTopicList=false")
    assert (settings.listen_port, namesrv.listen_port, namesrv.enable_topic_list) == (20911, 19876, False)


def test_a_listen_address_counts_for_both_servers() -> None:
    for settings, namesrv in (standalone(listen="0.0.0.0"), standalone("bindAddress=0.0.0.0")):
        assert settings.bind_address == namesrv.bind_address == "0.0.0.0"


def test_tls_counts_for_both_servers_and_between_them() -> None:
    settings, namesrv = standalone("tls.server.mode=enforcing", "tls.protocols=TLSv1.3")
    assert (settings.tls_server_mode, settings.tls_protocols) == ("enforcing", "TLSv1.3")
    assert (namesrv.tls_server_mode, namesrv.tls_protocols) == ("enforcing", "TLSv1.3")
    assert settings.tls_enable
    settings, namesrv = standalone("tls.server.mode=enforcing", "namesrv.tls.server.mode=permissive")
    assert (settings.tls_server_mode, namesrv.tls_server_mode) == ("enforcing", "permissive")
    assert not settings.tls_enable


def test_other_name_servers_come_to_ones_own() -> None:
    settings, _ = standalone("namesrvAddr=other:9876;127.0.0.1:9876")
    assert settings.namesrv_addr == "127.0.0.1:9876;other:9876"
    settings, _ = standalone("namesrvAddr=other:9876", listen="::")
    assert settings.namesrv_addr == "[::1]:9876;other:9876"


def test_the_advertised_address() -> None:
    settings, _ = standalone(advertise=("broker.example.com", 443))
    assert (settings.broker_ip1, settings.advertised_port) == ("broker.example.com", 443)
    assert broker(None, "brokerIP1=10.0.0.1").broker_ip1 == "10.0.0.1"


def test_properties_of_apache_are_taken_as_they_are(tmp_path: Path) -> None:
    config = tmp_path / "broker.conf"
    config.write_text(
        "brokerClusterName = C\nbrokerName = b\nbrokerId = 0\ndeleteWhen = 04\nfileReservedTime = 48\n"
        "brokerRole = ASYNC_MASTER\nflushDiskType = SYNC_FLUSH\nstorePathRootDir=/data/store\n"
        "storePathCommitLog=/data/store/commitlog\nlistenPort=10911\nautoCreateTopicEnable=false\n"
    )
    settings = broker(config)
    assert settings.flush_disk_type == "SYNC_FLUSH"
    assert settings.file_reserved_time == 48
    assert not settings.auto_create_topic_enable
    assert settings.broker_config_path == str(config)


@pytest.mark.parametrize(
    ("assignments", "error", "words"),
    [
        (("brokerNam=x",), UnknownOption, "did you mean brokerName?"),
        (("broker_nam=x",), UnknownOption, "did you mean brokerName?"),
        (("namesrv.enableTopicLst=x",), UnknownOption, "did you mean enableTopicList?"),
        (("storePathCommitLog=/elsewhere",), RefusedValue, "commitlog of storePathRootDir"),
        (("brokerId=1",), RefusedValue, "is a slave"),
        (("messageDelayLevel=1s 5x",), OptionError, "numbers with s, m, h or d"),
        (("deleteWhen=4;24",), OptionError, "hours from 00 to 23"),
        (("deleteWhen=",), OptionError, "hours from 00 to 23"),
        (("namesrvAddr=nonsense",), OptionError, "--set: namesrvAddr: 'nonsense' is not an address"),
        (("listenPort=9876",), OptionError, "is one of the broker's"),
        (("listenPort=9878",), OptionError, "is one of the broker's"),
    ],
)
def test_what_cannot_be(assignments: tuple[str, ...], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        standalone(*assignments)
    assert words in str(caught.value)


def test_a_broker_has_a_name_server() -> None:
    with pytest.raises(OptionError, match="--namesrv HOST:PORT"):
        broker_settings(ServerFlags(), {})
