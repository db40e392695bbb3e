"""Raw connections to an API server: kept open, few at once, and never silent about what may have been done."""

import asyncio
import json

import pytest

from bus.errors import ClusterUnavailableError, ConflictError, PermissionDeniedError
from bus.kube.client import Access, connect, connections

CREATED = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"
HEADERS = b"Content-Type: application/json\r\n"


class Server:
    """Answers bindings by the next of its answers, each the bytes of one; None closes, ... is silence."""

    def __init__(self, folder):
        self.config, self.answers, self.asked = folder / "config", [], []
        self.connections = self.at_once = self.most_at_once = 0
        self.held, self.full = asyncio.Event(), asyncio.Event()
        self.held.set()

    async def __aenter__(self):
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.use_token("first")
        self.cluster = await connect(Access(str(self.config)))
        return self

    async def __aexit__(self, *_):
        await self.cluster.close()
        self.server.close()
        await self.server.wait_closed()

    def use_token(self, token):
        port, named = self.server.sockets[0].getsockname()[1], {"name": "a"}
        config = {
            "current-context": "a",
            "contexts": [named | {"context": {"cluster": "a", "user": "a"}}],
            "clusters": [named | {"cluster": {"server": f"http://127.0.0.1:{port}/below"}}],
            "users": [named | {"user": {"token": token}}],
        }
        self.config.write_text(json.dumps(config))

    async def _serve(self, reader, writer):
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode().split("\r\n")
                headers = dict(line.split(": ", 1) for line in lines[1:] if line)
                body = await reader.readexactly(int(headers["Content-Length"]))
                self.asked.append((lines[0], headers.get("Authorization"), json.loads(body)))
                self.at_once += 1
                self.most_at_once = max(self.most_at_once, self.at_once)
                if self.at_once == connections.MOST:
                    self.full.set()
                await self.held.wait()
                self.at_once -= 1
                answer = self.answers.pop(0) if self.answers else CREATED
                if answer is None:
                    break
                if answer is not ...:
                    writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def bind(self, name="p"):
        await self.cluster.bind(
            "ns", name, uid="u", node="n1", annotations={"bursar.io/decision": "d"}
        )


@pytest.fixture
async def server(tmp_path):
    async with Server(tmp_path) as running:
        yield running


async def test_an_event_goes_by_the_same_connections_as_a_bind(server):
    await server.bind()
    await server.cluster.create("/apis/events.k8s.io/v1/namespaces/ns/events", {"kind": "Event"})

    (_, (line, token, body)) = server.asked
    assert line == "POST /below/apis/events.k8s.io/v1/namespaces/ns/events?fieldManager=bursar HTTP/1.1"  # fmt: skip
    assert (token, body, server.connections) == ("Bearer first", {"kind": "Event"}, 1)


async def test_a_binding_names_uid_node_and_decision_in_one_request(server):
    await server.bind()

    metadata = {
        "name": "p",
        "namespace": "ns",
        "uid": "u",
        "annotations": {"bursar.io/decision": "d"},
    }
    assert server.asked == [
        (
            "POST /below/api/v1/namespaces/ns/pods/p/binding HTTP/1.1", "Bearer first",
            {
                "apiVersion": "v1", "kind": "Binding", "metadata": metadata,
                "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
            },
        )
    ]  # fmt: skip


async def test_requests_one_after_the_other_share_a_connection(server):
    server.answers = [
        b"HTTP/1.1 100 Continue\r\n\r\n" + CREATED,
        b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    ]
    for _ in range(3):
        await server.bind()

    assert server.connections == 1


async def test_at_most_eight_are_asked_at_once(server):
    server.held.clear()
    all_of = [asyncio.create_task(server.bind(f"p{n}")) for n in range(20)]
    async with asyncio.timeout(5):
        await server.full.wait()
    server.held.set()
    await asyncio.gather(*all_of)

    assert (server.most_at_once, server.connections, len(server.asked)) == (8, 8, 20)


async def test_a_connection_that_the_server_closes_is_opened_again(server):
    server.answers = [b"HTTP/1.1 201 Created\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"]
    await server.bind()
    await server.bind()

    assert server.connections == 2


@pytest.mark.parametrize(
    "answer", [None, b"220 smtp\r\n", b"HTTP/1.1 201 Created\r\nContent-Length: 9\r\n\r\n{}"]
)
async def test_an_answer_that_is_lost_is_said_to_be_unknown(server, answer, monkeypatch):
    monkeypatch.setattr(connections, "DEADLINE_SECONDS", 0.1)
    server.answers = [answer]

    with pytest.raises(ClusterUnavailableError) as caught:
        await server.bind()

    assert caught.value.status == 0
    await server.bind()
    assert server.connections == 2


async def test_an_answer_that_does_not_come_ends_with_the_deadline(server, monkeypatch):
    monkeypatch.setattr(connections, "DEADLINE_SECONDS", 0.05)
    server.answers = [...]

    with pytest.raises(ClusterUnavailableError, match="TimeoutError"):
        await server.bind()


async def test_a_refusal_has_its_own_error_and_the_wait_that_the_server_asks_for(server):
    said = b'{"message":"pod p is already assigned to node \\"n2\\"","reason":"Conflict"}'
    length = str(len(said)).encode()
    server.answers = [
        b"HTTP/1.1 409 Conflict\r\nContent-Length: " + length + b"\r\n\r\n" + said,
        b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n",
    ]

    with pytest.raises(ConflictError, match="already assigned"):
        await server.bind()
    with pytest.raises(ClusterUnavailableError) as caught:
        await server.bind()

    assert (caught.value.status, caught.value.delay_seconds) == (429, 7.0)


async def test_a_renewed_token_is_read_after_a_refusal(server):
    refused = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
    server.answers = [refused]
    server.use_token("second")
    await server.bind()
    server.answers = [refused, refused]
    with pytest.raises(PermissionDeniedError):
        await server.bind()

    assert [token for _, token, _ in server.asked] == ["Bearer first"] + ["Bearer second"] * 3
