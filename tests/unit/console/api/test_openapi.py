import json
from typing import Any

import httpx

from orbitmq.console.api.endpoint import ENDPOINTS


def test_the_description_names_every_endpoint_and_every_reference_resolves(api: httpx.Client) -> None:
    document: dict[str, Any] = api.get("/api/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert described == {(one.method, one.path) for one in ENDPOINTS}
    schemas = document["components"]["schemas"]
    text = json.dumps(document)
    for reference in {part.partition('"')[0] for part in text.split('"#/components/schemas/')[1:]}:
        assert reference in schemas
    names = [
        operation["operationId"] for methods in document["paths"].values() for operation in methods.values()
    ]
    assert len(names) == len(set(names))


def test_changes_ask_for_the_token_and_parameters_are_named(api: httpx.Client) -> None:
    paths = api.get("/api/openapi.json").json()["paths"]
    put = paths["/api/clusters/{cluster}/topics/{topic}"]["put"]
    assert put["security"] == [{"session": [], "csrf": []}]
    assert [one["name"] for one in put["parameters"]] == ["cluster", "topic"]
    schema = put["requestBody"]["content"]["application/json"]["schema"]
    assert schema == {"$ref": "#/components/schemas/TopicSettings"}
    history = paths["/api/clusters/{cluster}/history"]["get"]["parameters"]
    assert [one["name"] for one in history if one["in"] == "query"] == ["minutes"]
