"""The Helm chart: Kubernetes' schemas accept what it renders, and our own commands accept their options.

`helm` and `kubeconform` are built by Go once for each go.sum; the schemas are of Kubernetes' own module.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import orbitmq
from orbitmq.server.controller.server import ControllerServer
from orbitmq.server.lifecycle.broker_server import BrokerServer
from orbitmq.testing import LocalBroker
from tests.kit.deployed_command import Settled, settle
from tests.needs import need
from tests.peers.machine import cache

pytestmark = pytest.mark.timeout(900)  # the first run on a machine compiles helm

PROGRAMS = Path(__file__).parent / "chart"
CHART = Path(__file__).parents[3] / "deploy" / "helm" / "orbitmq"
KUBERNETES = "v1.34.2"
KUBERNETES_SUM = "h1:WQdDvYJazkmkwSncgNwGvVtaCt4TYXIU3wSMRgvp3MI="

STORE = {"controller": {"store": "etcd://etcd:2379"}}
EVERYTHING: dict[str, Any] = {
    "image": {"pullSecrets": ["registry"]},
    "clusterName": "east",
    "controller": {
        "store": "etcd://e1:2379,e2:2379",
        "storeTls": {"secret": "etcd", "clientCertificate": True},
        "options": {"storeLeaseSeconds": 4},
    },
    "broker": {
        "groups": [
            {"name": "broker-a"},
            {"name": "b", "replicas": 3, "options": {"flushDiskType": "ASYNC_FLUSH"}},
        ],
        "options": {"flushDiskType": "SYNC_FLUSH", "maxMessageSize": 8_388_608, "slaveReadEnable": True},
        "minInSyncReplicas": 2,
        "env": [{"name": "ORBITMQ_FILE_RESERVED_TIME", "value": "24"}],
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "mq", "operator": "Exists"}],
        "storage": {"size": "100Gi", "storageClass": "fast"},
        "podAnnotations": {"team": "mq"},
    },
    "accessControl": {"enabled": True, "secret": "access"},
    "tls": {"enabled": True, "secret": "certificates", "clientCertificates": True},
    "antiAffinity": "hard",
    "console": {
        "service": True,
        "tlsSecret": "pages",
        "adminSecret": "admin",
        "oidc": {
            "issuer": "https://login.example", "clientId": "mq", "secret": "oidc", "roles": {"mq": "viewer"},
            "bodies": ["mq-readers"],
        },
        "maskedFields": ["card", "iban"],
    },
    "proxy": {"enabled": True, "options": {"grpcConnectionMaxAgeSeconds": 600}},
    "delay": {"enabled": True, "tokenSecret": "token", "options": {"delayQueues": 8}},
    "backup": {"enabled": True, "ordinal": 1},
    "networkPolicy": {"console": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]},
}  # fmt: skip
ALONE = {
    "controller": {"enabled": False},
    "broker": {"replicas": 1},
    "console": {"enabled": False},
    "networkPolicy": {"enabled": False},
    "metrics": {"annotations": False},
    "antiAffinity": "none",
}
ZOOKEEPER = {
    "controller": {"store": "zookeeper://z1:2181,z2:2181", "replicas": 2},
    "accessControl": {"enabled": True, "secret": "access"},
    "image": {"digest": f"sha256:{'0' * 64}"},
}
CASES = {"defaults": STORE, "everything": EVERYTHING, "alone": ALONE, "zookeeper": ZOOKEEPER}
SECRETS = {
    "init-user": '{"username":"root","password":"change-me"}',
    "inner-credentials": '{"accessKey":"inner","secretKey":"hush-hush"}',
    "access-key": "root",
    "secret-key": "change-me",
    "password": "correct horse battery",
    "client-secret": "between us",
    "token": "t0ken",
}


@functools.cache
def programs() -> Path:
    """The folder of helm and kubeconform."""
    need("go")
    folder = cache() / f"chart-{hashlib.sha256((PROGRAMS / 'go.sum').read_bytes()).hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "helm").exists():
            command = [
                "go",
                "build",
                "-buildvcs=false",
                "-mod=readonly",
                "-ldflags=-s -w",
                f"-o={folder}/",
                "tool",
            ]
            environment = {**os.environ, "CGO_ENABLED": "0"}
            built = subprocess.run(command, cwd=PROGRAMS, env=environment, capture_output=True, text=True)
            assert built.returncode == 0, built.stderr
    return folder


def helm(*words: str, values: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    command = [str(programs() / "helm"), *words, *(["--values=-"] if values is not None else [])]
    return subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=False)


@functools.cache
def rendered(case: str) -> str:
    done = helm(
        *("template", "mq", str(CHART), "--namespace=prod", f"--kube-version={KUBERNETES}"),
        values=CASES[case],
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def documents(case: str) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(rendered(case)) if one]


def pods(case: str) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Name, metadata and specification of each pod."""
    for one in documents(case):
        template = one.get("spec", {}).get("jobTemplate", one)["spec"].get("template")
        if template is not None:
            yield one["metadata"]["name"], template["metadata"], template["spec"]


