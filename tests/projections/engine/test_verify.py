"""One change anywhere in the archive is found, given one signed head that is kept elsewhere."""

import os
import random

import pytest

from bus.envelope import GENESIS, digest, link
from bus.errors import LedgerError
from projections.catalogue import MODEL
from projections.engine.heads import EVERY_EVENTS, HeadKeeper, Signer, read_heads, verify_head
from projections.engine.segments.reading import with_links
from projections.engine.store import _archived, event_of_row
from projections.engine.tables import events as archive
from projections.engine.verify import verify
from tests.projections.engine.archives import fill, ledger, lives
from tests.thorough import tries

LIVES = lives(8, nodes=5, teams=3)


@pytest.fixture
def signer(tmp_path):
    return Signer(tmp_path / "head.key")


def test_an_untouched_ledger_is_verified_to_its_end(store, signer, tmp_path):
    keeper = HeadKeeper(store, signer, tmp_path / "heads")
    keeper.keep(fill(store, LIVES))

    found = verify(MODEL, store, tmp_path / "heads", keys=[signer.public_key])

    assert (found.ok, found.findings) == (True, ())
    assert (found.events, found.sequence, found.signed_until) == (len(LIVES),) * 3


def test_an_empty_ledger_is_verified(store):
    assert verify(MODEL, store).ok


def test_heads_are_kept_now_and_then(store, signer, tmp_path):
    keeper = HeadKeeper(store, signer, tmp_path / "heads")
    checkpoint = fill(store, LIVES)
    for _ in range(3):
        keeper.committed(checkpoint)

    assert [head.sequence for head in read_heads(tmp_path / "heads")] == [checkpoint.sequence]
    assert EVERY_EVENTS <= 1_000


def test_the_signing_key_is_its_owners_alone(tmp_path):
    made, again = Signer(tmp_path / "key"), Signer(tmp_path / "key")

    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    assert made.public_key == again.public_key
    assert [path.name for path in tmp_path.iterdir()] == ["key"]

    (tmp_path / "key").chmod(0o644)
    with pytest.raises(LedgerError, match="chmod 600"):
        Signer(tmp_path / "key")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to another user")
def test_a_key_in_a_mounted_secret_is_read_by_the_group_of_its_pod_and_by_nobody_else(
    tmp_path, monkeypatch
):
    made = Signer(tmp_path / "key")
    monkeypatch.setattr(os, "geteuid", lambda: 10_001)
    (tmp_path / "key").chmod(0o440)

    assert Signer(tmp_path / "key").public_key == made.public_key
    for mode, owner in ((0o444, 0), (0o460, 0), (0o440, 10_001), (0o440, 10_002)):
        (tmp_path / "key").chmod(mode)
        os.chown(tmp_path / "key", owner, 10_001)
        with pytest.raises(LedgerError, match="chmod 600"):
            Signer(tmp_path / "key")


def test_a_head_is_valid_for_its_own_event_and_key_only(tmp_path, signer):
    head = signer.sign(5, GENESIS)
    other = Signer(tmp_path / "other")

    assert verify_head(head, [signer.public_key])
    assert not verify_head(head, [other.public_key])
    assert not verify_head(type(head)(6, head.chain, head.signature, head.public_key))
    assert not verify_head(type(head)(5, head.chain, b"short", head.public_key))


def test_a_damaged_or_missing_file_of_heads_is_said(store, tmp_path):
    (tmp_path / "heads").write_text("{}\n")

    for path in (tmp_path / "heads", tmp_path / "none"):
        with pytest.raises(LedgerError):
            verify(MODEL, store, path)


@pytest.mark.parametrize("kept", [0, 1, 40, 150, -1])
def test_a_head_that_a_crash_cut_off_is_cut_back_before_the_next_one(
    store, signer, tmp_path, caplog, kept
):
    """Killed anywhere in a head's one write: the heads before it and after it are there, and `verify` reads them."""
    file, checkpoint = tmp_path / "heads", fill(store, LIVES)
    keeper = HeadKeeper(store, signer, file)
    keeper.keep(checkpoint)
    whole = file.read_bytes()
    file.write_bytes(whole + whole[: kept % len(whole)])
    torn = [head.sequence for head in read_heads(file)]
    keeper.keep(checkpoint)

    assert (torn, file.read_bytes()) == ([checkpoint.sequence], whole * 2)
    assert verify(MODEL, store, file, keys=[signer.public_key]).ok
    assert ("cut off" in caplog.text) == (kept != 0)


