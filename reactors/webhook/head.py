"""The header of one request, as the parser reads it piece by piece, and its scope for the application. Pure.

Source: RFC 9112; the ASGI specification, HTTP connection scope.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote


class RequestHead:
    """The address and the fields of one request; names of fields in small letters."""

    __slots__ = ("fields", "url")

    def __init__(self) -> None:
        self.url = b""
        self.fields: list[tuple[bytes, bytes]] = []

    @property
    def size(self) -> int:
        """How many bytes it has at least."""
        # Each field has a colon, a space and an end of line besides.
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.fields)

    @property
    def is_expecting(self) -> bool:
        """Whether the other side sends its body only when it is told to go on."""
        for name, value in self.fields:
            if name == b"expect" and value.lower() == b"100-continue":
                return True
        return False

    def scope(self, method: str, version: str, path: bytes) -> dict[str, Any]:
        """The request as an application takes it."""
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": version,
            "method": method,
            "path": unquote(path) if b"%" in path else path.decode("latin-1"),
            "query_string": self.url.partition(b"?")[2],
            "headers": self.fields,
        }
