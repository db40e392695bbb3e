"""One request to a webhook's application, without a server."""

import asyncio
import json

from tests.reactors.webhook.reviews import encoded


class Asker:
    """The other side of an ASGI application: sends one request, keeps what is answered.

    Instead of a piece of the body: None for a connection that closes, `...` for one that says no more.
    """

    def __init__(self, *chunks, path="/admit", method="POST", content_type="application/json"):
        self._chunks = list(chunks)
        length = sum(len(chunk) for chunk in chunks if isinstance(chunk, bytes))
        headers = [(b"content-type", content_type.encode())] if content_type else []
        self.scope = {
            "type": "http",
            "method": method,
            "path": path,
            "headers": [*headers, (b"content-length", str(length).encode())],
        }
        self.messages = []

    async def receive(self):
        chunk = self._chunks.pop(0) if self._chunks else ...
        if chunk is ...:
            await asyncio.Event().wait()
        if chunk is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": chunk, "more_body": bool(self._chunks)}

    async def send(self, message):
        self.messages.append(message)

    @property
    def status(self):
        return self.messages[0]["status"]

    @property
    def body(self):
        return b"".join(message["body"] for message in self.messages[1:])

    @property
    def response(self):
        return json.loads(self.body)["response"]

    @property
    def closes(self):
        return (b"connection", b"close") in self.messages[0]["headers"]


async def ask(app, *chunks, **request):
    asker = Asker(*(chunks or (encoded(),)), **request)
    await app(asker.scope, asker.receive, asker.send)
    return asker
