"""Delayed messages, timers and half messages for the tests of what shows them."""

from __future__ import annotations

from orbitmq import Message, Producer, ReceivedMessage, TransactionProducer, TransactionState

RECALLING = {"recallMessageEnable": "true", "transactionCheckInterval": "3600000"}
"""Broker options: timers may be taken back, and half messages stay as they are while a test looks."""
HOUR_MS = 3_600_000


async def undecided(message: ReceivedMessage) -> TransactionState:
    """The answer of a producer that does not know yet."""
    return TransactionState.UNKNOWN


async def plant_waiting(namesrv: str, topic: str) -> list[str]:
    """Three messages of level 5 and two of level 17, two timers (one and 26 hours ahead), two half messages.

    Gives the unique ids of the timers.
    """
    ids = []
    async with Producer("waiting", namesrv) as producer:
        for number in range(5):
            level = 5 if number < 3 else 17
            await producer.send(Message(topic, f"level {number}", delay_level=level))
        for hours in (1, 26):
            later = Message(topic, f"in {hours} h", keys=f"timer-{hours}", delay_ms=hours * HOUR_MS)
            ids.append((await producer.send(later)).message_id)
    async with TransactionProducer("deciders", namesrv, check=undecided) as transactions:
        for number in range(3):
            half = await transactions.send_half(Message(topic, f"half {number}", keys=f"half-{number}"))
            if number == 0:
                await transactions.end_transaction(half, TransactionState.COMMIT)
    return ids
