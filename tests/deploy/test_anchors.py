"""Heads in a bucket of a real S3-compatible store vouch for a history, whatever is done to ledger and folder."""

import asyncio
import io
import json
import shutil

import pytest

from bus.envelope import to_line
from deploy.cli.program.exits import Exit
from deploy.runtime import sealing
from deploy.runtime.sealing import Anchoring
from deploy.settings.load import load
from projections.engine.anchors import Anchor
from projections.engine.heads import Signer
from projections.engine.store import Store, engine
from tests import s3
from tests.cluster import build
from tests.deploy.ledgers import EVENTS, bursar

pytestmark = [
    pytest.mark.nats,
    pytest.mark.skipif(not build.gateway().is_file(), reason="no store: make controlplane"),
]

WHERE = "s3://backups/anchors/c1"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with s3.store(tmp_path_factory.mktemp("s3")) as found:
        yield found


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A data folder as an import leaves it."""
    folder = tmp_path_factory.mktemp("anchored")
    (folder / "events.ndjson").write_bytes(b"".join(to_line(event) + b"\n" for event in EVENTS))
    assert bursar("import", "events", folder / "events.ndjson", "--data", folder / "data") == 0
    return folder / "data"


@pytest.fixture
def data(url, original, tmp_path, monkeypatch):
    """The same, whose newest head is in the bucket."""
    for name, text in s3.variables(url).items():
        monkeypatch.setenv(name, text)
    client = s3.client(url)
    for one in client.list_objects(s3.BUCKET, recursive=True):
        client.remove_object(s3.BUCKET, one.object_name)
    data = shutil.copytree(original, tmp_path / "data")
    monkeypatch.setenv("BURSAR_DATA", str(data))
    monkeypatch.setenv("BURSAR_LEDGER__ANCHOR", WHERE)
    assert kept(data).sequence == len(EVENTS) + 1
    return data


def kept(data):
    store = Store(engine(f"sqlite:///{data / 'ledger.db'}"))
    head = Anchor(store, WHERE).keep()
    store.close()
    return head


def verified(capsys, *arguments):
    """Exit code, and what is said."""
    capsys.readouterr()
    code = bursar("verify", *arguments, "-o", "json")
    out, err = capsys.readouterr()
    return code, json.loads(out) if out else {}, err


def names(url):
    return sorted(one.object_name for one in s3.client(url).list_objects(s3.BUCKET, recursive=True))


def test_a_bucket_anchors_a_history(data, capsys):
    code, row, _ = verified(capsys, "--heads", WHERE)
    assert (code, row["anchored_until"]) == (Exit.OK, len(EVENTS) + 1)
    assert verified(capsys)[0] == Exit.UNANCHORED


def test_a_history_that_was_written_anew_beside_its_own_key_is_found(data, url, tmp_path, capsys):
    """Whoever can write the data folder signs what he likes: only the bucket has what was."""
    shutil.rmtree(data)
    lines = [to_line(event) for event in EVENTS]
    (tmp_path / "forged.ndjson").write_bytes(b"\n".join([*lines[:1], *lines[2:], b""]))
    assert bursar("import", "events", tmp_path / "forged.ndjson", "--data", data) == 0
    assert verified(capsys)[0] == Exit.UNANCHORED, "its parts fit"
    code, row, _ = verified(capsys, "--heads", WHERE)
    assert code == Exit.DIFFERENT and row["findings"]

    before = names(url)
    assert kept(data) is not None
    assert set(before) < set(names(url)), "a head stands beside what was, and replaces nothing"
    assert verified(capsys, "--heads", WHERE)[0] == Exit.DIFFERENT


@pytest.mark.parametrize("body", [b"", b"{}", b"[1]", b"\xff", b"{" * 9_000])
def test_an_object_that_is_no_head_is_named(body, data, url, capsys):
    client, name = s3.client(url), names(url)[0]
    client.put_object(s3.BUCKET, name, io.BytesIO(body), len(body))
    code, _, err = verified(capsys, "--heads", WHERE)

    assert code == Exit.FAILED and f"s3://{s3.BUCKET}/{name}" in err and "Traceback" not in err


def test_other_objects_of_the_bucket_are_passed_over(data, url, capsys):
    s3.client(url).put_object(s3.BUCKET, "anchors/c1/readme.txt", io.BytesIO(b"x"), 1)
    assert verified(capsys, "--heads", WHERE)[0] == Exit.OK


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "the secret key is not that of the access key"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, WHERE),
    ],
)
async def test_a_store_that_refuses_is_said_and_tried_again(
    variables, words, data, url, monkeypatch, capsys
):
    monkeypatch.setattr(sealing, "RETRY_SECONDS", 0.0)
    store = Store(engine(f"sqlite:///{data / 'ledger.db'}"))
    anchoring = Anchoring(load(), store)
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    code, _, err = verified(capsys, "--heads", WHERE)
    assert code == Exit.FAILED and words in err and "Traceback" not in err
    running = asyncio.create_task(anchoring.run())
    async with asyncio.timeout(30):
        while words not in anchoring.trouble:
            await asyncio.sleep(0)
        for name, text in s3.variables(url).items():
            monkeypatch.setenv(name, text)
        while anchoring.trouble:
            await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running])
    store.close()


def test_an_hour_without_a_new_head_puts_nothing(data, url):
    store = Store(engine(f"sqlite:///{data / 'ledger.db'}"))
    anchor = Anchor(store, WHERE)
    assert [anchor.keep() is None for _ in range(3)] == [False, True, True]
    store.close()
    assert len(names(url)) == 1
    assert (
        Signer(data / "signing.key").public_key.hex()
        in s3.client(url).get_object(s3.BUCKET, names(url)[0]).read().decode()
    )


@pytest.mark.parametrize("text", ["backups", "/mnt/x", "s3://", "s3://a b"])
def test_an_address_that_is_none_is_refused(text, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("BURSAR_DATA", str(tmp_path))
    monkeypatch.setenv("BURSAR_LEDGER__ANCHOR", text)

    assert bursar("verify") == Exit.USAGE
    assert "anchor" in capsys.readouterr()[1].lower()