def containers(case: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, _, pod in pods(case):
        for container in [*pod.get("initContainers", ()), *pod["containers"]]:
            yield name, container


# Kubernetes' view.


def strict(definitions: dict[str, Any], name: str) -> dict[str, Any]:
    """A schema by JSON Schema's rules with all that it refers to; it refuses fields that it does not name."""
    wanted, used = [name], {}
    while wanted:
        one = wanted.pop()
        if one in used:
            continue
        schema = used[one] = dict(definitions[one])
        if one.endswith("IntOrString"):
            schema["type"] = ["integer", "string"]
        elif one.endswith("resource.Quantity"):
            schema["type"] = ["number", "string"]
        schema.pop("format", None)
        if "properties" in schema:
            schema["additionalProperties"] = False
        wanted += re.findall(r'"#/definitions/([^"]+)"', json.dumps(schema))
    return {"$ref": f"#/definitions/{name}", "definitions": used}


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A schema for each kind that the chart makes, from the API of Kubernetes' module."""
    need("go")
    folder = tmp_path_factory.mktemp("schemas")
    command = ["go", "mod", "download", "-json", f"k8s.io/kubernetes@{KUBERNETES}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    module = json.loads(done.stdout)
    assert module["Sum"] == KUBERNETES_SUM
    path = Path(module["Dir"], "api", "openapi-spec", "swagger.json")
    definitions = json.loads(path.read_text())["definitions"]
    for name, schema in definitions.items():
        for kind in schema.get("x-kubernetes-group-version-kind", ()):
            if kind["kind"] in KINDS:
                group = f"{kind['group'].partition('.')[0]}-" if kind["group"] else ""
                there = folder / f"{kind['kind'].lower()}-{group}{kind['version']}.json"
                there.write_text(json.dumps(strict(definitions, name)))
    return folder


KINDS = {"Service", "StatefulSet", "Deployment", "CronJob", "PersistentVolumeClaim", "NetworkPolicy"}
KINDS |= {"PodDisruptionBudget"}


def conforming(schemas: Path, text: str) -> subprocess.CompletedProcess[str]:
    where = f"{schemas}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    command = [str(programs() / "kubeconform"), "-strict", "-summary", f"-schema-location={where}", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("case", CASES)
def test_helm_finds_no_fault_and_kubernetes_schemas_accept_what_it_renders(case: str, schemas: Path) -> None:
    linted = helm("lint", "--strict", str(CHART), values=CASES[case])
    assert linted.returncode == 0, linted.stdout
    done = conforming(schemas, rendered(case))
    assert done.returncode == 0, done.stdout
    count = len(documents(case))
    assert f"Summary: {count} resources found" in done.stdout
    assert f"Valid: {count}, Invalid: 0, Errors: 0, Skipped: 0" in done.stdout


def test_the_files_for_kubectl_conform_as_well_and_a_wrong_field_does_not(schemas: Path) -> None:
    for path in sorted((CHART.parents[1] / "kubernetes").glob("*.yaml")):
        done = conforming(schemas, path.read_text())
        assert done.returncode == 0, done.stdout
    wrong = rendered("defaults").replace("podManagementPolicy:", "podManagementPolitics:", 1)
    assert "podManagementPolitics" in conforming(schemas, wrong).stdout


REFUSED = {
    "no store": ({}, "controller.store is empty"),
    "an unknown value": ({**STORE, "brokers": 3}, "brokers"),
    "a wrong kind": ({**STORE, "namesrv": {"replicas": "two"}}, "replicas"),
    "replicas without controllers": (
        {"controller": {"enabled": False}},
        "has 2 replicas: without controllers",
    ),
    "more in sync than there are": (
        {**STORE, "broker": {"minInSyncReplicas": 3}},
        "no message would ever be",
    ),
    "a group with the name of a component": ({**STORE, "broker": {"groups": [{"name": "proxy"}]}}, "name"),
    "a group twice": ({**STORE, "broker": {"groups": [{"name": "a"}, {"name": "a"}]}}, "names a twice"),
    "a console without users": ({**STORE, "console": {"service": True, "tlsSecret": "s"}}, "needs users"),
    "a console without a certificate": ({**STORE, "console": {"service": True}}, "console.tlsSecret"),
    "access control without its secret": ({**STORE, "accessControl": {"enabled": True}}, "init-user"),
    "TLS without its secret": ({**STORE, "tls": {"enabled": True}}, "tls.secret"),
    "a delay service without a token": ({**STORE, "delay": {"enabled": True}}, "delay.tokenSecret"),
    "a copy of no replica": ({**STORE, "backup": {"enabled": True, "ordinal": 2}}, "backup.ordinal is 2"),
}


@pytest.mark.parametrize(("values", "reason"), REFUSED.values(), ids=REFUSED)
def test_values_that_cannot_work_are_refused_with_the_reason(values: dict[str, Any], reason: str) -> None:
    done = helm("template", "mq", str(CHART), f"--kube-version={KUBERNETES}", values=values)
    assert done.returncode != 0
    assert reason in done.stderr


# Our own view.


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The files that volumes bring, where the commands of a test look for them."""
    paths = ["admin/password", "oidc/client-secret", "token/token", "access/secret-key"]
    for path in [f"{folder}/{name}" for folder in ("https",) for name in ("tls.crt", "tls.key")] + paths:
        there = tmp_path / "etc" / path
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text(SECRETS.get(there.name, "PEM") + "\n")
    tls = tmp_path / "etc" / "tls"
    tls.mkdir()
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-subj", "/CN=mq", "-days", "2", "-keyout", tls / "tls.key", "-out", tls / "tls.crt"]
    subprocess.run(command, check=True, capture_output=True)
    shutil.copy(tls / "tls.crt", tls / "ca.crt")
    return tmp_path


def command_of(pod: str, container: dict[str, Any], files: Path) -> tuple[list[str], dict[str, str]]:
    """Words and variables of a container, as Kubernetes would give them to the process."""
    variables = {}
    for one in container.get("env", ()):
        source = one.get("valueFrom", {})
        if "secretKeyRef" in source:
            variables[one["name"]] = SECRETS[source["secretKeyRef"]["key"]]
        else:
            variables[one["name"]] = one.get("value", "mq-pod-0")
    words = []
    for word in container["args"]:
        known = re.sub(r"\$\((\w+)\)", lambda found: variables[found[1]], word)
        words.append(
            known.replace("/etc/orbitmq", f"{files}/etc").replace("/var/lib/orbitmq", f"{files}/{pod}")
        )
    return [word.replace("/tmp/ready", f"{files}/ready") for word in words], variables


@pytest.mark.needs("openssl")
@pytest.mark.parametrize("case", CASES)
def test_our_commands_take_the_options_that_are_rendered(
    case: str, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers: dict[str, Settled] = {}
    for name, container in containers(case):
        if container["name"] == "backup":
            continue
        words, variables = command_of(name, container, files)
        settled = settle(words, variables, monkeypatch)
        if settled is not None:
            servers[name] = settled
    controllers = [one for one in servers.values() if isinstance(one.server, ControllerServer)]
    brokers = {name: one for name, one in servers.items() if isinstance(one.server, BrokerServer)}
    assert (len(controllers), len(brokers)) == (case != "alone", 2 if case == "everything" else 1)
    for name, broker in brokers.items():
        settings = broker.settings
        assert settings.broker_name == name.removeprefix("mq-")
        assert settings.enable_controller_mode == bool(controllers)
        assert settings.all_ack_in_sync_state_set == bool(controllers), (
            "an elected broker lacks no acknowledged message"
        )
        assert settings.metrics_exporter_type == "PROM"
        guarded = case in ("everything", "zookeeper")
        assert settings.authentication_enabled == settings.ha_authentication_enable == guarded
        if controllers:
            assert settings.controller_addr.count(";") + 1 == (2 if case == "zookeeper" else 3)
            assert controllers[0].settings.authentication_enabled == guarded
    if case == "everything":
        first, second = (brokers[name].settings for name in ("mq-broker-a", "mq-b"))
        assert (first.flush_disk_type, second.flush_disk_type) == ("SYNC_FLUSH", "ASYNC_FLUSH")
        assert first.max_message_size == 8_388_608
        assert (first.file_reserved_time, first.broker_cluster_name) == (24, "east")
        assert first.ha_tls_enable
        assert first.tls_server_mode == "enforcing"
        console = next(one for _, one in containers(case) if one["name"] == "console")
        assert {"--mask=card", "--mask=iban", "--oidc-bodies=mq-readers"} <= {*console["args"]}


@pytest.mark.parametrize("case", CASES)
def test_probes_ports_and_annotations_are_those_of_the_servers(
    case: str, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, metadata, pod in pods(case):
        for container in pod["containers"]:
            ports = {port["name"]: port["containerPort"] for port in container.get("ports", ())}
            probes = [container[key] for key in container if key.endswith("Probe")]
            assert probes or container["name"] == "backup", name
            assert {probe["httpGet"]["port"] for probe in probes if "httpGet" in probe} <= set(ports)
            annotations = metadata.get("annotations", {})
            if "prometheus.io/port" in annotations:
                assert int(annotations["prometheus.io/port"]) in (ports.get("metrics"), ports["health"])
            if container["name"] in ("namesrv", "controller", "broker", "proxy") and case != "everything":
                settled = settle(*command_of(name, container, files), monkeypatch)
                assert settled is not None
                assert settled.settings.health_port == ports["health"]


@pytest.mark.parametrize("case", CASES)
def test_pods_have_no_rights_that_they_do_not_use(case: str) -> None:
    assert list(pods(case))
    for name, _, pod in pods(case):
        assert pod["automountServiceAccountToken"] is False, name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["securityContext"]["runAsNonRoot"] is True
    for name, container in containers(case):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }, name


def test_only_the_ports_of_clients_are_open_to_clients() -> None:
    clients: dict[str, set[int]] = {}
    for one in documents("everything"):
        if one["kind"] == "NetworkPolicy":
            rules = [rule for rule in one["spec"]["ingress"] if rule["from"] == [{"podSelector": {}}]]
            clients[one["metadata"]["name"]] = {port["port"] for rule in rules for port in rule["ports"]}
    assert clients == {
        "mq-namesrv": {9876},
        "mq-controller": set(),
        "mq-broker-a": {10911, 10909},
        "mq-b": {10911, 10909},
        "mq-proxy": {8081},
        "mq-delay": {8090},
        "mq-console": set(),
    }


def test_the_chart_and_the_pod_name_the_image_of_the_release() -> None:
    """Between releases, of the last one."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"]
    if "dev" not in orbitmq.__version__:
        assert chart["version"] == orbitmq.__version__
    image = f"ghcr.io/orbitmq/orbitmq:v{chart['version']}"
    assert {container["image"] for _, container in containers("defaults")} == {image}
    assert f"image: {image}\n" in (CHART.parents[1] / "kubernetes" / "standalone.yaml").read_text()


def test_values_and_their_schema_name_the_same_things() -> None:
    def named(schema: dict[str, Any], values: Any, place: str) -> Iterator[str]:
        for name, one in schema.get("properties", {}).items():
            own = values.get(name) if isinstance(values, dict) else None
            if own is None and name not in OF_EVERY_COMPONENT:
                yield f"{place}{name}"
            yield from named(one, own, f"{place}{name}.")

    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert list(named(schema, values, "")) == ["global"], "Helm's own"


OF_EVERY_COMPONENT = {
    *("env", "nodeSelector", "tolerations", "affinity", "priorityClassName", "podLabels", "podAnnotations"),
}
"""The head of values.yaml tells of them once for all components."""


def test_the_scheduled_copy_is_a_data_folder_and_old_ones_go(tmp_path: Path) -> None:
    [script] = {
        container["args"][0]
        .replace("/var/lib/orbitmq", f"{tmp_path}/data")
        .replace("/backup", f"{tmp_path}/copies")
        for name, container in containers("everything")
        if container["name"] == "backup"
    }
    copies = tmp_path / "copies"
    old = [f"2026-01-0{day}T00-00-00Z" for day in range(1, 5)]
    for name in [*old, "2026-01-05T00-00-00Z.partial", "lost+found"]:
        (copies / name).mkdir(parents=True)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with LocalBroker(data_dir=tmp_path / "data") as broker:
        assert broker.namesrv
        done = subprocess.run(
            ["sh", "-ec", script], env=environment, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    kept = sorted(path.name for path in copies.iterdir())
    assert kept[:2] == old[-2:]
    assert kept[-1] == "lost+found"
    assert len(kept) == 4, "keep: 3"
    assert (copies / kept[2] / "commitlog").is_dir()
    # A copy that fails takes none of the others away.
    shutil.rmtree(tmp_path / "data")
    failed = subprocess.run(
        ["sh", "-ec", script], env=environment, capture_output=True, text=True, check=False
    )
    assert "is no data folder of a broker" in failed.stderr
    assert len(list(copies.iterdir())) == 4
