"""The files of deploy/: every metric in the board and the alerts exists, and every command line is one."""

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from orbitmq.broker.options import BROKER_TABLE, BrokerSettings
from orbitmq.broker.stats.metric_families import FAMILIES, HISTOGRAM
from orbitmq.cli import serving
from orbitmq.cli.app import app
from orbitmq.controller.options import CONTROLLER_TABLE
from orbitmq.nameserver.options import NAMESRV_TABLE
from orbitmq.net.address import is_loopback
from orbitmq.options import Layer, from_environment
from orbitmq.server.controller.metrics import COMMON_LABELS, CONTROLLER_FAMILIES
from tests.kit.deployed_command import image_environment as environment
from tests.kit.deployed_command import settle

DEPLOY = Path(__file__).parents[3] / "deploy"

COMMON = {"cluster", "node_id", "node_type", "instance", "job", "le"}
OF_PROMETHEUS = {"up"}
WORDS = frozenset(
    {
        *("sum", "max", "min", "avg", "count", "topk", "by", "and", "on", "unless", "without"),
        *("rate", "increase", "predict_linear", "histogram_quantile", "label_values"),
    }
)


def board() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DEPLOY / "grafana" / "orbitmq.json").read_text())
    return found


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def expressions() -> Iterator[tuple[str, str]]:
    for panel in board()["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for variable in board()["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]["query"]
    for rule in rules():
        yield rule["alert"], rule["expr"]


def labels_of(metric: str) -> set[str] | None:
    """The labels that a metric has; None if nobody tells such a metric."""
    if metric in OF_PROMETHEUS:
        return COMMON
    if metric in CONTROLLER_FAMILIES:
        return {*COMMON_LABELS, *CONTROLLER_FAMILIES[metric].labels, "instance", "job"}
    family = FAMILIES.get(metric)
    if family is None:
        base, _, part = metric.rpartition("_")
        family = FAMILIES.get(base)
        if family is None or family.kind != HISTOGRAM or part not in ("bucket", "count", "sum"):
            return None
    return COMMON | set(family.labels)


@pytest.mark.parametrize(("where", "expression"), list(expressions()))
def test_expressions_name_metrics_and_labels_that_exist(where: str, expression: str) -> None:
    bare = re.sub(r'"[^"]*"', '""', expression)
    grouped = {
        label.strip()
        for names in re.findall(r"\b(?:by|on|without)\s*\(([^)]*)\)", bare)
        for label in names.split(",")
    }
    grouped |= set(re.findall(r"label_values\(.*,\s*(\w+)\)", bare))
    selected = {
        label for names in re.findall(r"\{([^}]*)\}", bare) for label in re.findall(r"(\w+)\s*=", names)
    }
    rest = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\b(?:by|on|without)\s*\([^)]*\)|,\s*\w+\)$", " ", bare)
    metrics = set(re.findall(r"[a-zA-Z_]\w*", rest)) - WORDS
    assert metrics, "no metric at all"
    known = [labels_of(metric) for metric in metrics]
    assert None not in known, f"nobody tells one of {sorted(metrics)}"
    for labels in known:
        assert labels is not None
        assert selected <= labels or len(metrics) > 1
        assert grouped <= labels, f"{where}: grouped by what {sorted(metrics)} does not have"


def test_the_board_has_one_panel_per_place_and_id() -> None:
    panels = board()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(places)
    assert all(panel["targets"] for panel in panels if panel["type"] != "row")


def test_every_own_metric_of_a_broker_is_on_the_board_or_in_an_alert() -> None:
    text = " ".join(expression for _, expression in expressions())
    unseen = {name for name in FAMILIES if name.startswith("orbitmq_") and name not in text}
    assert unseen <= {
        "orbitmq_consumer_queue_lag_messages",
        "orbitmq_index_behind_bytes",
        "orbitmq_light_queues",
        "orbitmq_lite_subscriptions",
        "orbitmq_lost_timers_total",
        "orbitmq_pending_half_messages",
        "orbitmq_queues",
        "orbitmq_start_time_seconds",
    }


