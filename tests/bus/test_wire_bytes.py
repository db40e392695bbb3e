"""What was written once is read, and written again, byte for byte: digests and chains of old histories hold.

`wire.jsonl` has bodies of every event type with every field, as commit ab4df9e and later ones wrote them. A line stays for good. A
new type or field needs a new line, which the second test prints.
"""

import json
from pathlib import Path

import msgspec.inspect
import pytest

from bus.envelope import Event
from bus.events import VOCABULARY

LINES = [
    json.loads(line) for line in (Path(__file__).parent / "wire.jsonl").read_text().splitlines()
]


def event_of(line):
    return Event("c", line["type"], "k", "id", "s", 1, line["body"].encode(), line["version"])


@pytest.mark.parametrize("line", LINES, ids=lambda line: line["type"])
def test_a_body_is_written_again_as_it_was(line):
    fact = VOCABULARY[line["type"]].read(event_of(line))
    again = fact.event(cluster="c", key="k", id="id", source="s", time_us=1)

    assert (again.version, again.body.decode()) == (line["version"], line["body"])


@pytest.mark.parametrize("name", sorted(VOCABULARY))
def test_every_field_of_every_type_is_in_a_line(name):
    written = {one for line in LINES if line["type"] == name for one in json.loads(line["body"])}
    fact = VOCABULARY[name]

    if not written >= set(fact.__struct_encode_fields__):
        lines = [{"type": name, "version": fact.version, "body": body} for body in samples(fact)]
        pytest.fail("add to wire.jsonl:\n" + "\n".join(map(json.dumps, lines)))


def samples(fact):
    """Bodies of a type, which together have every field: a default is not written."""
    for choice in (-1, 0):
        plain = made(msgspec.inspect.type_info(fact), choice)
        found = msgspec.json.decode(msgspec.json.encode(plain), type=fact)
        yield msgspec.json.encode(found).decode()


def made(found, choice):
    """A value of a type, as JSON has it; of a union one of its first type, of words that may stand the first or the last."""
    match type(found).__name__:
        case "StructType" if not found.array_like:
            return {one.encode_name: made(one.type, choice) for one in found.fields}
        case "StructType":
            return [made(one.type, choice) for one in found.fields]
        case "UnionType":
            return made(
                next(one for one in found.types if type(one).__name__ != "NoneType"), choice
            )
        case "LiteralType":
            return found.values[choice]
        case "DictType":
            return {made(found.key_type, choice): made(found.value_type, choice)}
        case "TupleType":
            return [made(one, choice) for one in found.item_types]
        case "ListType" | "VarTupleType" | "SetType" | "FrozenSetType":
            return [made(found.item_type, choice)]
        case "StrType":
            return "0123456789abcdef" * 2
        case "IntType":
            return max(found.ge or 0, 7)
        case "BoolType":
            return bool(choice)
        case _:
            return {"any": 1}
