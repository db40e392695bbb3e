"""The envelope: what goes out as headers or as a line comes back equal, and what does not fit is named."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.clock import format_stamp
from bus.envelope import (
    GENESIS,
    MALFORMED,
    Event,
    canonical,
    chain,
    checked,
    digest,
    event_of,
    from_line,
    key_token,
    link,
    to_line,
)
from bus.errors import EnvelopeError, UnsupportedVersionError
from bus.events.scvs import ScvVanished
from bus.jetstream import wire

TIME_US = 1_700_000_000_123_456
BASE = Event("c1", "pod.observed", "team-a/p", "uid-1/7/o", "watch/pods", TIME_US, b'{"a":1}', 2, 9)


def headers_of(event: Event) -> dict[str, str]:
    """The NATS headers of an event, in the order in which they are written."""
    return {
        "Nats-Msg-Id": event.id,
        "ce-specversion": "1.0",
        "ce-id": event.id,
        "ce-source": event.source,
        "ce-type": event.type,
        "ce-subject": event.key,
        "ce-time": format_stamp(event.time_us),
        "ce-dataversion": str(event.version),
    }


text = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\x85"), max_size=40
)
filled = text.filter(lambda t: t.strip() == t and t)
bodies = st.dictionaries(text, st.integers() | text, max_size=4).map(msgspec.json.encode)
events = st.builds(
    Event,
    cluster=st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True),
    type=st.from_regex(r"[a-z]{1,12}\.[a-z-]{1,12}", fullmatch=True),
    key=st.just("") | filled,
    id=filled,
    source=filled,
    time_us=st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999),
    body=bodies,
    version=st.integers(1, 999),
    sequence=st.integers(1, 2**63),
)


def header_block(headers):
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"NATS/1.0\r\n{lines}\r\n".encode()


@given(events)
def test_headers_bring_an_event_back(event):
    assert event_of(event.subject, headers_of(event), event.body, event.sequence) == event


@given(events)
def test_the_bytes_on_nats_bring_an_event_back(event):
    headers = (wire.head(event) + "Nats-Batch-Id: b\r\nNats-Batch-Sequence: 3\r\n\r\n").encode()

    assert wire.read(wire.subject(event).encode(), headers, event.body, event.sequence) == event


@given(events)
def test_a_line_brings_an_event_back(event):
    line = to_line(event)

    assert b"\n" not in line
    assert from_line(line) == event
    assert canonical(from_line(line)) == canonical(event)


@given(events)
def test_headers_are_written_in_the_order_of_the_envelope(event):
    assert (wire.head(event) + "\r\n").encode() == header_block(headers_of(event))


@given(
    st.lists(
        st.sampled_from(
            [b"ce-id", b"ce-type", b"Nats-Msg-Id", b": ", b":", b"\r\n", b" x", b"\xff"]
        )
        | st.binary(max_size=6),
        max_size=30,
    ),
    st.sampled_from([b"bursar.c1.pod.observed.k", b"bursar", b"", b"a.b.c.d.e", b"\xff.b.c.d.e"]),
)
def test_reading_is_total(parts, subject):
    event = wire.read(subject, b"NATS/1.0\r\n" + b"".join(parts), b"{}", 5)

    assert (event.type == MALFORMED) == bool(event.defect)
    assert event.sequence == 5


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda h: {"CE-Extra": "1", **h}, id="a foreign header first"),
        pytest.param(lambda h: dict(reversed(h.items())), id="another order"),
        pytest.param(lambda h: {**h, "Nats-Msg-Id": "other"}, id="another message id"),
        pytest.param(lambda h: {**h, "ce-specversion": "1.1"}, id="another version of CloudEvents"),
    ],
)
def test_odd_headers_are_read_the_slow_way_with_the_same_result(change):
    headers = change(headers_of(BASE))

    read = wire.read(BASE.subject.encode(), header_block(headers), BASE.body, 9)

    assert read == event_of(BASE.subject, headers, BASE.body, 9) == BASE


@pytest.mark.parametrize(
    ("headers", "subject", "defect"),
    [
        (None, BASE.subject, "no headers"),
        ({}, BASE.subject, "header ce-type is missing"),
        ({"ce-time": "yesterday"}, BASE.subject, "time"),
        ({"ce-dataversion": "two"}, BASE.subject, "two"),
        ({"ce-type": "pod.vanished"}, BASE.subject, "does not belong to the subject"),
        # Its place in the stream is the last of another journal, which nobody could append to any more.
        ({"ce-subject": "other"}, BASE.subject, "the key does not belong to the subject"),
        ({"ce-subject": "x" * 65}, f"bursar.c1.pod.observed.{'x' * 65}", "the key does not belong"),
        ({}, "bursar.c1.pod", "header"),
        ({"ce-type": "pod"}, "bursar.c1.pod", "does not belong to the subject"),
    ],
)
def test_a_malformed_envelope_is_an_event_that_says_so(headers, subject, defect):
    if headers:
        headers = headers_of(BASE) | headers

    event = event_of(subject, headers, b"raw", 12)

    if headers is not None:
        assert event == wire.read(subject.encode(), header_block(headers), b"raw", 12)
    assert (event.type, event.body, event.sequence) == (MALFORMED, b"raw", 12)
    assert defect in event.defect


@pytest.mark.parametrize("name", ["id", "source", "type", "cluster"])
@pytest.mark.parametrize("value", ["", "a\nb", "a\x00", "x" * 600])
def test_an_attribute_that_may_not_enter_is_named(name, value):
    with pytest.raises(EnvelopeError) as refused:
        checked(msgspec.structs.replace(BASE, **{name: value}))

    assert refused.value.attribute == name


@pytest.mark.parametrize("name", ["id", "source", "key"])
@pytest.mark.parametrize("value", ["a\r\nb", "a\x7f", "x" * 600])
def test_the_wire_refuses_what_the_envelope_refuses(name, value):
    with pytest.raises(EnvelopeError):
        wire.head(msgspec.structs.replace(BASE, **{name: value}))


@pytest.mark.parametrize("cluster", ["a b", "a.b", "*", ">", "ü", "", "a\r\nPUB x 0", "x" * 65])
def test_a_cluster_that_is_no_subject_token_is_refused(cluster):
    with pytest.raises(EnvelopeError):
        wire.subject(msgspec.structs.replace(BASE, cluster=cluster))


@pytest.mark.parametrize("type", ["pod", "pod.a.b", "Pod.x", "pod.*", "pod.>", "pod. x", ""])
def test_a_type_that_is_not_two_tokens_is_refused(type):
    with pytest.raises(EnvelopeError):
        wire.subject(msgspec.structs.replace(BASE, type=type))


@given(text)
def test_any_key_makes_one_subject_token(key):
    token = key_token(key)

    assert token.isascii() and 0 < len(token) <= 64
    assert not set(token) & set(" .*>\r\n")


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "other"},
        {"source": "other"},
        {"type": "pod.vanished"},
        {"cluster": "c2"},
        {"key": "other"},
        {"time_us": TIME_US + 1},
        {"version": 3},
        {"body": b'{"a":2}'},
        {"defect": "odd"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_the_digest_covers_every_attribute(changes):
    assert digest(msgspec.structs.replace(BASE, **changes)) != digest(BASE)


def test_the_digest_leaves_the_place_out_and_the_chain_does_not():
    moved = msgspec.structs.replace(BASE, sequence=10)

    assert digest(moved) == digest(BASE)
    assert link(GENESIS, moved) != link(GENESIS, BASE)


def test_the_chain_tells_a_swap():
    other = msgspec.structs.replace(BASE, id="other", sequence=10)

    assert chain(GENESIS, [BASE, other])[-1] != chain(GENESIS, [other, BASE])[-1]
    assert chain(GENESIS, [BASE, other])[-1] == link(link(GENESIS, BASE), other)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda line: line[:-1], id="cut off"),
        pytest.param(lambda line: b"\xef\xbb\xbf" + line, id="with a byte order mark"),
        pytest.param(lambda line: b"[" + line + b"]", id="a list"),
        pytest.param(lambda line: line.replace(b'"time"', b'"tme"'), id="a field misspelt"),
        pytest.param(lambda line: line.replace(b"Z", b""), id="a time without a zone"),
        pytest.param(lambda line: line.replace(b'"1.0"', b'"2.0"'), id="CloudEvents 2.0"),
        pytest.param(lambda line: line.replace(b"uid-1", b"uid\\n1"), id="a line end in the id"),
        pytest.param(lambda line: line.replace(b'{"a":1}', b'{"a":NaN}'), id="NaN in the body"),
        pytest.param(lambda line: line.replace(b'{"a":1}', b"[" * 5_000), id="nested too deep"),
    ],
)
def test_a_line_that_is_no_event_is_refused(change):
    with pytest.raises(EnvelopeError):
        from_line(change(to_line(BASE)))


DEEP = b',"more":' + b"[" * 70 + b"]" * 70


@pytest.mark.parametrize(
    "more", [DEEP, b',"more":' + b"[" * 5_000 + b"]" * 5_000, b',"name":"\xff"']
)
@pytest.mark.parametrize("version", [1, 2])
def test_a_body_that_nests_too_deep_or_is_no_text_fits_no_fact(version, more):
    class Lifted(ScvVanished, frozen=True, kw_only=True):
        version = 2
        upcasts = {1: dict}

    said = ScvVanished(uid="u", name="n", resource_version="1")
    body = msgspec.json.encode(said)[:-1] + more + b"}"

    with pytest.raises(EnvelopeError):
        Lifted.read(msgspec.structs.replace(BASE, body=body, version=version))


def test_a_newer_version_is_read_a_release_before_it_is_written():
    class Older(ScvVanished, frozen=True, kw_only=True):
        downcasts = {2: lambda body: {**body, "name": body.pop("title")}}

    body = b'{"uid":"u","title":"n","resource_version":"1"}'
    newer = msgspec.structs.replace(BASE, body=body, version=2)

    assert Older.read(newer) == Older(uid="u", name="n", resource_version="1")
    for hurt in ({"version": 3}, {"body": body[:-1] + DEEP + b"}"}, {"body": b"{}"}):
        with pytest.raises((EnvelopeError, UnsupportedVersionError)):
            Older.read(msgspec.structs.replace(newer, **hurt))


def test_a_malformed_event_is_exported_as_text():
    bad = event_of("bursar.c1.pod.observed.k", {}, b"\xff{raw", 4)

    assert json.loads(to_line(bad))["type"] == MALFORMED


def test_header_fields_of_a_status_message():
    headers = b"NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 7\r\n\r\n"

    assert (wire.status(headers), wire.fields(headers)) == (408, {"Nats-Pending-Messages": "7"})


@pytest.mark.parametrize("headers", [b"", b"NATS/1.0\r\na: b\r\n\r\n", b"NATS/1.0 odd\r\n\r\n"])
def test_what_is_no_status_is_zero(headers):
    assert wire.status(headers) == 0
