"""A bus that outlives its process: the memory transport, written line by line to a file."""

import os
from pathlib import Path

import msgspec

from bus.envelope import from_line, to_line
from bus.memory import MemoryTransport


class FileTransport(MemoryTransport):
    """What was published is in the file before :meth:`publish` returns; opening reads it back."""

    def __init__(self, path: Path):
        anew = path.with_name(path.name + ".anew")
        super().__init__(created_us=2 if anew.exists() else 1)
        self._path = path
        if path.exists():
            for line in path.read_bytes().splitlines():
                event = _unhidden(from_line(line))
                self.events.append(event)
                self._known[event.id] = event

    async def publish(self, events, *, expect=None):
        before = len(self.events)
        sequences = await super().publish(events, expect=expect)
        lines = b"".join(to_line(_hidden(event)) + b"\n" for event in self.events[before:])
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, lines)
        os.close(descriptor)
        return sequences


def made_anew(path):
    """An empty stream in place of the one that was there."""
    path.with_name(path.name + ".anew").touch()
    path.unlink(missing_ok=True)
    return FileTransport(path)


def _hidden(event):
    """A poison body is no JSON and cannot stand on a line: it is written as a text."""
    try:
        msgspec.json.decode(event.body)
    except msgspec.DecodeError:
        text = msgspec.json.encode({"poison": event.body.decode()})
        return msgspec.structs.replace(event, body=text)
    return event


def _unhidden(event):
    body = msgspec.json.decode(event.body)
    if isinstance(body, dict) and "poison" in body:
        return msgspec.structs.replace(event, body=body["poison"].encode())
    return event
