"""The description of the HTTP API: OpenAPI 3.1."""

from __future__ import annotations

from typing import Any

from orbitmq import __version__

_TEXT = {"type": "string"}
_TIME = {"type": ["string", "integer"], "description": "ms since 1970, or RFC 3339 with its offset"}
_SPAN = {"type": ["string", "integer"], "description": "90000 (ms), 90s, 15m, 2h, 30d"}
_OUTCOMES = ["scheduled", "replaced", "cancelled", "moved", "too-late", "unknown", "refused"]
_FILTER = {
    "type": "object",
    "minProperties": 1,
    "additionalProperties": False,
    "properties": {"topic": _TEXT, "cluster": _TEXT, "from": _TIME, "to": _TIME, "prefix": _TEXT},
}
_WHERE = [
    {"name": "cluster", "in": "path", "required": True, "schema": _TEXT},
    {"name": "name", "in": "path", "required": True, "schema": _TEXT},
]

_OWNER = {"name": "owner", "in": "query", "schema": _TEXT}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _json(schema: dict[str, Any], about: str) -> dict[str, Any]:
    return {"description": about, "content": {"application/json": {"schema": schema}}}


def _operation(
    about: str,
    answer: dict[str, Any],
    body: dict[str, Any] | None = None,
    parameters: list[dict[str, Any]] | None = None,
    more: dict[str, Any] | None = None,
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "summary": about,
        "responses": {"200": answer, **(more or {}), "default": {"$ref": "#/components/responses/Problem"}},
    }
    if body is not None:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    if parameters:
        found["parameters"] = parameters
    return found


def description(wants_token: bool) -> dict[str, Any]:
    """The whole description."""
    query = [
        {"name": name, "in": "query", "schema": schema}
        for name, schema in (
            ("topic", _TEXT), ("cluster", _TEXT), ("from", _TIME), ("to", _TIME), ("prefix", _TEXT),
            ("cursor", _TEXT), ("limit", {"type": "integer", "minimum": 1, "maximum": 1000}),
        )
    ]  # fmt: skip
    outcome = _json(_ref("Outcome"), "The outcome.")
    other = {"404": outcome, "409": outcome, "422": outcome}
    many = _json({"type": "object"}, "Numbers of messages, by outcome if it was no dry run.")
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "OrbitMQ delay service", "version": __version__},
        "paths": {
            "/health/live": {"get": _operation("The process answers", _json({"type": "object"}, "It does."))},
            "/health/ready": {
                "get": _operation(
                    "Every source has been read", _json({"type": "object"}, "All are."),
                    more={"503": _json({"type": "object"}, "Not yet.")},
                )
            },
            "/v1/stats": {"get": _operation("Counts", _json({"type": "object"}, "Counts."))},
            "/v1/calendar": {
                "get": _operation(
                    "Numbers of pending messages by target and due hour",
                    _json({"type": "object"}, "By target."),
                    parameters=[{"name": "topic", "in": "query", "schema": _TEXT}],
                )
            },
            "/v1/messages": {
                "get": _operation(
                    "List messages by target, then by time; with prefix by name",
                    _json(_ref("Page"), "A page."), parameters=query,
                ),
                "post": _operation(
                    "Schedule a message; the same id again replaces it", outcome, _ref("Schedule"),
                    more={"201": outcome, **other},
                ),
            },
            "/v1/messages/{cluster}/{name}": {
                "get": _operation("Show a message", _json(_ref("Message"), "It."), parameters=_WHERE),
                "delete": _operation("Cancel a message", outcome, parameters=[*_WHERE, _OWNER], more=other),
                "patch": _operation("Move a message", outcome, _ref("Move"), _WHERE, other),
            },
            "/v1/cancel": {"post": _operation("Cancel the messages of a filter", many, _ref("Many"))},
            "/v1/backup": {
                "post": _operation(
                    "Copy the store beside it", _json({"type": "object"}, "Folder and time."),
                    more={"201": _json({"type": "object"}, "Folder and time.")},
                )
            },
            "/v1/move": {"post": _operation("Move the messages of a filter", many, _ref("Many"))},
        },
        "components": {
            "schemas": _schemas(),
            "responses": {
                "Problem": {
                    "description": "An error.",
                    "content": {"application/problem+json": {"schema": _ref("Problem")}},
                }
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }  # fmt: skip
    if wants_token:
        found["security"] = [{"token": []}]
    return found


def _schemas() -> dict[str, Any]:
    number = {"type": "integer"}
    message = {
        "id": _TEXT, "cluster": _TEXT, "target": _TEXT, "due": number, "due_at": _TEXT, "occurrence": number,
        "size": number, "expires": number, "owner": _TEXT, "repeat": {"type": "object"},
        "properties": {"type": "object", "additionalProperties": _TEXT},
        "body_base64": {"type": ["string", "null"]},
    }  # fmt: skip
    return {
        "Schedule": {
            "type": "object",
            "required": ["target"],
            "properties": {
                "cluster": _TEXT, "target": _TEXT, "id": _TEXT, "at": _TIME, "after": _SPAN, "every": _SPAN,
                "factor": {"type": ["number", "string"]}, "times": {"type": ["integer", "string"]},
                "until": _TIME,
                "cron": _TEXT, "zone": _TEXT, "catch_up": {"enum": ["none", "last", "all"]}, "expires": _TIME,
                "reply": _TEXT, "owner": _TEXT, "body": _TEXT, "body_base64": _TEXT, "key": _TEXT,
                "tags": _TEXT,
                "properties": {"type": "object", "additionalProperties": _TEXT},
            },
        },
        "Move": {"type": "object", "properties": {"at": _TIME, "after": _SPAN, "owner": _TEXT}},
        "Many": {
            "type": "object",
            "required": ["filter"],
            "properties": {
                "filter": _FILTER, "dry_run": {"type": "boolean", "default": True}, "at": _TIME,
                "after": _SPAN, "owner": _TEXT,
            },
        },
        "Outcome": {
            "type": "object",
            "required": ["id", "cluster", "outcome"],
            "properties": {
                "id": _TEXT, "cluster": _TEXT, "outcome": {"enum": _OUTCOMES}, "reason": _TEXT, "due": number,
            },
        },
        "Message": {"type": "object", "properties": message},
        "Page": {
            "type": "object",
            "properties": {"messages": {"type": "array", "items": _ref("Message")}, "cursor": _TEXT},
        },
        "Problem": {
            "type": "object",
            "properties": {"title": _TEXT, "status": number, "detail": _TEXT},
        },
    }  # fmt: skip
