import pytest

from orbitmq.delay_service.options import DELAY_TABLE, parse_cluster
from orbitmq.options import Layer, OptionError
from orbitmq.options.sources import read_file


def load(**given):
    return DELAY_TABLE.load([Layer("test", given)])


def test_clusters_may_have_several_name_servers():
    settings = load(delayClusters="main=rocketmq://a:1;b:2;events=kafka://c:3,d:4")
    clusters = settings.clusters
    assert {name: (one.is_kafka, one.addresses) for name, one in clusters.items()} == {
        "main": (False, "a:1;b:2"),
        "events": (True, "c:3,d:4"),
    }
    assert {str(one) for one in settings.known.sources} == {"main/orbitmq_delay", "events/orbitmq_delay"}


def test_users_and_secrets(tmp_path):
    (tmp_path / "secret").write_text("s3cret\nmore\n")
    found = parse_cluster(f"main=rocketmq://a:1?access_key=ann&secret_file={tmp_path}/secret")
    assert (found.access.credentials.access_key, found.access.credentials.secret_key) == ("ann", "s3cret")
    kafka = parse_cluster(
        f"e=kafka://a:1?sasl=SCRAM-SHA-256&user=bob&secret_file={tmp_path}/secret&tls=true"
    ).kafka
    assert kafka.pop("ssl_context") is not None
    assert kafka == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "bob",
        "sasl_plain_password": "s3cret",
    }
    assert "s3cret" not in repr(found)


@pytest.mark.parametrize(
    "cluster",
    ["", "main", "main=amqp://a:1", "main=rocketmq://", "main=rocketmq://a", "ma in=rocketmq://a:1",
     "main=rocketmq://a:1?sasl=PLAIN", "main=kafka://a:1?access_key=x", "main=kafka://a:1?sasl=NTLM",
     "main=kafka://a:1?sasl=PLAIN", "main=kafka://a:1?user=x", "main=rocketmq://a:1?access_key=ann",
     "main=rocketmq://a:1?tls=maybe", "main=rocketmq://a:1?secret_file=/nowhere&access_key=x",
     "main=rocketmq://a:1;main=kafka://b:2"],
)  # fmt: skip
def test_clusters_that_are_none(cluster):
    with pytest.raises(OptionError):
        _ = load(delayClusters=cluster).clusters


def test_a_file_of_tokens_names_owners(tmp_path):
    file = tmp_path / "tokens"
    file.write_text("s3cret\nann a-token\n")
    assert load(delayTokenFile=str(file)).tokens == {"s3cret": "", "a-token": "ann"}
    for wrong in ("s3cret\nann\n", "s3cret\nann s3cret\n", "", "\n"):
        file.write_text(wrong)
        with pytest.raises(OptionError, match="token-file"):
            _ = load(delayTokenFile=str(file)).tokens


def test_options_that_do_not_go_together():
    with pytest.raises(OptionError, match="needs a token"):
        load(delayHttp="0.0.0.0:8090")
    with pytest.raises(OptionError, match="--rate"):
        load(delayRates="main/t=fast")
    with pytest.raises(OptionError, match="--source"):
        _ = load(delayClusters="main=rocketmq://a:1", delaySources="other/t").forms
    with pytest.raises(OptionError, match="DDMQ"):
        _ = load(delayClusters="e=kafka://a:1", delaySources="e/t", delayFormat="ddmq").forms


def test_the_file_of_the_guide_loads(tmp_path):
    from pathlib import Path

    guide = (Path(__file__).parents[3] / "docs" / "operate" / "delay-service.md").read_text()
    file = tmp_path / "delay.toml"
    file.write_text(guide.split("```toml\n")[1].split("```")[0])
    settings = DELAY_TABLE.load([read_file(file)])
    assert list(settings.clusters) == ["main", "events"]
    assert settings.rates == {"main/sms": 100.0}


def test_a_thrift_port_for_anyone_is_asked_for():
    main = {"delayClusters": "events=kafka://a:1;main=rocketmq://b:2", "delayThrift": "0.0.0.0:9613"}
    with pytest.raises(OptionError, match="thrift-anyone"):
        load(**main)
    settings = load(**main, delayThriftAnyone="true")
    assert (settings.thrift_address, settings.thrift_cluster) == (("0.0.0.0", 9613), "main")
    with pytest.raises(OptionError, match="RocketMQ"):
        load(delayClusters="events=kafka://a:1", delayThrift="127.0.0.1:9613")
    with pytest.raises(OptionError, match="--thrift"):
        load(**{**main, "delayThrift": "nowhere"})


def test_topics_of_owners():
    main = {"delayClusters": "main=rocketmq://a:1;b=kafka://c:2"}
    settings = load(**main, delayOwners="ann=main/x;bob=main/y;ann=b/x")
    assert {str(one): owner for one, owner in settings.owners.items()} == {
        "main/x": "ann", "main/y": "bob", "b/x": "ann",
    }  # fmt: skip
    assert settings.known.sources > settings.owners.keys()
    for wrong in ("ann", "ann=x", "ann=c/x", "=main/x", "ann=main/x;bob=main/x", "ann=main/x;ann=main/y",
                  "ann=main/orbitmq_delay"):  # fmt: skip
        with pytest.raises(OptionError, match="--owner"):
            _ = load(**main, delayOwners=wrong).known
    with pytest.raises(OptionError, match="--source"):
        _ = load(**main, delayOwners="ann=main/x", delaySources="main/x").known
