"""Strict JSON: what is refused, what is kept, and that the fast way judges as the slow one."""

import json
import math
import sys
import traceback

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bus import strict
from bus.errors import MalformedJsonError
from bus.strict import loads, well_formed

LIMIT = 100_000


def nested(depth, inside=b""):
    return b"[" * depth + inside + b"]" * depth


REFUSED = [
    (b'{"a":1,"a":2}', "duplicate key", "A28 duplicate keys at the top"),
    (b'{"x":[{"k":{"a":1,"b":2,"a":1}}]}', "duplicate key", "A28 equal values, deep inside"),
    (b'{"a":1,"\\u0061":2}', "duplicate key", "A28 one of them as an escape"),
    (b'{ "a" : 1 , "a" : 2 }', "duplicate key", "A28 with white space"),
    (b"", "truncated", "A1 nothing"),
    (b'{"type":"DELETED","object":{"ki', "truncated", "A1 cut in the middle"),
    (b"not json", "invalid character", "E1 not JSON"),
    (b"\xef\xbb\xbf{}", "byte order mark", "E1 a byte order mark"),
    (b"NaN", "invalid character", "E1 NaN"),
    (b"[Infinity]", "invalid character", "E1 Infinity"),
    (b"[-Infinity]", "invalid character", "E1 minus infinity"),
    (b"[1e400]", "number out of range", "E1 a float beyond a double"),
    (b"9" * 4_400, "number out of range", "E1 an integer of 4,400 digits"),
    (b"[9223372036854775808]", "integer out of range", "F1 one above int64"),
    (b"[-9223372036854775809]", "integer out of range", "F1 one below int64"),
    (b'{"a":12345678901234567890123}', "integer out of range", "F1 23 digits"),
    (nested(5_000), "too deep", "E1 five thousand arrays inside each other"),
    (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, "too deep", "E1 five thousand objects"),
    (nested(65), "too deep", "E1 one level above the limit"),
    (nested(65, b"1"), "too deep", "E1 the same with something inside"),
    (nested(65) + b" " * 70_000, "too deep", "E1 the same in large bytes"),
    (b"[" * 5_000, "too deep", "E1 five thousand arrays that never end"),
    (b'["\\ud800"]', "truncated", "E1 a lone high surrogate"),
    (b'["\\ud800abcdefghi"]', "surrogate", "E1 a lone high surrogate with text"),
    (b'["\\udc00"]', "surrogate", "E1 a lone low surrogate"),
    (b'["\xed\xa0\x80"]', "invalid UTF-8", "E1 a surrogate in UTF-8"),
    (b'["\\u0000"]', "NUL character", "E1 NUL as an escape"),
    (b'{"\\\\\\u0000":1}', "NUL character", "F5 NUL behind a backslash, in a key"),
    (b'["\x00"]', "invalid character", "F5 NUL as a byte"),
    (b'["\xff"]', "invalid UTF-8", "invalid UTF-8"),
    (b'["\xc0\xaf"]', "invalid UTF-8", "overlong UTF-8"),
    (b'["a\nb"]', "invalid character", "a line feed in a text"),
    (b"{} {}", "trailing characters", "two values"),
    (b"[1,]", "trailing comma", "a trailing comma"),
    (b"[01]", "invalid number", "a leading zero"),
    (b"{'a':1}", "", "single quotes"),
    (b"{a:1}", "", "a bare key"),
    (b'"' + b"x" * LIMIT + b'"', "too large", "two bytes above the limit"),
]


@pytest.mark.parametrize("raw,reason", [r[:2] for r in REFUSED], ids=[r[2] for r in REFUSED])
@pytest.mark.parametrize("read", [loads, well_formed], ids=["read", "checked"])
def test_what_two_readers_could_take_differently_is_refused(read, raw, reason):
    with pytest.raises(MalformedJsonError) as caught:
        read(raw, max_bytes=LIMIT)

    assert reason in caught.value.reason