def test_a_head_behind_one_that_was_cut_off_counts(store, signer, tmp_path):
    """An earlier version went on writing on the same line, and no `verify` read that file again."""
    file = tmp_path / "heads"
    HeadKeeper(store, signer, file).keep(fill(store, LIVES))
    whole = file.read_bytes()
    file.write_bytes(whole[:50] + whole + whole)

    assert [head.sequence for head in read_heads(file)] == [len(LIVES)] * 2
    assert verify(MODEL, store, file).ok


def test_a_parked_event_that_is_not_archived_is_found(store):
    fill(store, LIVES)
    with store.engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO parked VALUES (99999, 't', 'k', 'r')")

    assert [finding.what for finding in verify(MODEL, store).findings] == ["parked"]


# every single change, by someone who may or may not mend all that lies in the database


def _changed(rows, rng):
    place = rng.randrange(len(rows))
    row = list(rows[place])
    column = rng.choice([1, 2, 3, 4, 5, 6, 7, 8, 9])
    if isinstance(row[column], bytes):
        at = rng.randrange(len(row[column]))
        row[column] = (
            row[column][:at]
            + bytes([row[column][at] ^ 1 << rng.randrange(8)])
            + row[column][at + 1 :]
        )
    elif isinstance(row[column], int):
        row[column] += rng.choice([-1, 1])
    else:
        row[column] += "x"
    return [*rows[:place], tuple(row), *rows[place + 1 :]]


def _removed(rows, rng):
    place = rng.randrange(len(rows))
    return rows[:place] + rows[place + 1 :]


def _inserted(rows, rng):
    # Behind the head nothing is signed yet: what is appended there is an event like any other.
    place = rng.randrange(len(rows))
    return [*rows[:place], rng.choice(rows), *rows[place:]]


def _reordered(rows, rng):
    one, other = rng.sample(range(len(rows)), 2)
    swapped = list(rows)
    swapped[one], swapped[other] = swapped[other], swapped[one]
    return swapped


def _truncated(rows, rng):
    return rows[: rng.randrange(len(rows))]


def _mended(rows, level):
    """The rows as a forger leaves them: places in order, and from level 1 on a new chain."""
    mended, previous = [], GENESIS
    for place, row in enumerate(rows, 1):
        row = (place, *row[1:])
        previous = link(previous, event_of_row(row))
        mended.append((*row[:10], previous if level else row[10]))
    return mended


MUTATIONS = (_changed, _removed, _inserted, _reordered, _truncated)


def _forge(connection, rows, level):
    """Replace the archive; on level 2 the checkpoint and the heads inside the ledger too."""
    connection.exec_driver_sql("DELETE FROM events")
    marks = ", ".join("?" for _ in archive.columns)
    if rows:
        connection.exec_driver_sql(f"INSERT INTO events VALUES ({marks})", rows)
    if level == 2:
        connection.exec_driver_sql("DELETE FROM heads")
        last = rows[-1] if rows else (0, *[b""] * 10)
        connection.exec_driver_sql(
            "UPDATE checkpoints SET sequence = ?, chain = ?, digest = ?",
            (last[0], last[10] or GENESIS, digest(event_of_row(last)) if rows else b""),
        )


@pytest.mark.thorough
@pytest.mark.parametrize("level", range(3), ids=["clumsy", "new-chain", "all-but-the-signature"])
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda f: f.__name__[1:])
def test_any_single_mutation_is_found(tmp_path, signer, mutation, level):
    store = ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    HeadKeeper(store, signer, tmp_path / "heads").keep(fill(store, LIVES))
    rows = _archived(LIVES, [link for _, link in with_links(store.select, 1, len(LIVES))])
    rng = random.Random(f"{mutation.__name__}/{level}")
    missed = []

    for number in range(tries(8, 34)):
        mutated = mutation(rows, rng)
        with store.engine.begin() as connection:
            _forge(connection, _mended(mutated, level), level)
        is_found = not verify(MODEL, store, tmp_path / "heads", keys=[signer.public_key]).ok
        if not is_found and [row[1:10] for row in mutated] != [row[1:10] for row in rows]:
            missed.append(number)

    assert missed == []
    store.close()


def test_restored_rows_are_verified_again(tmp_path, signer):
    store = ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    HeadKeeper(store, signer, tmp_path / "heads").keep(fill(store, LIVES))
    rows = _archived(LIVES, [link for _, link in with_links(store.select, 1, len(LIVES))])
    with store.engine.begin() as connection:
        _forge(connection, _mended(rows, 1), 1)

    assert verify(MODEL, store, tmp_path / "heads").ok
    store.close()
