"""What a stranger with access to the bus can write: bodies of the known types with hostile values, and any bytes around them."""

import json
import random
import string

from hypothesis import strategies as st
from msgspec import inspect

from bus.events import VOCABULARY
from bus.jetstream import wire

_random = random.Random(1)


def noise(length):
    """Text that no database makes shorter: an index refuses long ones."""
    return "".join(_random.choices(string.ascii_letters + string.digits, k=length))


#: Texts that fit, so that many bodies are read and folded; some are meant for a field.
FITTING = (
    "a", "b", "ns", "1", "2", "7", "2026-10-01T09:00:00Z", "2026-10-01T11:00:00Z", "500m", "2", "4Gi", "pods", "Running",
    "Succeeded", "Day", "Windows", "GraceThenEvict", "Europe/Berlin", "nvidia.com/gpu", "cpu", "memory", "limits.cpu",
    "requests.cpu", "admitted", "asked", "observed", "on", "BizGroupResourceQuota", "ElasticQuota", "ReplicaSet",
)  # fmt: skip

#: Texts that a database, an index or a reader of JSON may refuse.
HOSTILE = (
    "", "\x00", "a\x00b", "\x01", "\x1b[31m", "\x7f", "\x85", "\ud800", "\udfff", "\\ud800", noise(3_000), noise(60_000),
    "x" * 60_000, "𝕏" * 700, "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "1e400", "9223372036854775807",
    "9223372036854775808", "100Ei", "-1", "١٢", "../../etc/passwd",
)  # fmt: skip

_EDGES = (-1, 2**31 - 1, 2**31, 2**62, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**30)

_fitting = st.sampled_from(FITTING)
texts = st.one_of(*[_fitting] * 12, st.sampled_from(HOSTILE))
_small = st.sampled_from((0, 1, 2, 60, 1_000, 1_790_000_000))
integers = st.one_of(*[_small] * 5, st.sampled_from(_EDGES))
plain = st.none() | st.booleans() | integers | texts | st.sampled_from((0.5, -1e308))


def values(info, depth=0):
    """JSON values of a type, as `msgspec.inspect` describes it, with hostile leaves."""
    match info:
        case inspect.IntType():
            return integers
        case inspect.StrType():
            return texts
        case inspect.BoolType():
            return st.booleans()
        case inspect.FloatType():
            return st.sampled_from((0.0, 0.5, 1e308, -1.0))
        case inspect.NoneType():
            return st.none()
        case inspect.UnionType():
            return st.one_of(*(values(one, depth) for one in info.types))
        case inspect.LiteralType():
            return st.sampled_from(info.values)
        case inspect.StructType():
            return _struct(info, depth)
        case inspect.DictType():
            return st.dictionaries(texts, values(info.value_type, depth + 1), max_size=3)
        case inspect.TupleType():
            return st.tuples(*(values(one, depth + 1) for one in info.item_types)).map(list)
        case inspect.VarTupleType() | inspect.ListType() | inspect.FrozenSetType():
            return st.lists(values(info.item_type, depth + 1), max_size=3)
        case _:
            return st.dictionaries(
                texts, plain | st.dictionaries(texts, plain, max_size=2), max_size=3
            )


def _struct(info, depth):
    required = {f.encode_name: values(f.type, depth + 1) for f in info.fields if f.required}
    optional = {f.encode_name: values(f.type, depth + 1) for f in info.fields if not f.required}
    made = st.fixed_dictionaries(required, optional=optional if depth < 3 else {})
    if info.array_like:
        return made.map(lambda value: list(value.values()))
    if info.tag is None:
        return made
    return made.map(lambda value: {info.tag_field: info.tag, **value})


_BODIES = {
    name: values(inspect.type_info(fact)).map(json.dumps).map(str.encode)
    for name, fact in VOCABULARY.items()
}

#: (type, body): a body of that type's fields, whose values fit or do not.
bodies = st.sampled_from(sorted(_BODIES)).flatmap(
    lambda name: st.tuples(st.just(name), _BODIES[name])
)

#: Bytes of a subject's token or a header's value: whatever the protocol lets through.
_token = st.one_of(
    st.sampled_from((b"c1", b"pod", b"observed", b"k", b"\xff", b"\x00", b"c" * 65, "\ufffd".encode())),
    st.binary(min_size=1, max_size=9).map(lambda raw: bytes(b for b in raw if b not in b" .\r\n\t") or b"x"),
)  # fmt: skip
_value = st.one_of(
    st.sampled_from((b"", b"1", b"pod.observed", b"2026-10-01T09:00:00Z", b"\xed\xa0\x80", b"\xff", b"a\x00b", b"\x1b[2J")),
    st.sampled_from([b"%d" % number for number in (0, -1, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 10**30)]),
    st.sampled_from((b"x" * 513, noise(3_000).encode(), "é".encode() * 300, "١".encode())),
    st.binary(max_size=12).map(lambda raw: raw.replace(b"\r", b"").replace(b"\n", b"")),
)  # fmt: skip
_subject = st.one_of(
    st.just(b"bursar.c1.pod.observed.k"),
    st.lists(_token, min_size=1, max_size=6).map(lambda tokens: b".".join([b"bursar", *tokens])),
)
_PLAIN = {
    b"Nats-Msg-Id": b"i", b"ce-specversion": b"1.0", b"ce-id": b"i", b"ce-source": b"s", b"ce-type": b"pod.observed",
    b"ce-subject": b"k", b"ce-time": b"2026-10-01T09:00:00Z", b"ce-dataversion": b"1",
}  # fmt: skip
_headers = st.dictionaries(st.sampled_from(sorted(_PLAIN)), _value, max_size=3).map(
    lambda changed: block({**_PLAIN, **changed})
)


def block(headers):
    """A header block as it lies on the bus."""
    lines = [name + b": " + value + b"\r\n" for name, value in headers.items()]
    return b"NATS/1.0\r\n" + b"".join(lines) + b"\r\n"


#: (subject, header block, body)
messages = st.tuples(
    _subject,
    _headers | st.just(b"") | st.binary(max_size=40).map(lambda raw: b"NATS/1.0" + raw),
    st.binary(max_size=20) | bodies.map(lambda pair: pair[1]),
)


def said(type, body, sequence):
    """The event of a message with plain attributes, as a reader of the bus gets it."""
    changed = {
        b"ce-type": type.encode(), b"ce-dataversion": b"%d" % VOCABULARY[type].version,
        b"ce-id": b"i%d" % sequence, b"Nats-Msg-Id": b"i%d" % sequence,
    }  # fmt: skip
    return wire.read(
        b"bursar.c1.%b.k" % type.encode(), block({**_PLAIN, **changed}), body, sequence
    )


def hostile_header(name, value):
    """A header block that differs from a plain one in one header."""
    return block({**_PLAIN, name: value})
