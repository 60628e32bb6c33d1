"""Idempotent handlers as users write them, for type checkers alone."""

from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

from orbitmq import PushConsumer, ReceivedMessage, Retry
from orbitmq.idempotence import AsyncSqlAlchemyStore, MemoryStore, SqlAlchemyStore, once

plain = SqlAlchemyStore(sessionmaker(create_engine("sqlite://")))
asynchronous = AsyncSqlAlchemyStore(async_sessionmaker(create_async_engine("sqlite+aiosqlite://")))


@once(plain, key="transferId")
def transfer(message: ReceivedMessage, session: Session) -> Retry | None:
    return None


@once(asynchronous, key=lambda message: message.body.decode())
async def async_transfer(message: ReceivedMessage, session: AsyncSession) -> None: ...


@once(MemoryStore())
async def batch(messages: list[ReceivedMessage]) -> None: ...


async def call(message: ReceivedMessage) -> None:
    await async_transfer(message)


def subscribe(consumer: PushConsumer, message: ReceivedMessage) -> str:
    consumer.subscribe("a", "*", transfer)
    consumer.subscribe("b", "*", async_transfer)
    consumer.subscribe("c", "*", batch, max_messages=10)
    transfer(message)
    return transfer.idempotency_key(message) + async_transfer.idempotency_key(message)
