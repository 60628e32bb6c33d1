import socket
import threading

import pytest

from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.errors import CallTimeout, Closed, ConnectFailed, ConnectionLost
from orbitmq.protocol.errors import BrokerRefused, MalformedFrame
from orbitmq.protocol.remoting.command import FLAG_RESPONSE, Command
from orbitmq.protocol.requests.offset import GetMaxOffset
from tests.kit.spark_broker import Answer, FakeBroker


def answer_with(offset: int) -> Command:
    return Command(0, 0, FLAG_RESPONSE, {"offset": str(offset)})


def test_calls() -> None:
    with FakeBroker(lambda _: answer_with(42)) as broker, BlockingConnection(broker.address) as connection:
        assert connection.call(GetMaxOffset(topic="t", queue_id=0)).offset == 42
        assert connection.call(GetMaxOffset(topic="t", queue_id=1)).offset == 42
    assert connection.is_closed
    with pytest.raises(Closed):
        connection.call(GetMaxOffset(topic="t", queue_id=0))


def test_answers_in_any_order_keep_their_opaque() -> None:
    def by_queue(request: Command) -> Answer:
        assert request.ext is not None
        return answer_with(int(request.ext["queueId"]))

    with (
        FakeBroker(by_queue, reverse=True) as broker,
        BlockingConnection(broker.address) as connection,
    ):
        asked = {connection.send(GetMaxOffset(topic="t", queue_id=n)): str(n) for n in range(20)}
        for _ in range(20):
            answer = connection.receive(60_000)
            assert answer.ext == {"offset": asked.pop(answer.opaque)}


def test_an_error_answer_is_an_exception_with_its_code() -> None:
    refusal = Command(17, 0, FLAG_RESPONSE, None, None, "topic[t] not exist")
    with FakeBroker(lambda _: refusal) as broker, BlockingConnection(broker.address) as connection:
        with pytest.raises(BrokerRefused, match="not exist") as caught:
            connection.call(GetMaxOffset(topic="t", queue_id=0))
        assert caught.value.code == 17
        assert not connection.is_closed


def test_a_peer_that_closes() -> None:
    with FakeBroker(lambda _: None) as broker, BlockingConnection(broker.address) as connection:
        with pytest.raises(ConnectionLost):
            connection.call(GetMaxOffset(topic="t", queue_id=0))
        assert connection.is_closed


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it speaks HTTP"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "it speaks TLS"),
        (b"", "its port may take TLS alone"),
    ],
)
def test_a_peer_of_another_protocol_is_named(said: bytes, reason: str) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        BlockingConnection(f"127.0.0.1:{listener.getsockname()[1]}") as connection,
        listener.accept()[0] as peer,
    ):
        connection.send(GetMaxOffset(topic="t", queue_id=0))
        peer.recv(1 << 16)
        peer.sendall(said)
        peer.shutdown(socket.SHUT_WR)
        with pytest.raises(ConnectionLost, match=reason):
            connection.receive(60_000)


def test_a_peer_that_says_nothing() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        BlockingConnection(f"127.0.0.1:{listener.getsockname()[1]}") as connection,
    ):
        with pytest.raises(CallTimeout):
            connection.call(GetMaxOffset(topic="t", queue_id=0), timeout_ms=50)
        assert connection.is_closed


@pytest.mark.parametrize("rubbish", [bytes(8), b"\x7f" * 64])
def test_a_peer_that_speaks_something_else(rubbish: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.sendall(rubbish)
                peer.recv(1 << 16)

        thread = threading.Thread(target=serve)
        thread.start()
        with BlockingConnection(f"127.0.0.1:{listener.getsockname()[1]}") as connection:
            with pytest.raises(MalformedFrame):
                connection.receive(60_000)
            assert connection.is_closed
        thread.join()


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(ConnectFailed, match=address):
        BlockingConnection(address)
