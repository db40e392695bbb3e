"""JSON cut as bytes: the parts are those of the standard reader, and skipped bytes are never judged."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bus import strict
from bus.errors import MalformedJsonError
from bus.kube.watch import cutting
from tests.bus.counting import counted_calls

#: Texts that look like structure, or hide its end.
texts = st.text(alphabet='[]{},:"\\\\abé\n', max_size=6)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | texts,
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(texts, inside, max_size=4),
    max_leaves=30,
)


def written(value, indent, is_ascii):
    compact = None if indent else (",", ":")
    return json.dumps(value, indent=indent, ensure_ascii=is_ascii, separators=compact).encode()


@given(st.lists(values, max_size=6), st.sampled_from([None, 1]), st.booleans())
@example([[1], {}, []], None, True)
def test_the_elements_of_a_list_are_its_own(value, indent, is_ascii):
    found = cutting.elements(written(value, indent, is_ascii))

    assert [json.loads(one) for one in found] == value


@given(st.dictionaries(texts, values, max_size=6), st.sampled_from([None, 1]), st.booleans())
def test_the_members_of_an_object_are_its_own(value, indent, is_ascii):
    found = cutting.members(written(value, indent, is_ascii))

    assert {json.loads(key): json.loads(one) for key, one in found.items()} == value


class Inner(msgspec.Struct):
    """A part of the type below."""

    a: int | None = None
    b: str | None = None


class Read(msgspec.Struct, rename="camel"):
    """A type with each way to hold others."""

    one_inner: Inner | None = None
    many: list[Inner] | None = None
    by_name: dict[str, Inner] | None = None
    either: Inner | str | None = None
    whole: list[list[int]] | None = None
    any: Any = None


INNER = {"a": 1, "b": "x"}
READ = {
    "oneInner": INNER,
    "many": [INNER, {"a": 2}],
    "byName": {"k": INNER, '"': {"b": "]"}},
    "either": "text",
    "whole": [[1, 2], [], [3]],
    "any": {"x": [1, {"y": "\\"}], "z": None},
}


@given(values, st.sampled_from([None, 1]), st.booleans())
def test_what_a_type_reads_is_kept_and_all_else_is_left_out(noise, indent, is_ascii):
    inner = {"noise": noise, **INNER, "more": noise}
    value = {
        "noise": noise, **READ, "oneInner": inner, "many": [inner, {"a": 2, "noise": noise}],
        "byName": {"k": inner, '"': {"b": "]"}}, "last": noise,
    }  # fmt: skip
    found = cutting.picked(written(value, indent, is_ascii), Read)

    assert json.loads(found) == READ


ODD = {
    "lone surrogate": rb'"\ud800"',
    "low surrogate": rb'"\udc00"',
    "doubled key": b'{"a":1,"a":2}',
    "invalid UTF-8": b'"\xff\xc0\xaf"',
    "surrogate in UTF-8": b'"\xed\xa0\x80"',
    "control character": b'"\x01"',
    "5,000 levels": b'{"a":[' * 2_500 + b"1" + b"]}" * 2_500,
    "huge number": b"1e999999",
    "5,000 digits": b"9" * 5_000,
    "odd key": b'{"\\ud800":1,"\xff":2}',
    "brackets in a text": b'"]}\\"]\\\\"',
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_skipped_bytes_are_never_judged(odd):
    raw = b'{"x":%b,"oneInner":{"y":[%b],"a":1,"z":{"q":%b}},"%b":1}' % (odd, odd, odd, b"\xff")

    assert cutting.picked(raw, Read) == b'{"oneInner":{"a":1}}'
    assert cutting.elements(b"[%b,[%b],2]" % (odd, odd)) == [odd, b"[%b]" % odd, b"2"]


@pytest.mark.parametrize("name", [name for name in ODD if not name.startswith("brackets")])
def test_odd_bytes_in_what_is_read_are_kept_and_refused(name):
    found = cutting.picked(b'{"oneInner":{"b":%b}}' % ODD[name], Read)

    with pytest.raises(MalformedJsonError):
        strict.loads(found, max_bytes=100_000)


@pytest.mark.parametrize("name", [name for name in ODD if not name.startswith("brackets")])
def test_of_a_value_of_any_type_the_odd_part_is_unreadable_and_its_neighbors_are_kept(name):
    raw = b'{"any":{"a":1,"odd":%b,"b":[2,%b]}}' % (ODD[name], ODD[name])
    found = json.loads(cutting.picked(raw, Read))["any"]

    assert (found["a"], found["b"][0]) == (1, 2)
    strict.loads(cutting.picked(raw, Read), max_bytes=100_000)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"oneInner":{"a":1,"a":2}}',
        b'{"oneInner":{"a":1},"oneInner":{}}',
        b'{"oneInner":{"a":1,"\\u0061":2}}',
        b'{"byName":{"k":{},"k":{}}}',
    ],
)
def test_equal_keys_that_are_read_are_refused(raw):
    with pytest.raises(MalformedJsonError, match="duplicate"):
        strict.loads(cutting.picked(raw, Read), max_bytes=1_000)


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"{", b'{"a"', b'{"a":', b'{"a":1', b'{"a":1,}',
        b'{"a" 1}', b"{} {}", b'{"a":"x" 1}', b"{1:2}", b'{"a":[[]', b'"', b"[1,]", b"]", b'{"a":::}',
    ],
)  # fmt: skip
def test_bytes_that_are_no_json_are_refused_or_kept_as_they_are(raw):
    with pytest.raises(MalformedJsonError):
        strict.loads(cutting.picked(raw, Read), max_bytes=1_000)


@given(st.binary(max_size=60) | st.text(alphabet='[]{}",:\\1 ', max_size=60).map(str.encode))
def test_any_bytes_have_an_answer(raw):
    for cut in (cutting.elements, cutting.members, lambda raw: cutting.picked(raw, Read)):
        try:
            cut(raw)
        except MalformedJsonError:
            continue


@given(st.text(alphabet='[]{}",:\\1 ', max_size=60).map(str.encode))
def test_json_of_the_standard_reader_is_never_refused(raw):
    try:
        value = json.loads(raw)
    except ValueError:
        return
    if isinstance(value, list):
        assert [json.loads(one) for one in cutting.elements(raw)] == value


@pytest.mark.parametrize(
    "raw",
    [b'"' + b"[" * 1_000_000, b'[{"a":"' + b'\\"' * 500_000, b"[" * 1_000_000, b'[""' * 300_000],
)
@pytest.mark.timeout(20)
def test_cut_lines_of_a_megabyte_are_refused_at_once(raw):
    with pytest.raises(MalformedJsonError):
        cutting.elements(raw)


@pytest.mark.parametrize("unit", ["[[]],", '[""],', '{"a":[]},', "[{},{}],", '{"":{"":1}},'])
def test_a_megabyte_of_brackets_costs_few_steps(unit):
    """A claim's opaque parameters: each list that holds the claim, and each watch line of it, is cut in one piece."""
    odd = b"[%b1]" % (unit.encode() * (1_000_000 // len(unit)))
    raw = b'{"x":%b,"oneInner":{"a":1}}' % odd

    with counted_calls() as calls:
        assert cutting.picked(raw, Read) == b'{"oneInner":{"a":1}}'
        assert cutting.elements(b"[1,%b,2]" % odd) == [b"1", odd, b"2"]

    assert calls[0] < 200_000


@given(st.lists(values, max_size=6), st.integers(2, 9), st.booleans())
@example(['\\"]', "\\\\", [{}]], 2, True)
def test_windows_of_any_size_find_the_same_end(value, window, is_ascii):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cutting, "_SMALLEST", window)
        patch.setattr(cutting, "_LARGEST", window)
        found = cutting.elements(written([value, value], None, is_ascii))

    assert [json.loads(one) for one in found] == [value, value]