def test_every_own_metric_of_a_controller_is_in_an_alert() -> None:
    text = " ".join(expression for _, expression in expressions())
    assert [name for name in CONTROLLER_FAMILIES if name.startswith("orbitmq_") and name not in text] == []


def test_alerts_say_what_is_wrong_and_how_bad_it_is() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"].endswith(".")


def test_prometheus_scrapes_the_default_port_and_loads_the_rules() -> None:
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    [target] = config["scrape_configs"][0]["static_configs"][0]["targets"]
    assert target == f"broker:{BrokerSettings().metrics_prom_exporter_port}"
    assert config["rule_files"] == ["rules.yml"]


def parsed(words: list[str]) -> click.Context:
    """The context of a command line of ours; fails for a flag that does not exist."""
    command = app.get_command(click.Context(app), words[0])
    assert command is not None, words
    return command.make_context(words[0], list(words[1:]))


def dockerfile() -> list[str]:
    text = (DEPLOY / "Dockerfile").read_text()
    return [" ".join(line.split()) for line in re.sub(r"\\\n", " ", text).splitlines()]


def test_the_container_starts_a_server_that_its_health_check_asks() -> None:
    lines = dockerfile()
    [entry] = [line for line in lines if line.startswith("ENTRYPOINT ")]
    [command] = [line for line in lines if line.startswith("CMD ")]
    assert json.loads(entry.removeprefix("ENTRYPOINT ")) == ["orbitmq"]
    parsed(json.loads(command.removeprefix("CMD ")))
    settings = BROKER_TABLE.load([from_environment(environment()).for_broker()])
    [check] = [line for line in lines if line.startswith("HEALTHCHECK ")]
    assert 'http://127.0.0.1:{os.environ[\\"ORBITMQ_HEALTH_PORT\\"]}/health/ready' in check
    assert environment()["ORBITMQ_HEALTH_PORT"] == str(settings.health_port)
    [exposed] = [line.split()[1:] for line in lines if line.startswith("EXPOSE ")]
    ports = [NAMESRV_TABLE.load([]).listen_port, settings.listen_port, settings.listen_port - 2]
    ports += [settings.metrics_prom_exporter_port, settings.health_port]
    assert exposed == [str(port) for port in ports]


def test_the_container_does_not_run_as_root() -> None:
    users = [line.split()[1] for line in dockerfile() if line.startswith("USER ")]
    assert users
    assert not users[-1].startswith(("root", "0"))


def test_what_the_image_is_built_of_is_there_and_let_in() -> None:
    root = DEPLOY.parent
    let_in = {line[1:] for line in (root / ".dockerignore").read_text().split() if line.startswith("!")}
    copied = [
        line.split()[1:-1] for line in dockerfile() if line.startswith("COPY ") and "--from" not in line
    ]
    for name in (name for names in copied for name in names):
        assert (root / name).exists()
        assert name in let_in


