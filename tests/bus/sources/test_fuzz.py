"""Any bytes and any object: translation gives an event that can be stored, or says no, and
nothing else.
"""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from bus.envelope import checked
from bus.errors import BursarError
from bus.kube.watch import lines
from bus.kube.watch.records import LARGEST_BODY
from bus.sources.catalogue import SOURCES
from tests.bus.sources.records import POLICY, record, recorded
from tests.thorough import tries

texts = st.text(max_size=12) | st.sampled_from(["", "\0", "1e3000000", "x" * 300, "True", "\ud7ff"])
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)
)
recordings = [
    json.loads(seen.object) for kind in ("pods", "nodes", "jobs") for seen in recorded(kind)
]
changes = st.sampled_from(["ADDED", "MODIFIED", "DELETED", "LISTED", "FOO", ""])


def places(thing, path=()):
    """Every place in a value, as the keys that lead to it."""
    yield path
    children = (
        thing.items()
        if isinstance(thing, dict)
        else enumerate(thing)
        if isinstance(thing, list)
        else ()
    )
    for key, child in children:
        yield from places(child, (*path, key))


@st.composite
def damaged(draw):
    """A recorded object with one to three values replaced by others."""
    thing = json.loads(json.dumps(draw(st.sampled_from(recordings))))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(list(places(thing))[1:]))
        inner = thing
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = draw(values)
    return json.dumps(thing).encode()


def tried(source, raw, change):
    try:
        event = source.translate(record(raw, change), POLICY)
    except BursarError:
        return
    checked(event)
    assert len(event.body) <= LARGEST_BODY
    json.loads(event.body)


@given(st.sampled_from(SOURCES), damaged(), changes)
@settings(max_examples=tries(100, 400))
def test_damaged_objects(source, raw, change):
    tried(source, raw, change)


@given(
    st.sampled_from(SOURCES),
    st.binary(max_size=200) | values.map(lambda v: json.dumps(v).encode()),
    changes,
)
@settings(max_examples=tries(60, 200))
def test_any_bytes(source, raw, change):
    tried(source, raw, change)


@given(st.data())
@settings(max_examples=tries(60, 200))
def test_cut_and_spoiled_lines(data):
    line = b'{"type":"ADDED","object":' + json.dumps(recordings[0]).encode() + b"}"
    start = data.draw(st.integers(0, len(line)))
    end = data.draw(st.integers(start, min(len(line), start + 20)))
    spoiled = line[:start] + data.draw(st.binary(max_size=8)) + line[end:]

    try:
        change, raw = lines.opened(spoiled)
    except BursarError:
        return
    lines.bookmark(raw)
    lines.failure(raw, "pods")
    tried(SOURCES[0], raw, change)
