"""Segments in a bucket of a real S3-compatible store: as in a folder, whatever the store, the network or its neighbours do."""

import asyncio
import io
import json
import os
import signal

import msgspec
import pytest
import urllib3

from bus import crashpoints, object_store
from deploy.cli.program.exits import Exit
from deploy.runtime.sealing import Sealing, sealer_of
from deploy.settings.load import load
from projections.engine.segments import places, reading
from projections.engine.store import Store, engine
from tests import s3
from tests.cluster import build
from tests.deploy.ledgers import bursar, make_ledger
from tests.recording import recorded

pytestmark = [
    pytest.mark.skipif(not build.gateway().is_file(), reason="no store: make controlplane"),
    pytest.mark.long,
]

WHERE = "s3://backups/segments/c1"
EVERY, SEGMENTS = 500, 4
FIRST = f"{WHERE}/segment-000000000001.zst"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with s3.store(tmp_path_factory.mktemp("s3")) as found:
        yield found


@pytest.fixture
def objects(url, monkeypatch):
    """A client of an empty bucket, which the program is told of."""
    monkeypatch.setenv("BURSAR_HISTORY__FOLDER", WHERE)
    monkeypatch.setenv("BURSAR_HISTORY__SEGMENT_EVENTS", str(EVERY))
    # Each look is a new process's.
    monkeypatch.setattr(places, "LISTED_SECONDS", 0.0)
    return s3.emptied(url, monkeypatch)


@pytest.fixture
def data(objects, tmp_path, monkeypatch):
    """A ledger of the recording's first events and none sealed."""
    monkeypatch.setenv("BURSAR_DATA", str(tmp_path / "data"))
    (tmp_path / "data").mkdir(mode=0o700)
    return make_ledger(tmp_path / "data", recorded()[: SEGMENTS * EVERY + 100])


@pytest.fixture
def trimmed(data):
    """The same, sealed and trimmed as far as it goes."""
    step()
    return data


def opened():
    return Store(engine(f"sqlite:///{load().data / 'ledger.db'}"))


def step():
    """Seal and trim what can be."""
    store = opened()
    sealer = sealer_of(load(), store)
    while sealer.seal() is not None:
        pass
    while sealer.trim(1) is not None:
        pass
    store.close()


def names(objects):
    return sorted(one.object_name for one in objects.list_objects(s3.BUCKET, recursive=True))


def said(capsys, *arguments):
    """The exit code of a command, what it answered and what it told."""
    capsys.readouterr()
    code = bursar(*arguments)
    return code, *capsys.readouterr()


def events_of_the_ledger():
    store = opened()
    found = [event for part in reading.history(store.select) for event in part]
    store.close()
    return found


def test_a_history_in_a_bucket_answers_as_before(data, objects, tmp_path, capsys):
    questions = [
        ("report", "--by", "team"), ("events", "--limit", "9000"), ("verify", "--decisions"), ("replay",),
    ]  # fmt: skip
    before = [said(capsys, *question, "-o", "json") for question in questions]
    assert bursar("history", "seal") == 0
    step()
    store = opened()
    assert reading.trimmed_until(store.select) == SEGMENTS * EVERY
    store.close()

    assert [said(capsys, *question, "-o", "json") for question in questions] == before
    assert names(objects) == [
        f"segments/c1/{reading.file_name(first)}" for first in range(1, SEGMENTS * EVERY, EVERY)
    ]
    assert not (data / "segments").exists()
    assert bursar("backup", tmp_path / "kept") == 0
    assert bursar("restore", tmp_path / "kept", "--data", tmp_path / "again") == 0
    _, listed, _ = said(capsys, "history", "segments", "-o", "json")
    assert [one["file"] for one in json.loads(listed)][:1] == [FIRST]


