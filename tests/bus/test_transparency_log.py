"""What a log answers counts as far as it is proven: whoever answers in its place, and whatever it says, nothing else does."""

import asyncio
import base64
import itertools
import re

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bus.errors import TransparencyLogError
from bus.transparency_log import TransparencyLog, root_of
from tests import rekor
from tests.bus import hostile

KEYS = [Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in range(3)]


def raw(key):
    return key.public_key().public_bytes_raw()


@pytest.fixture
def log(tmp_path):
    with rekor.running() as found:
        (tmp_path / "log.pem").write_bytes(found.pem)
        yield found


@pytest.fixture
def client(log, tmp_path):
    return TransparencyLog(log.url, tmp_path / "log.pem")


def fill(client, count, key=KEYS[0]):
    for number in range(count):
        text = b"text %d" % number
        client.add(text, key.sign(text), raw(key))


def test_the_root_follows_from_every_leaf_and_its_path_in_trees_of_every_size():
    for size in range(1, 40):
        leaves = [rekor.leaf_hash(b"%d" % number) for number in range(size)]
        for index in range(size):
            path = rekor.audit_path(index, leaves)
            assert root_of(leaves[index], index, size, path) == rekor.tree_root(leaves)
            wrong = [
                (index, size, path[:-1]),
                (index, size, [*path, leaves[0]]),
                (size, size, path),
            ]
            for place, of, along in wrong[0 if path else 1 :]:
                assert root_of(leaves[index], place, of, along) != rekor.tree_root(leaves)


def test_entries_of_one_key_are_found_with_their_times_and_what_is_there_stays_there(log, client):
    fill(client, 23)
    fill(client, 3, KEYS[1])
    fill(client, 2)
    assert len(log.bodies) == 26
    log.asked.clear()
    found = client.witnessed(raw(KEYS[0]))
    assert [one.index for one in found] == list(range(23))
    assert found[4].signature == KEYS[0].sign(b"text 4") and found[4].taken_s == 1_800_000_000
    # Ten at a time.
    assert log.asked.count(("POST", "/api/v1/log/entries/retrieve")) == 3
    assert client.witnessed(raw(KEYS[2])) == []


def test_without_a_file_the_log_says_its_key_itself(log):
    client = TransparencyLog(log.url)
    fill(client, 2)
    assert len(client.witnessed(raw(KEYS[0]))) == 2
    assert ("GET", "/api/v1/log/publicKey") in log.asked


def changed(entry, *path, value):
    inside = entry
    for name in path[:-1]:
        inside = inside[name]
    inside[path[-1]] = value(inside[path[-1]])
    return entry


