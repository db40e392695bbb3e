"""ADAPTER: a public append-only log: Rekor, version 1 of its API.

An entry is a short text with its ed25519 signature; the log keeps the text's SHA-256, the signature and the key,
with its time. Its answers are never trusted as they stand: an entry counts if it is proven to be in the tree of a
checkpoint signed by the log's key, and if that key has signed its time. A file has that key; without one the log is
asked, and the owner of its name must be trusted. The completeness of a key's entries is not proven.

Source: Sigstore, Rekor OpenAPI 1.0; RFC 6962 (2.1.1, Merkle audit paths); transparency-dev, "signed note".
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import ssl
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
)

from bus.errors import TransparencyLogError

#: Seconds for a connection, for the next bytes of an answer, and for a whole one; the most bytes of one; entries
#: per request.
CONNECT_SECONDS, ANSWER_SECONDS, WHOLE_SECONDS = 10.0, 60.0, 120.0
MOST_BYTES = 4 * 2**20
#: Packed answers could unpack to any size.
AS_IT_IS = {"Accept-Encoding": "identity"}
AT_ONCE = 10
#: More entries of one key than anybody adds in a hundred years of days.
MOST_ENTRIES = 40_000
#: The added kind of entry: the log itself checks its signature.
KIND, FORMAT = "rekord", "x509"

T = TypeVar("T")


class Witnessed(msgspec.Struct, frozen=True):
    """A proven entry of the log: place, time (seconds UTC), SHA-256 of the text in hex, its signature, and the raw key."""

    index: int
    taken_s: int
    digest: str
    signature: bytes
    public_key: bytes


class _Proof(msgspec.Struct, rename="camel"):
    log_index: int
    tree_size: int
    root_hash: str
    hashes: tuple[str, ...] = ()
    checkpoint: str = ""


class _Verification(msgspec.Struct, rename="camel"):
    inclusion_proof: _Proof
    signed_entry_timestamp: str


class _Entry(msgspec.Struct, rename="camel"):
    body: str
    integrated_time: int
    log_index: int
    log_id: str = msgspec.field(name="logID")
    verification: _Verification | None = None


class _Key(msgspec.Struct):
    content: str


class _Signature(msgspec.Struct, rename="camel"):
    content: str
    public_key: _Key


class _Hash(msgspec.Struct):
    value: str
    algorithm: str = "sha256"


class _Data(msgspec.Struct):
    hash: _Hash


class _Spec(msgspec.Struct):
    signature: _Signature
    data: _Data


class _Body(msgspec.Struct):
    kind: str
    spec: _Spec


class TransparencyLog:
    """The log at a URL. Every method raises TransparencyLogError.

    ``key_file``: the log's public key, PEM; None = the log is asked for it. ``trust_env``: proxies of the environment are used.
    """

    def __init__(self, url: str, key_file: Path | None = None, *, trust_env: bool = False) -> None:
        self._url, self._key_file, self._trust_env = url.rstrip("/"), key_file, trust_env
        self._key: Any = None
        for name in ("httpx", "httpcore"):
            logging.getLogger(name).setLevel(logging.WARNING)

    def add(self, text: bytes, signature: bytes, public_key: bytes) -> None:
        """Add a text's signature, made with an ed25519 key (32 bytes). An existing entry stays there."""
        spec = {
            "signature": {"format": FORMAT, "content": _b64(signature), "publicKey": {"content": _b64(_pem(public_key))}},
            "data": {"content": _b64(text)},
        }  # fmt: skip
        entry = {"apiVersion": "0.0.1", "kind": KIND, "spec": spec}
        answer = self._ask("POST", "/api/v1/log/entries", entry, also=(409,))
        if answer:
            added = list(self._proven(_read(answer, dict[str, _Entry])))
        else:
            added = self.witnessed(public_key)
        if not any((one.signature, one.public_key) == (signature, public_key) for one in added):
            raise self._wrong("it says that it has what was added, and does not show it")

    def witnessed(self, public_key: bytes) -> list[Witnessed]:
        """All proven entries of a key, in the log's order."""
        asked = {"publicKey": {"format": FORMAT, "content": _b64(_pem(public_key))}}
        names = _read(self._ask("POST", "/api/v1/index/retrieve", asked), list[str])
        if len(names) > MOST_ENTRIES:
            raise self._wrong(f"it names {len(names)} entries of one key")
        found: dict[int, Witnessed] = {}
        for part in (names[at : at + AT_ONCE] for at in range(0, len(names), AT_ONCE)):
            answer = self._ask("POST", "/api/v1/log/entries/retrieve", {"entryUUIDs": part})
            several = _read(answer, list[dict[str, _Entry]])
            if len(several) != len(part):
                raise self._wrong(f"of {len(part)} entries that it names it shows {len(several)}")
            for one in several:
                found |= {entry.index: entry for entry in self._proven(one)}
        return [found[index] for index in sorted(found) if found[index].public_key == public_key]

    def _proven(self, entries: dict[str, _Entry]) -> Iterator[Witnessed]:
        """The entries proven to be in the log. Others are an error; those of other kinds are passed over."""
        for name, entry in entries.items():
            body = _unb64(entry.body)
            leaf = sha256(b"\0" + body).hexdigest()
            if not name.endswith(leaf):
                raise self._wrong(f"entry {entry.log_index} is not the one of its name")
            self._check(entry, bytes.fromhex(leaf))
            read = _read(body, msgspec.Raw)
            if _read(bytes(read), dict[str, Any]).get("kind") != KIND:
                continue
            spec = _read(bytes(read), _Body).spec
            key = _raw(_unb64(spec.signature.public_key.content))
            if key is not None:
                yield Witnessed(
                    entry.log_index, entry.integrated_time, spec.data.hash.value, _unb64(spec.signature.content), key,
                )  # fmt: skip

    def _check(self, entry: _Entry, leaf: bytes) -> None:
        where = f"entry {entry.log_index}"
        if entry.verification is None:
            raise self._wrong(f"{where} comes without a proof")
        proof = entry.verification.inclusion_proof
        root = root_of(
            leaf, proof.log_index, proof.tree_size, [_unhex(one) for one in proof.hashes]
        )
        if root is None or root.hex() != proof.root_hash:
            raise self._wrong(f"{where} is not proven to be in the log")
        if not self._is_checkpoint(proof.checkpoint, proof.tree_size, root):
            raise self._wrong(f"{where}: its proof is not signed by the log's key")
        signed = {
            "body": entry.body, "integratedTime": entry.integrated_time, "logID": entry.log_id,
            "logIndex": entry.log_index,
        }  # fmt: skip
        if not self._signed(
            _unb64(entry.verification.signed_entry_timestamp), msgspec.json.encode(signed)
        ):
            raise self._wrong(f"{where}: its time is not signed by the log's key")

    def _is_checkpoint(self, note: str, size: int, root: bytes) -> bool:
        """Whether a signed note says this tree, signed by the log's key under whatever name."""
        text, _, signatures = note.partition("\n\n")
        lines = text.split("\n")
        if len(lines) < 3 or lines[1:3] != [str(size), _b64(root)]:
            return False
        content = text.encode() + b"\n"
        for line in signatures.splitlines():
            parts = line.split(" ")
            if len(parts) == 3 and self._signed(_unb64(parts[2])[4:], content):
                return True
        return False

    def _signed(self, signature: bytes, content: bytes) -> bool:
        key = self._public_key()
        try:
            if isinstance(key, ec.EllipticCurvePublicKey):
                key.verify(signature, content, ec.ECDSA(hashes.SHA256()))
            else:
                key.verify(signature, content)
        except InvalidSignature:
            return False
        return True

    def _public_key(self) -> ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey:
        if self._key is None:
            if self._key_file is not None:
                where = str(self._key_file)
                try:
                    pem = self._key_file.read_bytes()
                except OSError as error:
                    raise TransparencyLogError(f"{where}: {error.strerror}") from None
            else:
                where, pem = (
                    f"{self._url}/api/v1/log/publicKey",
                    self._ask("GET", "/api/v1/log/publicKey"),
                )
            try:
                self._key = load_pem_public_key(pem)
            except (ValueError, UnsupportedAlgorithm):
                self._key = None
            if not isinstance(self._key, ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey):
                self._key = None
                raise TransparencyLogError(
                    f"{where}: no public key of a log (PEM, ECDSA or ed25519)"
                )
        found: ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey = self._key
        return found

    @cached_property
    def _authorities(self) -> ssl.SSLContext:
        """The authorities for certificates; reading them takes longer than a call."""
        return httpx.create_ssl_context(trust_env=self._trust_env)

    def _ask(self, method: str, path: str, body: Any = None, also: Sequence[int] = ()) -> bytes:
        """The body of an answer, or b"" where its status is one of ``also``. Not for a thread with a running loop."""
        try:
            # A loop, as it alone bounds a whole answer: headers, too, may come byte by byte.
            status, content = asyncio.run(self._answer(method, path, body))
        except TimeoutError:
            raise self._wrong(f"{path}: not all of it came in {WHOLE_SECONDS:.0f} s") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._wrong(f"{str(error) or type(error).__name__}") from None
        if status in also:
            return b""
        if not httpx.codes.is_success(status):
            raise self._wrong(f"{path}: HTTP {status}{_reason(content)}")
        return content

    async def _answer(self, method: str, path: str, body: Any) -> tuple[int, bytes]:
        """(status, body) of an answer."""
        timeout, content = httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS), b""
        async with (
            asyncio.timeout(WHOLE_SECONDS),
            httpx.AsyncClient(
                timeout=timeout,
                trust_env=self._trust_env,
                headers=AS_IT_IS,
                verify=self._authorities,
            ) as client,
            client.stream(method, self._url + path, json=body) as answer,
        ):
            async for part in answer.aiter_raw():
                content += part
                if len(content) > MOST_BYTES:
                    raise self._wrong(f"{path}: an answer of more than {MOST_BYTES} bytes")
            return answer.status_code, content

    def _wrong(self, why: str) -> TransparencyLogError:
        return TransparencyLogError(f"{self._url}: {why}")


