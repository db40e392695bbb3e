"""Values that an API server passes on and strict readers refuse, and objects that hold them."""

import json

#: By name: bytes of JSON.
ODD = {
    "lone surrogate": rb'"\ud800"',
    "lone surrogate in text": rb'"a\udc00b\ud83dc"',
    "doubled key": b'{"a":1,"a":2}',
    "doubled key by an escape": rb'{"a":[{"b":1,"\u0062":2}]}',
    "invalid UTF-8": b'"\xff\xc0\xaf"',
    "surrogate in UTF-8": b'{"\xed\xa0\x80":"\xe2\x28"}',
    "control character": b'"\x01\x1f"',
    "NUL": b'"\x00"',
    "5,000 objects": b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    "5,000 arrays": b"[" * 5_000 + b"]" * 5_000,
    "huge number": b"-1e999999",
    "5,000 digits": b"9" * 5_000,
    "odd keys": b'{"\\ud800":1,"\xff":2,"\\ud800":3}',
    "brackets in texts": rb'{"\"]}":"\\\"}],","]}":"{\ud800["}',
}


def in_unread_fields(thing, odd):
    """The bytes of ``thing`` with ``odd`` in fields of each level that Bursar never reads."""
    marked = {
        "metadata": {"managedFields": [{"fieldsV1": "@"}], **thing["metadata"], "zz": "@"},
        "zz": ["@"],
        **{key: value for key, value in thing.items() if key != "metadata"},
    }
    for key in ("spec", "status"):
        marked[key] = {"aa": "@", **thing.get(key, {}), "zz": [{"zz": "@"}]}
    return written(marked, odd)


def written(thing, odd=b""):
    """``thing`` as an API server writes it, with ``odd`` in the place of each "@"."""
    return json.dumps(thing, separators=(",", ":")).encode().replace(b'"@"', odd)
