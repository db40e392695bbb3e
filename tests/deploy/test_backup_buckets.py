"""A backup in a bucket of a real S3-compatible store: as one in a folder, whatever the store, the network or its neighbours do."""

import errno
import io
import json
import os
import sys

import pytest

from bus import object_store
from deploy.commands import backup as backups
from deploy.commands.backup_places import BucketPlace
from projections.engine.store import Store, engine
from tests import s3
from tests.cluster import build, credentials
from tests.deploy.ledgers import bursar, make_ledger, rows_of
from tests.projections.engine.archives import fill
from tests.recording import recorded

pytestmark = [
    pytest.mark.skipif(not build.gateway().is_file(), reason="no store: make controlplane"),
    pytest.mark.long,
]

WHERE = "s3://backups/clusters/c1"


@pytest.fixture(autouse=True)
def small_files(monkeypatch):
    monkeypatch.setattr(backups, "FILE_EVENTS", 300)
    monkeypatch.setattr(backups, "BATCH", 70)


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with s3.store(tmp_path_factory.mktemp("s3")) as found:
        yield found


@pytest.fixture
def objects(url, monkeypatch):
    """A client of an empty bucket, which the program is told of."""
    return s3.emptied(url, monkeypatch)


@pytest.fixture
def data(tmp_path):
    """A data folder of 700 events."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    return make_ledger(folder, recorded()[:700])


def names(objects):
    return sorted(one.object_name for one in objects.list_objects(s3.BUCKET, recursive=True))


def said(capsys, *arguments):
    """The exit code of a command, what it answered and what it told."""
    capsys.readouterr()
    code = bursar(*arguments, "-o", "json")
    out, err = capsys.readouterr()
    return code, out, err


def test_a_backup_in_a_bucket_grows_and_a_restore_is_equal_to_the_last_row(
    objects, data, tmp_path, capsys
):
    assert bursar("backup", WHERE, "--data", data) == 0
    before = names(objects)
    store = Store(engine(f"sqlite:///{data / 'ledger.db'}"))
    fill(store, recorded()[700:1_100], batch=100)
    store.close()
    code, out, _ = said(capsys, "backup", WHERE, "--data", data)
    found = json.loads(out)

    assert (code, found["added"], found["events"], found["files"]) == (0, 400, 1_100, 5)
    assert set(before) < set(names(objects)) and len(names(objects)) == 6
    assert all(one.startswith("clusters/c1/") for one in names(objects))
    assert found["bytes"] == sum(
        one.size for one in objects.list_objects(s3.BUCKET, recursive=True) if "events-" in one.object_name
    )  # fmt: skip
    assert bursar("restore", WHERE, "--data", tmp_path / "again") == 0
    assert rows_of(data) == rows_of(tmp_path / "again")


def test_what_is_copied_out_of_a_bucket_is_a_backup_in_a_folder(objects, data, tmp_path):
    assert bursar("backup", WHERE, "--data", data) == 0
    copied = tmp_path / "copied"
    for name in names(objects):
        objects.fget_object(s3.BUCKET, name, str(copied / name.rpartition("/")[2]))

    assert bursar("restore", copied, "--data", tmp_path / "again") == 0
    assert rows_of(data) == rows_of(tmp_path / "again")


def test_a_neighbour_who_writes_the_bucket_changes_nothing_unseen(objects, data, tmp_path, capsys):
    assert bursar("backup", WHERE, "--data", data) == 0
    name = next(one for one in names(objects) if "events-000000000301" in one)
    whole = objects.get_object(s3.BUCKET, name).read()
    changed = whole[:99] + bytes([whole[99] ^ 1]) + whole[100:]
    for body, words in ((whole[:-7], "damaged"), (changed, "damaged"), (None, "cannot be read")):
        objects.remove_object(s3.BUCKET, name)
        if body is not None:
            objects.put_object(s3.BUCKET, name, io.BytesIO(body), len(body))
        code, _, err = said(
            capsys, "restore", WHERE, "--data", tmp_path / f"again-{len(body or b'')}"
        )

        assert code == 2 and words in err and f"s3://{s3.BUCKET}/{name}" in err


def test_two_ledgers_in_one_place_are_refused(objects, data, tmp_path, capsys):
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    make_ledger(other)
    assert bursar("backup", WHERE, "--data", other) == 0
    before = names(objects)
    code, _, err = said(capsys, "backup", WHERE, "--data", data)

    assert (code, names(objects)) == (2, before)
    assert f"{WHERE} holds a backup of another history" in err


@pytest.mark.parametrize(
    "where, variables, words",
    [
        ("s3://nowhere/c1", {}, "there is no such bucket"),
        (WHERE, {"AWS_ACCESS_KEY_ID": "somebody"}, "access key"),
        (WHERE, {"AWS_SECRET_ACCESS_KEY": "wrong"}, "the secret key is not that of the access key"),
        (WHERE, {"AWS_ENDPOINT_URL": "nonsense"}, "AWS_ENDPOINT_URL is no address"),
        ("s3://", {}, "name a bucket"),
        ("s3://B_/x", {}, "s3://B_/x/backup.json: "),
    ],
)
def test_what_the_store_refuses_is_told_with_the_way_out(
    where, variables, words, objects, data, monkeypatch, capsys
):
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    code, _, err = said(capsys, "backup", where, "--data", data)

    assert code == 2 and words in err, err
    assert names(objects) == [] and "Traceback" not in err


def test_a_store_that_is_away_is_named_and_asked_no_longer_than_it_is_given(
    data, monkeypatch, capsys
):
    for name, text in s3.variables(f"http://127.0.0.1:{s3.free_port()}").items():
        monkeypatch.setenv(name, text)
    code, _, err = said(capsys, "backup", WHERE, "--data", data)

    assert code == 2 and f"{WHERE}/backup.json" in err


def test_without_credentials_the_ways_to_some_are_told(
    objects, data, tmp_path, monkeypatch, capsys
):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    nobody = f"http://127.0.0.1:{s3.free_port()}/role"
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", nobody)
    code, _, err = said(capsys, "backup", WHERE, "--data", data)
    assert code == 2 and "no credentials" in err and "AWS_ACCESS_KEY_ID" in err

    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(
        f"[backups]\naws_access_key_id = {s3.ACCESS}\naws_secret_access_key = {s3.SECRET}\n"
    )
    monkeypatch.setenv("AWS_PROFILE", "backups")
    assert bursar("backup", WHERE, "--data", data) == 0


def test_a_key_goes_to_a_store_by_tls_alone(objects, data, tmp_path, monkeypatch, capsys):
    (data / "signing.key").write_bytes(bytes(32))
    (data / "signing.key").chmod(0o600)
    code, _, err = said(capsys, "backup", WHERE, "--with-key", "--data", data)
    assert code == 2 and "without TLS" in err and names(objects) == []

    issued = credentials.issue(tmp_path / "certificates", "https://127.0.0.1")
    certificate = (issued.server_certificate, issued.server_key)
    (tmp_path / "tls").mkdir()
    with s3.store(tmp_path / "tls", certificate) as secure:
        monkeypatch.setenv("AWS_ENDPOINT_URL", secure)
        code, _, err = said(capsys, "backup", WHERE, "--with-key", "--data", data)
        assert code == 2 and "certificate" in err.lower()

        monkeypatch.setenv("AWS_CA_BUNDLE", str(issued.ca_file))
        assert bursar("backup", WHERE, "--with-key", "--data", data) == 0
        assert bursar("restore", WHERE, "--with-key", "--data", tmp_path / "again") == 0
    assert (tmp_path / "again" / "signing.key").read_bytes() == bytes(32)


def test_no_key_is_taken_from_a_store_without_tls(objects, data, tmp_path, capsys):
    assert bursar("backup", WHERE, "--data", data) == 0
    code, _, err = said(capsys, "restore", WHERE, "--with-key", "--data", tmp_path / "again")

    assert code == 2 and "without TLS" in err and not (tmp_path / "again").exists()


def test_nothing_stays_on_this_machine(objects, data, tmp_path, monkeypatch):
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(work))
    assert bursar("backup", WHERE, "--data", data) == 0
    assert bursar("restore", WHERE, "--data", tmp_path / "again") == 0

    assert list(work.iterdir()) == []


def test_without_the_extra_its_name_is_told(data, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "minio", None)
    code, _, err = said(capsys, "backup", WHERE, "--data", data)

    assert code == 2 and "pip install 'bursar[s3]'" in err


@pytest.mark.parametrize("sha256", ["/../../../../x", "A" * 64, "", "0" * 63])
def test_a_manifest_names_no_other_file_of_this_machine(sha256, objects, data, tmp_path, capsys):
    """A part of a file's name is the digest, and who writes the bucket writes the manifest."""
    assert bursar("backup", WHERE, "--data", data) == 0
    name = "clusters/c1/backup.json"
    manifest = json.loads(objects.get_object(s3.BUCKET, name).read())
    manifest["parts"][0] |= {"sha256": sha256, "name": f"events-000000000001-{sha256[:16]}.zst"}
    body = json.dumps(manifest).encode()
    objects.put_object(s3.BUCKET, name, io.BytesIO(body), len(body))
    code, _, err = said(capsys, "restore", WHERE, "--data", tmp_path / "again")

    assert code == 2 and "backup.json: damaged" in err


