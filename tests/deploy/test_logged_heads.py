"""Heads in a transparency log vouch for a history, whatever is done to ledger and folder."""

import asyncio
import shutil

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bus.clock import SECOND_US
from bus.envelope import to_line
from bus.errors import TransparencyLogError
from bus.transparency_log import TransparencyLog
from deploy.cli.program.exits import Exit
from deploy.errors import SettingsError
from deploy.runtime import sealing
from deploy.runtime.anchor_places import below, place_of
from deploy.runtime.sealing import Anchoring
from deploy.settings.load import load
from projections.engine.anchors import LoggedHeads
from projections.engine.heads import Head, signed_content
from projections.engine.store import Store, engine
from tests import rekor
from tests.deploy.anchored import kept, verified
from tests.deploy.ledgers import EVENTS, bursar
from tests.scenario import Clock

pytestmark = pytest.mark.nats

NEWEST = len(EVENTS) + 1


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A data folder as an import leaves it."""
    folder = tmp_path_factory.mktemp("logged")
    (folder / "events.ndjson").write_bytes(b"".join(to_line(event) + b"\n" for event in EVENTS))
    assert bursar("import", "events", folder / "events.ndjson", "--data", folder / "data") == 0
    return folder / "data"


@pytest.fixture
def log():
    with rekor.running() as found:
        yield found


@pytest.fixture
def where(log):
    return f"rekor+{log.url}"


@pytest.fixture
def data(log, where, original, tmp_path, monkeypatch):
    """The same, whose newest head is in the log."""
    data = shutil.copytree(original, tmp_path / "data")
    (tmp_path / "log.pem").write_bytes(log.pem)
    monkeypatch.setenv("BURSAR_DATA", str(data))
    monkeypatch.setenv("BURSAR_LEDGER__ANCHOR", where)
    monkeypatch.setenv("BURSAR_LEDGER__ANCHOR_KEY", str(tmp_path / "log.pem"))
    assert kept(data, place_of(where, load())).sequence == NEWEST
    return data


def forge(data, tmp_path):
    """Another history in the place of this one, by who can write the folder."""
    key = (data / "signing.key").read_bytes()
    shutil.rmtree(data)
    lines = [to_line(event) for event in EVENTS]
    (tmp_path / "forged.ndjson").write_bytes(b"\n".join([*lines[:1], *lines[2:], b""]))
    assert bursar("import", "events", tmp_path / "forged.ndjson", "--data", data) == 0
    return key


def test_a_log_anchors_a_history(data, where, capsys):
    code, row, _ = verified(capsys, "--heads", where)
    assert (code, row["anchored_until"]) == (Exit.OK, NEWEST)
    assert verified(capsys, "--require-anchor")[0] == Exit.UNANCHORED


def test_a_history_that_was_signed_anew_with_its_own_key_is_found(
    data, where, log, tmp_path, capsys
):
    key = (data / "signing.key").read_bytes()
    forge(data, tmp_path)
    # The same history again, beside the key that was: all of its parts fit.
    shutil.rmtree(data)
    data.mkdir(mode=0o700)
    (data / "signing.key").write_bytes(key)
    (data / "signing.key").chmod(0o600)
    assert bursar("import", "events", tmp_path / "forged.ndjson", "--data", data) == 0
    assert verified(capsys, "--require-anchor")[0] == Exit.UNANCHORED
    code, row, _ = verified(capsys, "--heads", where)
    assert (code, row["anchored_until"]) == (Exit.DIFFERENT, 0)
    (finding,) = row["findings"]
    assert "entry 0 of the log, of 2027-01-15T08:00:00Z, is of a head that this ledger has not" in finding["reason"]  # fmt: skip

    assert kept(data, place_of(where, load())) is not None
    assert len(log.bodies) == 2
    assert verified(capsys, "--heads", where)[0] == Exit.DIFFERENT, "nothing is taken out of a log"


def test_by_a_new_key_it_is_found_where_the_old_one_is_named(data, where, tmp_path, capsys):
    old = verified(capsys)[1]["key"]
    forge(data, tmp_path)
    code, row, _ = verified(capsys, "--heads", where)
    assert (code, row["anchored_until"]) == (Exit.UNANCHORED, 0), "the log has nothing of this key"
    code, row, _ = verified(capsys, "--heads", where, "--key", old)
    whys = [finding["reason"] for finding in row["findings"]]
    assert code == Exit.DIFFERENT and any("entry 0 of the log" in why for why in whys), whys


def test_a_key_that_is_none_is_told_without_a_traceback(data, where, capsys):
    code, _, err = verified(capsys, "--heads", where, "--key", "abcd")
    assert code == Exit.FAILED and "no ed25519 key: abcd" in err and "Traceback" not in err


def test_who_answers_in_the_place_of_the_log_is_found(data, where, log, capsys):
    log.key = rekor.ec.generate_private_key(rekor.ec.SECP256R1())
    code, _, err = verified(capsys, "--heads", where)
    assert code == Exit.FAILED and "not signed by the log's key" in err and "Traceback" not in err


async def test_a_log_that_is_away_is_said_and_tried_again(data, where, log, monkeypatch, capsys):
    monkeypatch.setattr(sealing, "RETRY_SECONDS", 0.0)
    log.status = 503
    # A command has a thread without a loop.
    code, _, err = await asyncio.to_thread(verified, capsys, "--heads", where)
    assert code == Exit.FAILED and "HTTP 503: 'out of order'" in err and "Traceback" not in err
    store = Store(engine(f"sqlite:///{data / 'ledger.db'}"))
    anchoring = Anchoring(load(), store)
    running = asyncio.create_task(anchoring.run())
    async with asyncio.timeout(30):
        while "HTTP 503" not in anchoring.trouble:
            await asyncio.sleep(0)
        log.status = 0
        while anchoring.trouble:
            await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running])
    store.close()


def test_a_day_has_one_entry_and_one_that_failed_is_tried_again(log):
    clock = Clock(0)
    place = LoggedHeads(TransparencyLog(log.url), clock)
    heads = [signed(number) for number in range(1, 5)]
    log.status = 500
    with pytest.raises(TransparencyLogError):
        place.keep(heads[0])
    log.status = 0
    for number, hours in enumerate((0, 1, 23, 25)):
        clock.us = hours * 3_600 * SECOND_US
        place.keep(heads[number])
    assert len(log.bodies) == 2
    found, wrong = place.kept(heads, ())
    assert found == [heads[0], heads[3]] and not wrong


def signed(number):
    key = Ed25519PrivateKey.from_private_bytes(b"\1" * 32)
    head = Head(number, bytes([number]) * 32, b"", key.public_key().public_bytes_raw())
    return Head(number, head.chain, key.sign(signed_content(head)), head.public_key)


def test_an_address_whose_answers_anybody_could_give_needs_the_key(monkeypatch):
    monkeypatch.delenv("BURSAR_LEDGER__ANCHOR_KEY", raising=False)
    with pytest.raises(SettingsError, match=r"name its public key, ledger\.anchor_key"):
        place_of("rekor+http://rekor.example", load())
    assert isinstance(place_of("rekor+https://rekor.example", load()), LoggedHeads)
    assert below("rekor+https://rekor.example", "c1") == "rekor+https://rekor.example"
