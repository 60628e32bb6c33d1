"""Schemas of topics, in a file of the console's folder, and bodies decoded by them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from orbitmq.console.decoding import (
    MAX_BODY_BYTES,
    TOO_LONG_TO_DECODE,
    Decode,
    Schema,
    UndecodableBody,
    decoder_of,
)
from orbitmq.options import OptionError
from orbitmq.whole_files import write_whole

MOST_SCHEMAS = 1000
MAX_SCHEMA_CHARACTERS = 1 << 20

Table = dict[str, dict[str, Schema]]


class Schemas:
    """Schemas by cluster and topic. The file is read at the start and written with every change."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._table: Table = {}
        self._decoders: dict[tuple[str, str], Decode] = {}
        try:
            self._table = msgspec.json.decode(path.read_bytes(), type=Table)
        except FileNotFoundError:
            pass
        except msgspec.MsgspecError as error:
            raise OptionError(f"{path} holds no schemas: {error}") from None

    def of(self, cluster: str) -> dict[str, Schema]:
        return self._table.get(cluster, {})

    def put(self, cluster: str, topic: str, schema: Schema) -> None:
        """Keeps a schema. Raises BadSchema, DecoderMissing, OptionError."""
        decoder = decoder_of(schema)
        if sum(map(len, self._table.values())) >= MOST_SCHEMAS and topic not in self.of(cluster):
            raise OptionError(f"there are {MOST_SCHEMAS} schemas already")
        self._save({**self._table, cluster: {**self.of(cluster), topic: schema}})
        self._decoders[(cluster, topic)] = decoder

    def remove(self, cluster: str, topic: str) -> None:
        """Forgets a schema, if there is one."""
        if topic in self.of(cluster):
            rest = {name: one for name, one in self.of(cluster).items() if name != topic}
            self._save({**self._table, cluster: rest})
            self._decoders.pop((cluster, topic), None)

    async def decode(self, cluster: str, topic: str, body: bytes) -> str | None:
        """A body as JSON; None without a schema. Raises UndecodableBody, BadSchema, DecoderMissing."""
        schema = self.of(cluster).get(topic)
        if schema is None or not body:
            return None
        if len(body) > MAX_BODY_BYTES:
            raise UndecodableBody(TOO_LONG_TO_DECODE)
        decoder = self._decoders.get((cluster, topic))
        if decoder is None:
            decoder = self._decoders[(cluster, topic)] = decoder_of(schema)
        return await asyncio.to_thread(decoder, body)

    def _save(self, table: Table) -> None:
        write_whole(self._path, msgspec.json.encode(table), mode=0o600)
        self._table = table