def unset(text: str) -> str:
    """A text of a compose file where no variable is set."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


def test_the_services_of_compose_are_commands_with_their_ports_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    published = [port.rpartition(":")[2] for one in services.values() for port in one.get("ports", ())]
    for name in ("namesrv", "broker", "console", "proxy", "delay"):
        words = [unset(word).replace("/var/lib/orbitmq", str(tmp_path)) for word in services[name]["command"]]
        settled = settle(words, services[name].get("environment", {}), monkeypatch)
        assert settled is not None
        settings = settled.settings
        if name in ("namesrv", "broker"):
            assert str(settings.listen_port) in published
        if name == "proxy":
            assert str(settings.grpc_server_port) in published
            taken = BROKER_TABLE.load([from_environment(environment()).for_broker()])
            own = {settings.grpc_server_port, settings.health_port}
            assert own.isdisjoint({taken.health_port, taken.listen_port, taken.metrics_prom_exporter_port})
    assert any(word.startswith("--advertise=") for word in services["broker"]["command"])
    volumes = {volume.split(":")[0] for one in services.values() for volume in one.get("volumes", ())}
    known = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["volumes"]
    assert set(known) == {name for name in volumes if not name.startswith(".")}
    for name in ("prometheus", "grafana"):
        for volume in services[name]["volumes"]:
            assert (DEPLOY / volume.split(":")[0]).exists(), volume


def test_compose_publishes_on_the_loopback_address_unless_told_otherwise() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    for name, service in services.items():
        for port in service.get("ports", ()):
            assert unset(port).startswith("127.0.0.1:"), name
    # It takes its machine's network, where it has no users: on the loopback alone.
    assert services["console"]["network_mode"] == "host"
    assert not any(word.startswith("--listen") for word in services["console"]["command"])


def test_the_access_file_of_compose_turns_access_control_on() -> None:
    services = yaml.safe_load((DEPLOY / "compose.access.yaml").read_text())["services"]
    assert set(services) == {"broker", "console"}
    assert set(services["console"]["environment"]) == {"ORBITMQ_ACCESS_KEY", "ORBITMQ_SECRET_KEY"}
    given = dict(services["broker"]["environment"])
    assert given.pop("ORBITMQ_INIT_AUTHENTICATION_USER").startswith("${ORBITMQ_INIT_AUTHENTICATION_USER:?")
    settings = BROKER_TABLE.load([from_environment(given).for_broker()])
    assert settings.authentication_enabled
    assert settings.authorization_enabled


def test_the_cluster_of_compose_is_two_name_servers_a_synchronous_master_with_its_slave_and_a_console(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = yaml.safe_load((DEPLOY / "compose.cluster.yaml").read_text())["services"]
    roles = {}
    console = services.pop("console")
    for name, service in services.items():
        flags = parsed(service["command"]).params
        if service["command"][0] == "broker":
            assignments = dict(one.split("=", 1) for one in flags["assignments"])
            values = {"brokerId": flags["brokerId"] or 0, "brokerName": flags["brokerName"], **assignments}
            roles[name] = BROKER_TABLE.load([Layer("the test", values)])
            assert f"--advertise={name}" in service["command"], "slaves and clients find it by its name"
            known = flags["namesrvAddr"].split(";")
            assert [one.partition(":")[0] for one in known] == ["namesrv-1", "namesrv-2"]
    master, slave = roles["broker-a-0"], roles["broker-a-1"]
    assert (master.broker_role, master.in_sync_replicas, master.broker_name) == ("SYNC_MASTER", 2, "broker-a")
    assert (slave.is_slave, slave.broker_id, slave.broker_name) == (True, 1, "broker-a")
    assert master.flush_disk_type == slave.flush_disk_type == "SYNC_FLUSH"
    [script] = console["command"]
    for name, text in (("password", "correct horse battery"), ("cert.pem", "PEM"), ("key.pem", "PEM")):
        (tmp_path / name).write_text(text)
    lines = script.replace("\\\n", " ").replace("/run/secrets", str(tmp_path)).splitlines()
    commands = [
        shlex.split(line.removeprefix("exec ").replace("/var/lib/orbitmq", str(tmp_path))) for line in lines
    ]
    assert [words.pop(0) for words in commands] == ["orbitmq", "orbitmq"]
    assert settle(commands[0], {}, monkeypatch) is None
    assert settle(commands[1], {}, monkeypatch), "it has users and a certificate: it may listen everywhere"
    assert set(console["secrets"]) == {"password", "cert.pem", "key.pem"}


def test_the_pod_of_kubernetes_starts_what_exists_and_is_probed_where_the_image_answers() -> None:
    service, stateful = yaml.safe_load_all((DEPLOY / "kubernetes" / "standalone.yaml").read_text())
    pod = stateful["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert parsed(container["args"]).command is serving.standalone
    assert f"--advertise={service['metadata']['name']}" in container["args"], "clients come to this name"
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert f"ORBITMQ_HEALTH_PORT={ports['health']} " in dockerfile
    assert {str(port) for port in ports.values()} == set(
        re.findall(r"^EXPOSE (.*)$", dockerfile, re.M)[0].split()
    )
    assert {container[name]["httpGet"]["port"] for name in container if name.endswith("Probe")} == {"health"}
    assert f"USER {pod['securityContext']['runAsUser']}:" in dockerfile
    [volume] = [one for one in container["volumeMounts"] if one["name"] == "data"]
    assert f"--data-dir={volume['mountPath']}" in container["args"]


def test_the_worker_of_kubernetes_may_take_as_long_as_the_guide_says() -> None:
    worker = yaml.safe_load((DEPLOY / "kubernetes" / "worker.yaml").read_text())
    guide = (DEPLOY.parent / "docs" / "develop" / "application-guide.md").read_text()
    pod = worker["spec"]["template"]["spec"]
    [close_ms] = re.findall(r"close_timeout_ms=([\d_]+)", guide[guide.index("## Workers") :])[:1]
    assert pod["terminationGracePeriodSeconds"] * 1000 > int(close_ms)
    [container] = pod["containers"]
    assert f'health="0.0.0.0:{container["ports"][0]["containerPort"]}"' in guide


def test_the_unit_of_the_controller_names_its_store() -> None:
    text = (DEPLOY / "systemd" / "orbitmq-controller.service").read_text()
    given = dict(pair.split("=", 1) for pair in re.findall(r"^Environment=(.*)$", text, re.MULTILINE))
    settings = CONTROLLER_TABLE.load([from_environment(given)])
    assert settings.store_address.startswith("etcd://")
    assert re.findall(r"^ExecStart=.* controller(.*)$", text, re.MULTILINE) == [""]
    assert is_loopback(settings.bind_address), "anybody who reaches the port may elect masters"
    opened = CONTROLLER_TABLE.load([from_environment({**given, "ORBITMQ_BIND_ADDRESS": "0.0.0.0"})])
    assert opened.bind_address == "0.0.0.0"


@pytest.mark.needs("systemd")
@pytest.mark.parametrize("unit", sorted((DEPLOY / "systemd").glob("*.service")), ids=lambda path: path.name)
def test_systemd_finds_no_fault_with_the_units(unit: Path, tmp_path: Path) -> None:
    # The program and its user are where the package is installed, not here.
    text = unit.read_text().replace("/opt/orbitmq/bin/orbitmq", "/bin/true")
    there = tmp_path / unit.name
    there.write_text(re.sub(r"^(User|Group)=orbitmq$", r"\1=root", text, flags=re.MULTILINE))
    done = subprocess.run(["systemd-analyze", "verify", there], capture_output=True, text=True, check=False)
    assert unit.name not in done.stderr, done.stderr


@pytest.mark.parametrize("unit", sorted((DEPLOY / "systemd").glob("*.service")), ids=lambda path: path.name)
def test_units_are_of_type_notify_and_start_what_exists(
    unit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = unit.read_text()
    assert "Type=notify\n" in text
    assert "WatchdogSec=" in text
    [start] = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
    program, *words = shlex.split(start)
    assert program.endswith("/orbitmq")
    # A configuration file that an administrator writes is not there yet.
    words = [word for word in words if word not in ("--config", "/etc/orbitmq/broker.conf")]
    given = dict(pair.split("=", 1) for pair in re.findall(r"^Environment=(.*)$", text, re.MULTILINE))
    known = {"NAMESRV_ADDR": "127.0.0.1:9876", **given}
    settle([word.replace("/var/lib/orbitmq", str(tmp_path)) for word in words], known, monkeypatch)
