"""Heads in a bucket of a real S3-compatible store vouch for a history, whatever is done to ledger and folder."""

import asyncio
import io
import shutil

import minio.datatypes
import pytest

from bus.envelope import to_line
from bus.errors import ObjectStoreError
from deploy.cli.program.exits import Exit
from deploy.runtime import sealing
from deploy.runtime.sealing import Anchoring
from deploy.settings.load import load
from projections.engine.anchors import Anchor, Objects
from projections.engine.heads import HeadKeeper, Signer
from projections.engine.store import Store, engine
from tests import s3
from tests.cluster import build
from tests.deploy.anchored import kept, verified
from tests.deploy.ledgers import EVENTS, bursar
from tests.projections.engine.archives import fill, ledger
from tests.recording import recorded

pytestmark = [
    pytest.mark.nats,
    pytest.mark.skipif(not build.gateway().is_file(), reason="no store: make controlplane"),
]

WHERE = "s3://backups/anchors/c1"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with s3.store(tmp_path_factory.mktemp("s3"), versions=True) as found:
        yield found


@pytest.fixture(autouse=True)
def stamps(monkeypatch):
    """The gateway says times of versions to the nanosecond, which Amazon does not and the client cannot read."""
    read = minio.datatypes.from_iso8601utc
    monkeypatch.setattr(
        "minio.datatypes.from_iso8601utc", lambda text: read(text and text[:19] + "Z")
    )


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
    s3.emptied(url, monkeypatch)
    data = shutil.copytree(original, tmp_path / "data")
    monkeypatch.setenv("BURSAR_DATA", str(data))
    monkeypatch.setenv("BURSAR_LEDGER__ANCHOR", WHERE)
    assert kept(data, Objects(WHERE)).sequence == len(EVENTS) + 1
    return data


def names(url):
    return sorted(one.object_name for one in s3.client(url).list_objects(s3.BUCKET, recursive=True))


def test_a_bucket_anchors_a_history(data, capsys):
    code, row, _ = verified(capsys, "--heads", WHERE)
    assert (code, row["anchored_until"]) == (Exit.OK, len(EVENTS) + 1)
    assert verified(capsys, "--require-anchor")[0] == Exit.UNANCHORED


def test_a_history_that_was_written_anew_beside_its_own_key_is_found(data, url, tmp_path, capsys):
    """Whoever can write the data folder signs what he likes: only the bucket has what was."""
    shutil.rmtree(data)
    lines = [to_line(event) for event in EVENTS]
    (tmp_path / "forged.ndjson").write_bytes(b"\n".join([*lines[:1], *lines[2:], b""]))
    assert bursar("import", "events", tmp_path / "forged.ndjson", "--data", data) == 0
    assert verified(capsys, "--require-anchor")[0] == Exit.UNANCHORED, "its parts fit"
    code, row, _ = verified(capsys, "--heads", WHERE)
    assert code == Exit.DIFFERENT and row["findings"]

    before = names(url)
    assert kept(data, Objects(WHERE)) is not None
    assert set(before) < set(names(url)), "a head stands beside what was, and replaces nothing"
    assert verified(capsys, "--heads", WHERE)[0] == Exit.DIFFERENT


@pytest.mark.parametrize("body", [b"", b"{}", b"[1]", b"\xff", b"{" * 9_000])
def test_rubbish_that_is_named_as_a_head_is_named_and_hides_no_head(body, data, url, capsys):
    client = s3.client(url)
    name = f"anchors/c1/head-000000000007-{'0' * 16}.json"
    client.put_object(s3.BUCKET, name, io.BytesIO(body), len(body))
    code, row, _ = verified(capsys, "--heads", WHERE)

    assert (code, row["anchored_until"]) == (Exit.DIFFERENT, len(EVENTS) + 1)
    assert f"s3://{s3.BUCKET}/{name} is named as a head" in row["findings"][0]["reason"]


@pytest.mark.parametrize("how", ["deleted", "written over"])
def test_nobody_takes_a_head_back_where_the_store_locks_objects(
    how, data, url, monkeypatch, tmp_path, capsys
):
    """Who has the keys may delete it all the same: it is there, behind a mark, and is read."""
    bucket = f"locked-{how.replace(' ', '-')}"
    client, where = s3.locked(url, bucket), f"s3://{bucket}/c1"
    store = Store(engine(f"sqlite:///{data / 'ledger.db'}"))
    Anchor(store, Objects(where)).keep()
    store.close()
    [one] = client.list_objects(bucket, recursive=True)
    shutil.rmtree(data)
    lines = [to_line(event) for event in EVENTS]
    (tmp_path / "forged.ndjson").write_bytes(b"\n".join([*lines[:1], *lines[2:], b""]))
    assert bursar("import", "events", tmp_path / "forged.ndjson", "--data", data) == 0
    if how == "deleted":
        client.remove_object(bucket, one.object_name)
        assert [*client.list_objects(bucket, recursive=True)] == []
    else:
        client.put_object(bucket, one.object_name, io.BytesIO(b"x"), 1)

    code, row, _ = verified(capsys, "--heads", where)
    assert code == Exit.DIFFERENT
    whys = [finding["reason"] for finding in row["findings"]]
    assert any("another key" in why or "chain" in why or "beyond" in why for why in whys), whys


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


def test_a_key_that_was_changed_in_its_file_is_read_after_one_refusal(
    data, url, tmp_path, monkeypatch
):
    """A process that runs for months outlives the keys that it began with."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    file = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    text = f"[default]\naws_access_key_id = {s3.ACCESS}\naws_secret_access_key = "
    store = Store(engine(f"sqlite:///{data / 'ledger.db'}"))
    anchor = Anchor(store, Objects(WHERE))
    file.write_text(text + "old")
    with pytest.raises(ObjectStoreError, match="secret key"):
        anchor.keep()
    file.write_text(text + s3.SECRET)
    assert anchor.keep() is not None
    store.close()


async def test_the_first_head_of_a_new_ledger_is_kept_without_waiting_for_an_hour(
    data, url, monkeypatch, tmp_path
):
    monkeypatch.setattr(sealing, "LOOK_SECONDS", 0.0)
    store = ledger(f"sqlite:///{tmp_path / 'new.db'}")
    monkeypatch.setenv("BURSAR_LEDGER__ANCHOR", f"{WHERE}/new")
    running = asyncio.create_task(Anchoring(load(), store).run())
    keeper = HeadKeeper(store, Signer(tmp_path / "key"))
    async with asyncio.timeout(30):
        await asyncio.sleep(0)
        keeper.keep(fill(store, recorded()[:100]))
        while not [name for name in names(url) if "/new/" in name]:
            await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running])
    store.close()


def test_an_hour_without_a_new_head_puts_nothing(data, url):
    store = Store(engine(f"sqlite:///{data / 'ledger.db'}"))
    anchor = Anchor(store, Objects(WHERE))
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