KEPT = [
    (b"null", None, "null"),
    (b' {\t"a" : [ ] }\r\n', {"a": []}, "white space"),
    (b"[9223372036854775807,-9223372036854775808]", [2**63 - 1, -(2**63)], "int64 to its ends"),
    (b"[0.12345678901234567890123]", [0.12345678901234568], "a long fraction is a float"),
    (b"[12345678901234567890.0]", [12345678901234567890.0], "a long float is no integer"),
    (b'["1234567890123456789012345"]', ["1234567890123456789012345"], "digits in a text"),
    (b"[1E5,-0,1.50]", [100000.0, 0, 1.5], "numbers written in another way"),
    (b'["\\\\u0000"]', ["\\u0000"], "an escaped backslash before u0000 is no NUL"),
    (b'["\\ud83d\\ude00"]', ["😀"], "a pair of surrogates"),
    ('["ü😀\x7f"]'.encode(), ["ü😀\x7f"], "text beyond ASCII"),
    (b'["\\u003ctag\\u003e"]', ["<tag>"], "escapes as Go writes them"),
    (b'{"a":{"a":{"a":1}},"b":[{"a":1},{"a":2}]}', None, "equal keys in different objects"),
    (b'{"a":1,"A":2}', {"a": 1, "A": 2}, "keys in another case"),
    ('{"é":1,"e\u0301":2}'.encode(), {"é": 1, "e\u0301": 2}, "keys are not normalised"),
    (nested(64), None, "the limit of depth itself"),
    (b'["' + b"[{" * 900 + b'"]', None, "brackets inside a text are no depth"),
    (b"[" + b"[]," * 900 + b"[]]", None, "many brackets side by side"),
]


@pytest.mark.parametrize("raw,want", [r[:2] for r in KEPT], ids=[r[2] for r in KEPT])
def test_strict_json_is_kept_as_it_is(raw, want):
    assert loads(raw, max_bytes=LIMIT) == (json.loads(raw) if want is None else want)


def test_checked_bytes_are_handed_on():
    raw = b'{"a":1}'

    assert well_formed(raw, max_bytes=7) is raw


@pytest.mark.parametrize(
    "raw", [b"1", b"[]", b"[1]", b"[[]]", b"[[1]]", b'{"a":{}}', nested(9), nested(9, b"[],{}")]
)
@pytest.mark.parametrize("padding", [0, 70_000], ids=["small", "large"])
def test_depth_counts_objects_and_arrays_inside_each_other(raw, padding):
    def depth(value):
        inside = value.values() if isinstance(value, dict) else value
        nests = isinstance(value, (dict, list))
        return 1 + max(map(depth, inside), default=0) if nests else 0

    def accepted(limit):
        try:
            loads(raw + b" " * padding, max_bytes=LIMIT, max_depth=limit)
        except MalformedJsonError:
            return False
        return True

    assert [accepted(n) for n in range(12)] == [n >= depth(json.loads(raw)) for n in range(12)]


def test_depth_far_above_the_stack_is_refused_also_when_it_is_allowed():
    deep = sys.getrecursionlimit() * 20
    with pytest.raises(MalformedJsonError, match="too deep"):
        loads(nested(deep), max_bytes=10 * deep, max_depth=10 * deep)


OFFSETS = [(b"[1,x]", 3), (b'{"k\xff":1}', 3), (b'["a\\u0000"]', 3), (b"[1", 2), (b"[9e999]", None)]


@pytest.mark.parametrize(("raw", "offset"), OFFSETS)
def test_the_place_is_named_in_bytes_where_it_is_known(raw, offset):
    with pytest.raises(MalformedJsonError) as caught:
        loads(raw, max_bytes=LIMIT)

    assert caught.value.offset == offset


SECRETS = [
    b'{"token":"hunter2","hunter2":',
    b'{"hunter2":1,"hunter2":2}',
    b'{"hunter2":"\xff hunter2"}',
    b'{"hunter2":"\\u0000"}',
    b'{"hunter2":[1e999]}',
    b'{"hunter2":98765432109876543210}',
    b'{"hunter2":"hunter2\n"}',
    b'hunter2 "hunter2"',
]


@pytest.mark.parametrize("raw", SECRETS)
def test_no_content_is_repeated_in_the_error_or_its_causes(raw):
    with pytest.raises(MalformedJsonError) as caught:
        loads(raw, max_bytes=LIMIT)

    error = caught.value
    said = "".join(traceback.format_exception_only(error)) + repr(vars(error))
    assert "hunter2" not in said + repr((error.__cause__, error.__context__))


keys = st.sampled_from(["a", "b", '":', "\\", "u0000", "{", "é", "</"]) | st.text(max_size=3)
numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
leaves = st.none() | st.booleans() | numbers | st.text(max_size=8)
trees = st.recursive(
    leaves, lambda inside: st.lists(inside) | st.dictionaries(keys, inside), max_leaves=12
)


def acceptable(value):
    """The rules again, over Python values."""
    if isinstance(value, dict):
        return all(acceptable(k) and acceptable(v) for k, v in value.items())
    if isinstance(value, list):
        return all(map(acceptable, value))
    if isinstance(value, str):
        return "\x00" not in value and not any("\ud800" <= one <= "\udfff" for one in value)
    return isinstance(value, float) or value is None or -(2**63) <= value < 2**63


def outcome(raw):
    try:
        return loads(raw, max_bytes=LIMIT)
    except MalformedJsonError:
        return MalformedJsonError