PROOF = ("verification", "inclusionProof")
LIES = {
    "time": lambda e: changed(e, "integratedTime", value=lambda at: at - 86_400),
    "index": lambda e: changed(e, "logIndex", value=lambda at: at + 1),
    "no proof": lambda e: {key: one for key, one in e.items() if key != "verification"},
    "another body": lambda e: changed(e, "body", value=lambda text: rekor.b64(b"{}")),
    "body of nothing": lambda e: changed(e, "body", value=lambda text: "%%"),
    "another path": lambda e: changed(e, *PROOF, "hashes", value=lambda found: found[::-1] or ["00"]),
    "rubbish path": lambda e: changed(e, *PROOF, "hashes", value=lambda found: ["zz"]),
    "smaller tree": lambda e: changed(e, *PROOF, "treeSize", value=lambda size: size - 1),
    "another root": lambda e: changed(e, *PROOF, "rootHash", value=lambda root: "00" * 32),
    "no checkpoint": lambda e: changed(e, *PROOF, "checkpoint", value=lambda text: ""),
    "checkpoint of another tree": lambda e: changed(
        e, *PROOF, "checkpoint", value=lambda text: re.sub("\n[56]\n", "\n7\n", text)
    ),
    "checkpoint unsigned": lambda e: changed(
        e, *PROOF, "checkpoint", value=lambda text: text.partition("\n\n")[0] + "\n\n"
    ),
    "set of another": lambda e: changed(
        e, "verification", "signedEntryTimestamp", value=lambda text: rekor.b64(b"none")
    ),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_what_is_not_proven_is_an_error(log, client, lie):
    fill(client, 5)
    assert len(client.witnessed(raw(KEYS[0]))) == 5
    log.lie = LIES[lie]
    with pytest.raises(TransparencyLogError):
        client.witnessed(raw(KEYS[0]))
    with pytest.raises(TransparencyLogError):
        client.add(b"new", KEYS[0].sign(b"new"), raw(KEYS[0]))


def test_a_neighbour_who_answers_with_a_key_of_his_own_is_found(log, client):
    fill(client, 2)
    log.key = ec.generate_private_key(ec.SECP256R1())
    with pytest.raises(TransparencyLogError, match="not signed by the log's key"):
        client.witnessed(raw(KEYS[0]))


def test_entries_that_are_named_and_not_shown_are_missed(log, client, monkeypatch):
    fill(client, 3)
    answer = log.answer
    monkeypatch.setattr(log, "answer", lambda *asked: cut(answer(*asked), asked[1]))

    def cut(found, path):
        return (found[0], found[1][:-1]) if path.endswith("entries/retrieve") else found

    with pytest.raises(TransparencyLogError, match="of 3 entries that it names it shows 2"):
        client.witnessed(raw(KEYS[0]))


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((503, {"code": 503, "message": "out of order"}), "HTTP 503: 'out of order'"),
        ((500, b"\xff\xfe"), "HTTP 500"),
        ((200, b"{"), "cannot be read"),
        ((200, b"[" * 100_000), "cannot be read"),
        ((200, b"\xff"), "cannot be read"),
        ((200, b" " * (2**22 + 1)), "more than"),
        ((302, b""), "HTTP 302"),
    ],
)
def test_rubbish_is_an_error_that_names_the_log(log, client, monkeypatch, answer, told):
    monkeypatch.setattr(log, "answer", lambda *asked: answer)
    with pytest.raises(TransparencyLogError, match=told):
        client.witnessed(raw(KEYS[0]))


def test_a_log_that_is_away_a_key_that_is_none_and_a_signature_that_is_wrong_are_told(
    log, tmp_path
):
    with pytest.raises(TransparencyLogError, match=r"http://127\.0\.0\.1:1: "):
        TransparencyLog("http://127.0.0.1:1").witnessed(raw(KEYS[0]))
    key = tmp_path / "none.pem"
    client = TransparencyLog(log.url, key)
    with pytest.raises(TransparencyLogError, match="No such file"):
        fill(client, 1)
    key.write_bytes(b"rubbish")
    with pytest.raises(TransparencyLogError, match="no public key of a log"):
        fill(client, 1)
    with pytest.raises(TransparencyLogError, match="HTTP 400: 'verifying signature"):
        client.add(b"text", KEYS[1].sign(b"other"), raw(KEYS[1]))


@pytest.mark.parametrize("beginning", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"])
async def test_an_answer_that_comes_byte_by_byte_is_not_waited_for_without_end(
    beginning, monkeypatch
):
    """Its headers no longer than its body: each byte alone comes in time."""
    monkeypatch.setattr("bus.transparency_log.WHOLE_SECONDS", 0.3)
    async with hostile.server(hostile.endless(b"x", beginning, 0.02)) as port:
        log = TransparencyLog(f"http://127.0.0.1:{port}")
        with pytest.raises(TransparencyLogError, match="not all of it came in"):
            await asyncio.wait_for(asyncio.to_thread(log.witnessed, raw(KEYS[0])), 30)


@pytest.mark.parametrize("key", [b"", b"short", b"x" * 33])
def test_a_key_that_is_none_is_named(client, key):
    with pytest.raises(TransparencyLogError, match=f"no ed25519 key: {key.hex()}"):
        client.witnessed(key)


def test_entries_of_other_kinds_are_passed_over(log, client):
    fill(client, 2)
    log.bodies[1] = log.bodies[1].replace(b"rekord", b"intoto")
    assert [one.index for one in client.witnessed(raw(KEYS[0]))] == [0]
    assert list(itertools.chain(base64.b64decode(log.entry(1)["body"]))) == list(log.bodies[1])
