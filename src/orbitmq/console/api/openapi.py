"""The description of the API in OpenAPI 3.1, made of the declarations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from orbitmq import __version__
from orbitmq.console.api.endpoint import Endpoint
from orbitmq.console.api.problems import Problem
from orbitmq.protocol.schema.json_body import camel_case

FILES = ("text/csv", "application/x-ndjson")
Schema: TypeAlias = "dict[str, Any]"
REFERENCE = "#/components/schemas/{name}"
_PATH_PARAMETER = re.compile(r"{(\w+)(?::\w+)?}")


def describe(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The whole document."""
    kinds = [kind for one in endpoints for kind in (one.body, one.answer) if kind is not type(None)]
    schemas, components = msgspec.json.schema_components([*kinds, Problem], ref_template=REFERENCE)
    of_kind = iter(schemas)
    paths: dict[str, dict[str, Any]] = {}
    for one in endpoints:
        body = None if one.body is type(None) else next(of_kind)
        answer = None if one.answer is type(None) else next(of_kind)
        path = _PATH_PARAMETER.sub(r"{\1}", one.path)
        paths.setdefault(path, {})[one.method.lower()] = _operation(one, body, answer, schemas[-1])
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "OrbitMQ console",
            "version": __version__,
            "description": "What the console's pages ask. Numbers are those of `orbitmq admin`.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "session": {"type": "apiKey", "in": "cookie", "name": "orbitmq_session"},
                "csrf": {"type": "apiKey", "in": "header", "name": "X-CSRF-Token"},
            },
        },
    }


def _operation(one: Endpoint, body: Schema | None, answer: Schema | None, problem: Schema) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": one.name,
        "summary": one.summary,
        "tags": [one.path.split("/")[4 if one.path.startswith("/api/clusters/{cluster}/") else 2]],
        "parameters": [
            *_path_parameters(one.path),
            *_query_parameters(one.query),
            *_download_parameters(one.rows),
        ],
    }
    if body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    content: dict[str, Any] = {}
    if answer is not None:
        media_type = "text/event-stream" if one.is_stream else "application/json"
        content = {"content": {media_type: {"schema": answer}}}
        if one.rows:
            content["content"] |= {kind: {"schema": {"type": "string"}} for kind in FILES}
    operation["responses"] = {
        "200": {"description": "Done.", **content},
        "default": {
            "description": "It was not done, and why.",
            "content": {"application/problem+json": {"schema": problem}},
        },
    }
    if one.role is not None:
        operation["security"] = [{"session": [], "csrf": []} if one.is_change else {"session": []}]
        operation["description"] = f"Needs the role {one.role.title}."
    return operation


def _path_parameters(path: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PATH_PARAMETER.findall(path)
    ]


def _download_parameters(rows: Sequence[str]) -> list[dict[str, Any]]:
    if not rows:
        return []
    texts = {
        "format": ("The list as a file.", ["csv", "ndjson"]),
        "rows": (f"The list meant; {camel_case(rows[0])} without it.", [camel_case(name) for name in rows]),
        "filter": ("Only rows of the file whose first field has this text in it.", None),
    }
    return [
        {
            "name": name,
            "in": "query",
            "required": False,
            "description": text,
            "schema": {"type": "string", **({"enum": values} if values else {})},
        }
        for name, (text, values) in texts.items()
    ]


def _query_parameters(kind: type[Any]) -> list[dict[str, Any]]:
    if kind is type(None):
        return []
    _, components = msgspec.json.schema_components([kind])
    schema = components[kind.__name__]
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": one}
        for name, one in schema["properties"].items()
    ]
