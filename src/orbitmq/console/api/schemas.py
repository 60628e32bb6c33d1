"""Schemas by which the console shows the bodies of a topic."""

from __future__ import annotations

import msgspec

from orbitmq.console.api.endpoint import Call, endpoint
from orbitmq.console.api.problems import Invalid
from orbitmq.console.decoding import Schema
from orbitmq.console.schemas import MAX_SCHEMA_CHARACTERS
from orbitmq.console.security.roles import Role


class TopicSchema(msgspec.Struct, rename="camel"):
    """The schema of a topic; null without one."""

    schema: Schema | None


@endpoint("GET", "/api/clusters/{cluster}/topics/{topic}/schema", Role.VIEWER)
async def get_schema(call: Call[None, None]) -> TopicSchema:
    """The schema of a topic's bodies."""
    return TopicSchema(call.console.schemas.of(call.cluster.name).get(call.path["topic"]))


@endpoint("PUT", "/api/clusters/{cluster}/topics/{topic}/schema", Role.OPERATOR)
async def put_schema(call: Call[None, Schema]) -> TopicSchema:
    """Set the schema by which bodies of a topic are shown; brokers and clients know nothing of it."""
    if len(call.body.text) > MAX_SCHEMA_CHARACTERS:
        raise Invalid(
            f"a schema has {MAX_SCHEMA_CHARACTERS} characters at most",
            "Leave out what bodies do not need.",
            field="text",
        )
    schemas, topic = call.console.schemas, call.path["topic"]
    call.before = _audit_fields(schemas.of(call.cluster.name).get(topic))
    call.after = _audit_fields(call.body)
    schemas.put(call.cluster.name, topic, call.body)
    return TopicSchema(call.body)


@endpoint("DELETE", "/api/clusters/{cluster}/topics/{topic}/schema", Role.OPERATOR)
async def remove_schema(call: Call[None, None]) -> None:
    """Forget the schema of a topic."""
    schemas, topic = call.console.schemas, call.path["topic"]
    call.before = _audit_fields(schemas.of(call.cluster.name).get(topic))
    schemas.remove(call.cluster.name, topic)


def _audit_fields(schema: Schema | None) -> dict[str, str | int] | None:
    """A schema in the audit log: its text may be long."""
    if schema is None:
        return None
    return {"kind": schema.kind, "messageType": schema.message_type, "characters": len(schema.text)}
