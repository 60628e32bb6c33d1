"""`orbitmq admin kv ...`: the name servers' key-value configuration."""

from __future__ import annotations

import click

from orbitmq.admin.admin import Admin
from orbitmq.admin.command import command
from orbitmq.admin.output import Done, Facts
from orbitmq.protocol.requests.route import DeleteKvConfig, GetKvConfig, GetKvlistByNamespace, PutKvConfig


async def kv_list(admin: Admin, namespace: str) -> dict[str, str]:
    """All values of a namespace. Raises NotFound if it has none."""
    return dict(sorted((await admin.ask(GetKvlistByNamespace(namespace))).body.table.items()))


async def kv_get(admin: Admin, namespace: str, key: str) -> str:
    """One value. Raises NotFound."""
    return (await admin.ask(GetKvConfig(namespace, key))).value or ""


async def kv_put(admin: Admin, namespace: str, key: str, value: str) -> None:
    """Sets one value in every name server."""
    await admin.ask_all(PutKvConfig(namespace, key, value))


async def kv_delete(admin: Admin, namespace: str, key: str) -> None:
    """Removes one value from every name server."""
    await admin.ask_all(DeleteKvConfig(namespace, key))


@command("kv", "list", "orbitmq admin kv list ORDER_TOPIC_CONFIG")
@click.argument("namespace")
async def show_all(admin: Admin, namespace: str) -> Facts:
    """All values of NAMESPACE."""
    return Facts(await kv_list(admin, namespace))


@command("kv", "get", "orbitmq admin kv get ORDER_TOPIC_CONFIG orders")
@click.argument("namespace")
@click.argument("key")
async def show_one(admin: Admin, namespace: str, key: str) -> Facts:
    """One value."""
    return Facts({key: await kv_get(admin, namespace, key)})


@command("kv", "put", "orbitmq admin kv put ORDER_TOPIC_CONFIG orders broker-a:4")
@click.argument("namespace")
@click.argument("key")
@click.argument("value")
async def put(admin: Admin, namespace: str, key: str, value: str) -> Done:
    """Set one value in every name server."""
    await kv_put(admin, namespace, key, value)
    return Done(f"{namespace} {key} is {value}", {"namespace": namespace, "key": key, "value": value})


@command("kv", "delete", "orbitmq admin kv delete ORDER_TOPIC_CONFIG orders")
@click.argument("namespace")
@click.argument("key")
async def delete(admin: Admin, namespace: str, key: str) -> Done:
    """Remove one value from every name server."""
    await kv_delete(admin, namespace, key)
    return Done(f"{namespace} {key} is gone", {"namespace": namespace, "key": key})