def test_what_was_broken_off_before_the_manifest_is_the_backup_before(
    objects, data, tmp_path, monkeypatch
):
    assert bursar("backup", WHERE, "--data", data) == 0
    before = rows_of(data)
    store = Store(engine(f"sqlite:///{data / 'ledger.db'}"))
    fill(store, recorded()[700:1_100], batch=100)
    store.close()
    keep = BucketPlace.keep

    def killed(place, name):
        if name == backups.MANIFEST:
            raise KeyboardInterrupt
        keep(place, name)

    with monkeypatch.context() as patch:
        patch.setattr(BucketPlace, "keep", killed)
        assert bursar("backup", WHERE, "--data", data) == 130
    assert bursar("restore", WHERE, "--data", tmp_path / "before") == 0
    assert rows_of(tmp_path / "before") == before

    assert bursar("backup", WHERE, "--data", data) == 0
    assert bursar("restore", WHERE, "--data", tmp_path / "after") == 0
    assert rows_of(tmp_path / "after") == rows_of(data) != before


def test_a_full_disk_is_told_with_what_was_brought(objects, data, tmp_path, monkeypatch, capsys):
    assert bursar("backup", WHERE, "--data", data) == 0

    def full(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("bus.private_files.create", full)
    code, _, err = said(capsys, "restore", WHERE, "--data", tmp_path / "again")

    assert code == 2 and f"{WHERE}/backup.json" in err and "No space left" in err


def test_while_events_are_folded_no_key_lies_in_a_folder_for_temporary_files(
    objects, data, tmp_path, monkeypatch
):
    (data / "signing.key").write_bytes(bytes(32))
    (data / "signing.key").chmod(0o600)
    monkeypatch.setattr(object_store.Bucket, "is_secret", True)
    assert bursar("backup", WHERE, "--with-key", "--data", data) == 0
    work, fold, seen = tmp_path / "work", backups._fold, []
    work.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(work))

    def looked(*arguments):
        seen.extend(work.rglob("*"))
        return fold(*arguments)

    monkeypatch.setattr(backups, "_fold", looked)
    assert bursar("restore", WHERE, "--with-key", "--data", tmp_path / "again") == 0
    assert "signing.key" not in {one.name for one in seen} and seen
    assert (tmp_path / "again" / "signing.key").read_bytes() == bytes(32)
