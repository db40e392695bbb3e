"""An API server that says whose a token is and what its owner may ask, for tests of the questions over HTTPS."""

from deploy.api.callers import GROUP
from deploy.runtime.confined import Limits

MIB = 2**20
LIMITS = Limits(60.0, 1024 * MIB, 8 * MIB)


class Server:
    """An API server: `tokens` says whose each token is, and ``allowed`` who may get what in which namespace ("" = in all), and
    of which cluster where that is named."""

    def __init__(self, tokens, allowed):
        self.tokens, self.allowed = tokens, allowed

    async def create(self, path, body):
        spec = body["spec"]
        if path.endswith("tokenreviews"):
            user = self.tokens.get(spec["token"])
            known = {"authenticated": True, "user": {"username": user}, "audiences": spec["audiences"]}  # fmt: skip
            return {"status": known if user else {"error": "unknown"}}
        wanted = spec["resourceAttributes"]
        assert (wanted["group"], wanted["verb"]) == (GROUP, "get")
        right = (spec["user"], wanted["resource"])
        have = {(*right, place) for place in ("", wanted["namespace"])}
        have |= {(*one, wanted["name"]) for one in have if wanted["name"]}
        return {"status": {"allowed": bool(have & self.allowed)}}
