"""`orbitmq admin kv ...`: the name servers' key-value configuration."""

from __future__ import annotations

import click

from orbitmq.admin.admin import Admin
from orbitmq.admin.kv import kv_delete, kv_get, kv_list, kv_put
from orbitmq.admin.output import Done, Facts
from orbitmq.cli.admin.command import command


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
