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
#: Parameters that look like what stands around them, each with a value that strict readers refuse.
PARAMETERS = {
    **ODD,
    "an end of the list": rb'{"]}},":"\ud800","x":"]}}],\"items\":[]}"}',
    "marks of managedFields": rb'{"managedFields":["\ud800"],"managedFields":[1],"x":{"y":[1]},"spec":{}}',
    "marks of managedFields, from one to the next": b'{"a":0,"managedFields":[{"b":[1]},"spec"],"a":{"c":[1]},"spec":2}',
    "requests of its own": rb'{"requests":[],"requests":[{"name":"\ud800"}],"devices":{"requests":null}}',
    "a claim in a claim": rb'{"metadata":{"uid":"other","uid":"\udfff"},"spec":{"devices":{"requests":[]}},"status":null}',
    "a million empty arrays": b"[" + b"[]," * 300_000 + b'"\\ud800"]',
    "objects of 5,000 levels with texts": b'{"]":["}",' * 2_500 + rb'"\ud800"' + b"]}" * 2_500,
    "escapes without end": rb'"\ud800' + rb"\\\"" * 100_000 + b'"',
    "half of a pair beside a pair": rb'"\ud83d\ude00\ude00\ud83d"',
    "numbers of every size": b"[1e400,-0,0.0e-999," + b"1" * 400 + b",12345678901234567890123]",
    "keys that differ by escapes": rb'{"\/":1,"/":2,"\u002f":3}',
    "a byte order mark and white space": b' \t\r\n{"\xef\xbb\xbf":1,"\xef\xbb\xbf":2}\n ',
}  # fmt: skip


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