def root_of(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes | None:
    """The root of a tree of ``size`` leaves by a leaf's hash, its place and its audit path; None where these do not fit."""
    if not 0 <= index < size:
        return None
    node, last = index, size - 1
    found, left = leaf, list(path)
    while last:
        if node % 2 or (node < last):
            if not left:
                return None
            other = left.pop(0)
            pair = other + found if node % 2 else found + other
            found = sha256(b"\1" + pair).digest()
        # The last node of a level without a neighbor goes up as it is.
        node, last = node // 2, last // 2
    return found if not left else None


def _reason(content: bytes) -> str:
    try:
        message = _read(content, dict[str, Any]).get("message")
    except TransparencyLogError:
        return ""
    return f": {message[:200]!r}" if isinstance(message, str) else ""


def _read(content: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TransparencyLogError(f"the log's answer cannot be read: {error}") from None


def _pem(public_key: bytes) -> bytes:
    try:
        key = ed25519.Ed25519PublicKey.from_public_bytes(public_key)
    except ValueError:
        raise TransparencyLogError(f"no ed25519 key: {public_key[:64].hex()}") from None
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _raw(pem: bytes) -> bytes | None:
    """An ed25519 key; None for another."""
    try:
        key = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        return None
    return key.public_bytes_raw() if isinstance(key, ed25519.Ed25519PublicKey) else None


def _b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _unb64(text: str) -> bytes:
    return _unpacked(partial(base64.b64decode, text, validate=True))


def _unhex(text: str) -> bytes:
    return _unpacked(partial(bytes.fromhex, text))


def _unpacked(unpack: partial[bytes]) -> bytes:
    try:
        return unpack()
    except (ValueError, binascii.Error):
        raise TransparencyLogError("the log's answer cannot be read") from None
