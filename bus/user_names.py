"""Encrypts names of users in the history under a key: destroying the key destroys the names, and nothing else.

A name is encrypted at its first publication. Events, rows and segments hold the token alone, and sums, digests and
signatures cover the written bytes: they verify with the key and without it. The same name has the same token under
one key, so reports group by it. Tokens show the length of a name in steps of 16 bytes. Pure.

Source: RFC 5297 (AES-SIV); docs/history.md.
"""

from __future__ import annotations

import base64
import binascii
import re
from functools import lru_cache
from hashlib import sha512
from typing import Any

#: Fewest bytes of a key's file.
LEAST_BYTES = 32
#: Longest name as UTF-8, longer ones are cut: a part of a ledger key has at most 400 bytes.
LONGEST_BYTES = 200
#: A token begins so. No value of a label does.
MARK = "~"
#: 16 bytes as a proof of the key, and 16 or more of the name.
_TOKEN = re.compile(r"~[a-z2-7]{52,}")
_BLOCK = 16
_PURPOSE = [b"bursar user name"]


class UserNames:
    """Encrypts the names of users, and reads them again."""

    def __init__(self, secret: bytes) -> None:
        """``secret``: the content of the key's file. Raises ValueError for a too short one."""
        secret = secret.rstrip(b"\r\n")
        if len(secret) < LEAST_BYTES:
            raise ValueError(f"a key has at least {LEAST_BYTES} bytes")
        # Questions without names do not pay for the import.
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV

        self._cipher = AESSIV(sha512(secret).digest())
        self._sealed: Any = lru_cache(65_536)(self._seal)

    def sealed(self, name: str) -> str:
        """The token of a name; of a token of this key itself."""
        token: str = self._sealed(name)
        return token

    def opened(self, text: str) -> str:
        """A text with the names of its tokens; those of other keys stay."""
        return _TOKEN.sub(self._open, text) if MARK in text else text

    def _seal(self, name: str) -> str:
        if _TOKEN.fullmatch(name) and self._name(name) is not None:
            return name
        plain = name.encode()[:LONGEST_BYTES].decode(errors="ignore").encode()
        plain += bytes(-len(plain) % _BLOCK or (0 if plain else _BLOCK))
        sealed = self._cipher.encrypt(plain, _PURPOSE)
        return MARK + base64.b32encode(sealed).decode().rstrip("=").lower()

    def _open(self, found: re.Match[str]) -> str:
        name = self._name(found[0])
        return found[0] if name is None else name

    def _name(self, token: str) -> str | None:
        from cryptography.exceptions import InvalidTag

        text = token.removeprefix(MARK).upper()
        try:
            sealed = base64.b32decode(text + "=" * (-len(text) % 8))
            return self._cipher.decrypt(sealed, _PURPOSE).rstrip(b"\x00").decode()
        except (InvalidTag, binascii.Error, ValueError):
            return None
