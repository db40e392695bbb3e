"""The choice of one of several equal nodes. Pure."""

from __future__ import annotations

from hashlib import blake2b


def seed(uid: str, sequence: int) -> int:
    """A number hard to foresee and computable again by anyone."""
    text = f"{uid}/{sequence}".encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big")
