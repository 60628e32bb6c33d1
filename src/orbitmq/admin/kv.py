"""The name servers' key-value configuration."""

from __future__ import annotations

from orbitmq.admin.admin import Admin
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
