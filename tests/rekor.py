"""A transparency log that answers as Rekor does, over a real Merkle tree and with real signatures, and lies where it is told to."""

import base64
import json
import threading
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
)

TREE = "1193050959916656"
NAME = "rekor.test"


def b64(content):
    return base64.b64encode(content).decode()


def leaf_hash(body):
    return sha256(b"\0" + body).digest()


def tree_root(leaves):
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    half = 1 << (len(leaves) - 1).bit_length() - 1
    return sha256(b"\1" + tree_root(leaves[:half]) + tree_root(leaves[half:])).digest()


def audit_path(index, leaves):
    """As RFC 6962 (2.1.1) has it."""
    if len(leaves) <= 1:
        return []
    half = 1 << (len(leaves) - 1).bit_length() - 1
    if index < half:
        return [*audit_path(index, leaves[:half]), tree_root(leaves[half:])]
    return [*audit_path(index - half, leaves[half:]), tree_root(leaves[:half])]


class Log:
    """``lie``: changes an answer's entry before it is sent."""

    def __init__(self):
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.bodies, self.times, self.asked = [], [], []
        self.lie = lambda entry: entry
        self.status, self.url = 0, ""

    @property
    def pem(self):
        return self.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def sign(self, said):
        return self.key.sign(said, ec.ECDSA(hashes.SHA256()))

    def name_of(self, index):
        return f"{int(TREE):016x}{leaf_hash(self.bodies[index]).hex()}"

    def entry(self, index):
        leaves = [leaf_hash(body) for body in self.bodies]
        body, root = b64(self.bodies[index]), tree_root(leaves)
        text = f"{NAME} - {TREE}\n{len(leaves)}\n{b64(root)}\n"
        found = {
            "body": body, "integratedTime": self.times[index], "logID": sha256(self.pem).hexdigest(),
            "logIndex": index,
        }  # fmt: skip
        said = json.dumps(found, sort_keys=True, separators=(",", ":")).encode()
        proof = {
            "checkpoint": f"{text}\n— {NAME} {b64(b'hint' + self.sign(text.encode()))}\n",
            "hashes": [one.hex() for one in audit_path(index, leaves)],
            "logIndex": index, "rootHash": root.hex(), "treeSize": len(leaves),
        }  # fmt: skip
        verification = {"inclusionProof": proof, "signedEntryTimestamp": b64(self.sign(said))}
        return self.lie(found | {"verification": verification})

    def add(self, proposed, taken_s=1_800_000_000):
        """(status, answer)."""
        spec = proposed["spec"]
        signature, text = spec["signature"]["content"], base64.b64decode(spec["data"]["content"])
        key = base64.b64decode(spec["signature"]["publicKey"]["content"])
        try:
            load_pem_public_key(key).verify(base64.b64decode(signature), text)
        except (InvalidSignature, ValueError):
            return 400, {"code": 400, "message": "verifying signature: invalid"}
        body = {
            "apiVersion": "0.0.1", "kind": proposed["kind"],
            "spec": {
                "data": {"hash": {"algorithm": "sha256", "value": sha256(text).hexdigest()}},
                "signature": {"content": signature, "format": "x509", "publicKey": {"content": b64(key)}},
            },
        }  # fmt: skip
        made = json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
        if made in self.bodies:
            return 409, {"code": 409, "message": "an equivalent entry already exists"}
        self.bodies.append(made)
        self.times.append(taken_s)
        index = len(self.bodies) - 1
        return 201, {self.name_of(index): self.entry(index)}

    def of_key(self, content):
        return [
            self.name_of(index)
            for index, body in enumerate(self.bodies)
            if json.loads(body)["spec"]["signature"]["publicKey"]["content"] == content
        ]

    def answer(self, method, path, body):
        self.asked.append((method, path))
        if self.status:
            return self.status, {"code": self.status, "message": "out of order"}
        if path == "/api/v1/log/publicKey":
            return 200, self.pem
        if path == "/api/v1/log/entries":
            return self.add(body)
        if path == "/api/v1/index/retrieve":
            return 200, self.of_key(body["publicKey"]["content"])
        if path == "/api/v1/log/entries/retrieve":
            names = [self.name_of(index) for index in range(len(self.bodies))]
            return 200, [{name: self.entry(names.index(name))} for name in body["entryUUIDs"]]
        return 404, {"code": 404, "message": path}


@contextmanager
def running():
    """A log that listens."""
    log = Log()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, found = log.answer(self.command, self.path, json.loads(body or b"null"))
            content = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    log.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield log
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
