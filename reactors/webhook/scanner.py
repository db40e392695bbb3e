"""A review in pieces: finds chosen members of its objects without holding the rest. Pure but for its state.

The API server writes ``<``, ``&`` and U+2028 as six bytes each, so a review can be twenty times as large as the request
behind it. The available decoders cannot read a document in pieces.
Values outside the chosen paths are skipped at the speed of C:
``bytes.split`` cuts texts out, and the remaining brackets show the end of a value. Windows grow with the value, so
the time is linear in the bytes for any shape.

For invalid JSON the members found are arbitrary; it never raises.

Source: RFC 8259.
"""

from __future__ import annotations

import re
from collections.abc import Container
from hashlib import blake2b
from itertools import accumulate

import msgspec

#: A member's place: the keys on its path.
Path = tuple[str, ...]

#: Stored bytes of a chosen value.
MOST_KEPT = 16_384
_SMALLEST, _LARGEST = 256, 65_536
_KEY = re.compile(rb'[\s,]*+(?:(\})|"((?:[^"\\]++|\\.)*+)"\s*+:\s*+)', re.DOTALL)
_LONGEST_KEY = 4_096
_TEXT_END = re.compile(rb'(?:[^"\\]++|\\.)*+"', re.DOTALL)
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)
_SCALAR = re.compile(rb"[^,}\]\s]*+")
#: A value without others in it, and the byte after it.
_SIMPLE = re.compile(rb'(?:"(?:[^"\\]++|\\.)*+"|\{\}|\[\]|[^"\[\]{},\s]++)(?=[,}])', re.DOTALL)
_ALL_BUT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = {0x5B: 1, 0x7B: 1, 0x5D: -1, 0x7D: -1}


class Member:
    """A chosen value: its first bytes, its length, and a digest to compare two."""

    __slots__ = ("_digest", "head", "is_whole", "size")

    def __init__(self) -> None:
        self.head = b""
        self.size = 0
        #: Whether its end was read.
        self.is_whole = False
        self._digest = blake2b(digest_size=16)

    def add(self, piece: bytes) -> None:
        """More bytes of it."""
        if self.size < MOST_KEPT:
            self.head += piece[: MOST_KEPT - self.size]
        self.size += len(piece)
        self._digest.update(piece)

    @property
    def digest(self) -> bytes:
        """Equal for equal bytes."""
        return self._digest.digest()

    @property
    def raw(self) -> bytes | None:
        """All its bytes; None for a long value, or one without its end."""
        return self.head if self.is_whole and self.size <= MOST_KEPT else None


class Scanner:
    """Reads one JSON object piece by piece: enters the objects at ``entered``, keeps the members at ``chosen``."""

    def __init__(self, entered: Container[Path], chosen: Container[Path]) -> None:
        #: The first member of each path.
        self.members: dict[Path, Member] = {}
        #: Whether the whole object was read.
        self.is_done = False
        #: Whether the bytes cannot be followed any more.
        self.is_lost = False
        self._entered, self._chosen = entered, chosen
        self._rest = b""
        #: The open objects; None for the root before it begins.
        self._path: Path | None = None
        #: The skipped value: its member if it was chosen, its depth, and whether a text is open.
        self._is_skipping = self._in_text = self._is_scalar = False
        self._member: Member | None = None
        self._depth, self._window = 0, _SMALLEST

    def feed(self, piece: bytes) -> None:
        """The next bytes."""
        data, at = self._rest + piece if self._rest else piece, 0
        while not (self.is_done or self.is_lost):
            before = at
            at = self._skipped(data, at) if self._is_skipping else self._stepped(data, at)
            if at < 0:
                at = before
                break
        self._rest = b"" if self.is_done or self.is_lost else data[at:]

    def _stepped(self, data: bytes, at: int) -> int:
        """Where the next member's value begins, or the object's end; negative where more bytes are needed."""
        if self._path is None:
            begun = data[at:].lstrip()
            if not begun:
                return -1
            self._path, self.is_lost = (), not begun.startswith(b"{")
            return len(data) - len(begun) + 1
        found = _KEY.match(data, at)
        if found is None or (found.end() == len(data) and found[1] is None):
            self.is_lost = len(data) - at > _LONGEST_KEY
            return -1
        if found[1] is not None:
            self.is_done, self._path = not self._path, self._path[:-1]
            return found.end()
        return self._begun((*self._path, _text(found[2])), data, found.end())

    def _begun(self, path: Path, data: bytes, at: int) -> int:
        first = data[at : at + 1]
        if first == b"{" and path in self._entered:
            self._path = path
            return at + 1
        self._member = None
        if path in self._chosen and path not in self.members:
            self._member = self.members[path] = Member()
        elif simple := _SIMPLE.match(data, at):
            return simple.end()
        self._is_skipping, self._window = True, _SMALLEST
        self._in_text, self._is_scalar = first == b'"', first not in (b'"', b"{", b"[")
        self._depth = 1 if first in (b"{", b"[") else 0
        return at if self._is_scalar else self._kept(data, at, at + 1)

    def _kept(self, data: bytes, at: int, end: int) -> int:
        if self._member is not None:
            self._member.add(data[at:end])
        return end

    def _ended(self, data: bytes, at: int, end: int) -> int:
        self._kept(data, at, end)
        if self._member is not None:
            self._member.is_whole = True
        self._is_skipping = False
        return end

    def _skipped(self, data: bytes, at: int) -> int:
        """The end of the value, or of its part so far; negative if more bytes are needed."""
        if self._is_scalar:
            found = _SCALAR.match(data, at)
            end = found.end() if found else at
            if end < len(data):
                return self._ended(data, at, end)
            return self._kept(data, at, end) if end > at else -1
        piece = data[at : at + self._window]
        # A backslash that escapes the next byte is read with it.
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2:
            piece = piece[:-1]
        if not piece:
            return -1
        begun = b'"' + piece if self._in_text else piece
        cut = begun.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        brackets = b"".join(cut[::2]).translate(None, _ALL_BUT_BRACKETS)
        if self._is_over(cut, brackets):
            return self._ended(data, at, self._end(data, at))
        closed = brackets.count(b"]") + brackets.count(b"}")
        self._depth += len(brackets) - 2 * closed
        self._in_text = len(cut) % 2 == 0
        self._window = min(4 * self._window, _LARGEST)
        return self._kept(data, at, at + len(piece))

    def _is_over(self, cut: list[bytes], brackets: bytes) -> bool:
        """Whether the value ends within a window."""
        if not self._depth:
            return len(cut) > 2
        if brackets.count(b"]") + brackets.count(b"}") < self._depth:
            return False
        return 0 in accumulate(map(_STEPS.__getitem__, brackets), initial=self._depth)

    def _end(self, data: bytes, at: int) -> int:
        """The end of the value, within these bytes."""
        if self._in_text:
            found = _TEXT_END.match(data, at)
            at = found.end() if found else at
        depth = self._depth
        if not depth:
            return at
        for token in _TOKEN.finditer(data, at):
            depth += _STEPS.get(data[token.start()], 0)
            if not depth:
                return token.end()
        return len(data)


def _text(raw: bytes) -> str:
    """A key without its quotes; for an unreadable one, a key that is never chosen."""
    try:
        found: str = msgspec.json.decode(b'"%b"' % raw, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "\0"
    return found