@given(trees, st.sampled_from([None, 1]), st.booleans())
@example([0.0], None, True)
def test_a_value_is_kept_or_refused_however_it_is_written(value, indent, ascii_only):
    raw = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    compact = msgspec.json.encode(json.loads(raw))
    want = value if acceptable(value) else MalformedJsonError

    assert (outcome(raw), outcome(compact)) == (want, want)


@given(st.dictionaries(keys.filter(acceptable), leaves, min_size=1), st.data(), st.booleans())
def test_a_repeated_key_is_found_whatever_stands_around_it(members, data, compact):
    pairs = [*members.items(), (data.draw(st.sampled_from(sorted(members))), 1)]
    pairs = data.draw(st.permutations(pairs))
    colon, comma = (":", ",") if compact else (" : ", ", ")
    inner = comma.join(
        json.dumps(k, ensure_ascii=False) + colon + json.dumps(v, ensure_ascii=False)
        for k, v in pairs
    )

    assert outcome(f'[{{"x":{{{inner}}}}}]'.encode("utf-8", "replace")) is MalformedJsonError


def strictly_by_json(raw):
    """The oracle: the standard reader with a hook for each rule; raises ValueError."""

    def refuse(text):
        raise ValueError(text)

    def once(pairs):
        found = dict(pairs)
        return found if len(found) == len(pairs) else refuse("duplicate")

    value = json.loads(raw.decode(), object_pairs_hook=once, parse_constant=refuse)
    numbers_fit = not any(map(math.isinf, floats(value)))
    return value if acceptable(value) and numbers_fit else refuse("value")


def floats(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [one for item in value for one in floats(item)]
    return [value] if isinstance(value, float) else []


TOKENS = (
    b'{ } [ ] : , "a" "b" 1 - 0 .5 e400 null true NaN "\\u0000" "\\ud800" "\xff" \xef\xbb\xbf " \\'
)
tokens = st.sampled_from([b" ", *TOKENS.split(b" ")])


@given(st.lists(tokens, max_size=20).map(b"".join) | st.binary(max_size=40))
@example(b'{"a":1,"a":1}')
def test_any_bytes_are_read_as_the_standard_reader_reads_them_or_refused(raw):
    try:
        want = strictly_by_json(raw)
    except ValueError:
        want = MalformedJsonError

    assert outcome(raw) == want


#: Texts that look like structure, or hide its end.
_texts = st.text(alphabet='[]{},:"\\\\ax\u00e9\n', max_size=8)
_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | _texts,
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(_texts, inside, max_size=4),
    max_leaves=30,
)


def counted(value):
    """Depth, and values, of what was decoded."""
    if not isinstance(value, (dict, list)):
        return 0, 1
    found = [counted(one) for one in (value.values() if isinstance(value, dict) else value)]
    return 1 + max((d for d, _ in found), default=0), 1 + sum(n for _, n in found)


@given(_values, st.sampled_from([None, 1]), st.booleans())
def test_the_shape_of_large_bytes_is_known_before_they_are_decoded(value, indent, is_ascii):
    """Whatever texts, escapes and white space there are: depth exactly, values never fewer."""
    raw = json.dumps(value, indent=indent, ensure_ascii=is_ascii).encode()
    large = raw + b" " * strict.LARGE_BYTES
    depth, values = counted(value)

    assert strict._excess(large, depth, None) is None
    assert depth == 0 or strict._excess(large, depth - 1, None).reason == "too deep"
    assert strict._excess(large, depth, 2 * values) is None
    assert strict._excess(large, depth, values - 1).reason == "too many values"


@given(_values, st.integers(0, 12), st.booleans())
@example({"}": [{'"}': [[[]]], "\\": ['{"', "}{", "]"]}]}, 4, True)
def test_nothing_that_is_deeper_is_taken_for_flat(value, limit, is_ascii):
    """Whatever brackets, quotes and escapes stand in its texts."""
    raw = json.dumps(value, ensure_ascii=is_ascii, separators=(",", ":")).encode()

    assert strict._may_be_deeper(raw, limit) or counted(value)[0] <= limit


@pytest.mark.parametrize("piece", [b"[]", b"{}", b"[" * 60 + b"]" * 60, b'{"a":0}', b"0", b'""'])
def test_too_many_values_are_never_decoded(piece, monkeypatch):
    """However they are put: side by side, inside each other, as keys, numbers or texts."""
    raw = b"[ " + b",".join([piece] * (3_000_000 // (len(piece) + 1))) + b"]"
    monkeypatch.setattr(strict, "_decode", None)
    with pytest.raises(MalformedJsonError, match="too many values"):
        strict.loads(raw, max_bytes=4_000_000, max_values=100_000)
