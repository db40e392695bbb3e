"""An API server of HTTP answers that a test gives one by one."""

import json

from aiohttp import web

from bus.kube.client import Access, connect

PATH = "/api/v1/pods"


class Server:
    """An HTTP server that answers each request for pods by the next of its answers."""

    def __init__(self, tmp_path):
        self.config = tmp_path / "config"
        self.answers, self.asked, self.accepted = [], [], []

    async def __aenter__(self):
        application = web.Application()
        application.router.add_get(PATH, self.answer)
        self.runner = web.AppRunner(application)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", 0).start()
        self.use_token("first")
        self.cluster = await connect(Access(str(self.config)))
        return self

    async def __aexit__(self, *_):
        await self.cluster.close()
        await self.runner.cleanup()

    def use_token(self, token):
        """Writes the kubeconfig with another token."""
        host, port = self.runner.addresses[0]
        named = {"name": "a"}
        config = {
            "current-context": "a",
            "contexts": [named | {"context": {"cluster": "a", "user": "a"}}],
            "clusters": [named | {"cluster": {"server": f"http://{host}:{port}"}}],
            "users": [named | {"user": {"token": token}}],
        }
        self.config.write_text(json.dumps(config))

    async def answer(self, request):
        """The next answer; one that is a list of chunks is sent in these."""
        self.asked.append((request.headers.get("Authorization"), dict(request.query)))
        self.accepted.append(request.headers.get("Accept"))
        answer = self.answers.pop(0)
        if not isinstance(answer, list):
            return answer
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in answer:
            await response.write(chunk)
        return response
