"""Calls of the gRPC service, one by one, as a client of RocketMQ 5 makes them."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
from typing import Any

import grpc
import grpc.aio

from orbitmq.proxy.service import SERVICE
from orbitmq.proxy.wire import messaging_pb2 as pb

DATE_TIME = "20260101T000000Z"


class BareClient:
    """One client over one channel; `credentials` are access key and secret key."""

    def __init__(
        self,
        address: str,
        client_id: str = "c1",
        credentials: tuple[str, str] | None = None,
        tls: grpc.ChannelCredentials | None = None,
        options: list[tuple[str, Any]] | None = None,
    ) -> None:
        if tls is None:
            self.channel = grpc.aio.insecure_channel(address, options)
        else:
            self.channel = grpc.aio.secure_channel(address, tls, options)
        self._metadata = [
            ("x-mq-client-id", client_id),
            ("x-mq-language", "PYTHON"),
            ("x-mq-client-version", "5.1.2"),
        ]
        if credentials is not None:
            key, secret = credentials
            signature = hmac.digest(secret.encode(), DATE_TIME.encode(), "sha1").hex()
            signed = f"Credential={key}, SignedHeaders=x-mq-date-time, Signature={signature}"
            self._metadata += [
                ("x-mq-date-time", DATE_TIME),
                ("authorization", f"MQv2-HMAC-SHA1 {signed}"),
            ]
        self.host, _, self.port = address.rpartition(":")
        self.told: asyncio.Queue[pb.TelemetryCommand] = asyncio.Queue()
        self._streams: list[Any] = []

    async def close(self) -> None:
        for stream in self._streams:
            stream.cancel()
        await self.channel.close()

    async def call(self, name: str, request: Any, seconds: float = 30) -> Any:
        """The answer to a call with one."""
        made = self.channel.unary_unary(
            f"/{SERVICE}/{name}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=getattr(pb, f"{name}Response").FromString,
        )
        return await made(request, metadata=self._metadata, timeout=seconds)

    async def answers(self, name: str, request: Any, seconds: float = 30) -> list[Any]:
        """All answers to a call with several."""
        made = self.channel.unary_stream(
            f"/{SERVICE}/{name}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=getattr(pb, f"{name}Response").FromString,
        )
        return [one async for one in made(request, metadata=self._metadata, timeout=seconds)]

    async def settle_in(self, settings: pb.Settings) -> pb.Settings:
        """Opens a telemetry stream with these settings; gives those of the proxy."""
        made = self.channel.stream_stream(
            f"/{SERVICE}/Telemetry",
            request_serializer=pb.TelemetryCommand.SerializeToString,
            response_deserializer=pb.TelemetryCommand.FromString,
        )
        stream = made(metadata=self._metadata)
        self._streams.append(stream)
        await stream.write(pb.TelemetryCommand(settings=settings))
        first = await stream.read()
        assert isinstance(first, pb.TelemetryCommand)

        async def read() -> None:
            with contextlib.suppress(asyncio.CancelledError, grpc.aio.AioRpcError):
                while isinstance(command := await stream.read(), pb.TelemetryCommand):
                    await self.told.put(command)

        self._reading = asyncio.create_task(read())
        return first.settings

    async def tell(self, command: pb.TelemetryCommand) -> None:
        """Sends a command over the newest telemetry stream."""
        await self._streams[-1].write(command)

    def producing(self, *topics: str) -> pb.Settings:
        settings = pb.Settings(client_type=pb.PRODUCER)
        for topic in topics:
            settings.publishing.topics.add(name=topic)
        return settings

    def consuming(self, group: str, *topics: str) -> pb.Settings:
        settings = pb.Settings(client_type=pb.SIMPLE_CONSUMER)
        settings.subscription.group.name = group
        for topic in topics:
            entry = settings.subscription.subscriptions.add()
            entry.topic.name, entry.expression.expression = topic, "*"
        return settings

    async def send(self, topic: str, *bodies: bytes, **system: Any) -> pb.SendMessageResponse:
        request = pb.SendMessageRequest()
        for number, body in enumerate(bodies):
            message = request.messages.add(body=body)
            message.topic.name = topic
            message.system_properties.message_id = f"{id(request):X}{number:04}"
            for name, value in system.items():
                setattr(message.system_properties, name, value)
        response: pb.SendMessageResponse = await self.call("SendMessage", request)
        return response

    async def receive(
        self, topic: str, group: str, *, tags: str = "*", wait_ms: int = 20_000, invisible_ms: int = 60_000
    ) -> list[pb.Message]:
        request = pb.ReceiveMessageRequest(batch_size=32)
        request.group.name, request.message_queue.topic.name = group, topic
        request.filter_expression.expression = tags
        request.invisible_duration.FromMilliseconds(invisible_ms)
        request.long_polling_timeout.FromMilliseconds(wait_ms)
        return [
            one.message for one in await self.answers("ReceiveMessage", request) if one.HasField("message")
        ]

    async def acknowledge(self, topic: str, group: str, *handles: str) -> pb.AckMessageResponse:
        request = pb.AckMessageRequest()
        request.group.name, request.topic.name = group, topic
        for handle in handles:
            request.entries.add(receipt_handle=handle, message_id="x")
        response: pb.AckMessageResponse = await self.call("AckMessage", request)
        return response