@pytest.mark.parametrize(
    ("what", "words"),
    [("lost", "missing"), ("changed", "is not the file that was written"), ("cut", "is not the file"),
     ("swapped", "is not the file"), ("grown", "is larger than any segment")],
)  # fmt: skip
def test_whatever_a_neighbour_does_to_the_bucket_is_found_and_named(
    what, words, trimmed, objects, monkeypatch, capsys
):
    name, other = names(objects)[:2]
    whole = objects.get_object(s3.BUCKET, name).read()
    swapped = objects.get_object(s3.BUCKET, other).read()
    objects.remove_object(s3.BUCKET, name)
    body = {
        "changed": whole[:99] + bytes([whole[99] ^ 1]) + whole[100:], "cut": whole[:-7], "swapped": swapped,
        "grown": whole,
    }.get(what)  # fmt: skip
    if body is not None:
        objects.put_object(s3.BUCKET, name, io.BytesIO(body), len(body))
    if what == "grown":
        monkeypatch.setattr(places, "LARGEST", len(whole) - 1)
    code, text, _ = said(capsys, "verify", "-o", "json")
    finding = json.loads(text)["findings"][0]["reason"]
    assert code == Exit.DIFFERENT and words in finding, finding
    assert (f"{FIRST}" in finding) or what == "grown"

    code, _, err = said(capsys, "replay")
    assert code == Exit.FAILED and words in err and "Traceback" not in err
    code, text, _ = said(capsys, "status", "-o", "json")
    missing = json.loads(text)["segments"]["missing"]
    assert (code == Exit.UNHEALTHY, missing) == (what == "lost", [FIRST] * (what == "lost"))


@pytest.mark.parametrize("label", [one for one in crashpoints.LABELS if one.startswith(("seal.", "trim."))])  # fmt: skip
def test_a_kill_at_any_label_loses_nothing(label, data, objects, capsys):
    before = events_of_the_ledger()
    child = os.fork()
    if child == 0:
        left = [2]

        def hook(name):
            left[0] -= name == label
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

        crashpoints.install(hook)
        step()
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])

    assert events_of_the_ledger() == before
    step()
    assert events_of_the_ledger() == before
    assert said(capsys, "verify")[0] == Exit.OK
    assert len(names(objects)) == SEGMENTS


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"BURSAR_HISTORY__FOLDER": "s3://nowhere/c1"}, "there is no such bucket"),
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "the secret key is not that of the access key"),
        ({"AWS_ENDPOINT_URL": "nonsense"}, "AWS_ENDPOINT_URL is no address"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, "s3://backups/segments/c1/segment-"),
    ],
)
async def test_what_cannot_be_sealed_is_said_and_loses_nothing(
    variables, words, data, monkeypatch, capsys
):
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    code, _, err = said(capsys, "history", "seal")
    assert code == Exit.FAILED and words in err and "Traceback" not in err

    store = opened()
    sealing = Sealing(load(), store)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(sealing.run(), 3)
    store.close()
    assert words in sealing.trouble
    assert len(events_of_the_ledger()) == SEGMENTS * EVERY + 100


def test_a_store_that_is_away_stops_what_needs_it_and_is_named(
    trimmed, objects, url, monkeypatch, capsys
):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    code, text, _ = said(capsys, "status", "-o", "json")
    found = json.loads(text)["segments"]
    assert code == Exit.UNHEALTHY and FIRST in found["missing"][0]
    code, _, err = said(capsys, "replay")
    assert code == Exit.FAILED and FIRST in err and "Traceback" not in err
    assert said(capsys, "report")[0] == 0, "the ledger's own tables are here"

    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    assert said(capsys, "replay")[0] == 0


def test_a_store_that_is_away_is_asked_once_however_many_segments_there_are(
    trimmed, objects, monkeypatch, capsys
):
    """Each attempt may take a minute: a status of five hundred segments would take a day."""
    asked, request = [], urllib3.PoolManager.urlopen

    def counted(self, *arguments, **fields):
        asked.append(arguments[1])
        return request(self, *arguments, **fields)

    monkeypatch.setattr("urllib3.PoolManager.urlopen", counted)
    # A door of its own: another test may have found that one shut a moment ago.
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:2")
    monkeypatch.setattr(object_store, "AWAY_SECONDS", 600.0)
    for question in (("status",), ("verify",), ("history", "segments")):
        said(capsys, *question)
    assert len(asked) == 1


def test_another_history_in_the_same_place_is_not_written_over(
    trimmed, objects, tmp_path, monkeypatch, capsys
):
    before = names(objects)
    (tmp_path / "other").mkdir(mode=0o700)
    monkeypatch.setenv("BURSAR_DATA", str(tmp_path / "other"))
    others = [msgspec.structs.replace(one, source="other") for one in recorded()[: EVERY + 1]]
    make_ledger(tmp_path / "other", others)
    code, _, err = said(capsys, "history", "seal")

    assert code == Exit.FAILED and "holds another history" in err and WHERE in err
    assert names(objects) == before
