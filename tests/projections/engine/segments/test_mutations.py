"""Any single change of segments, archive or ledger is found by a verification that knows the key, and is named.

Each mutation is drawn from a seed. Not among them, since nothing is lost and no answer changes: a head that is taken away (another
one vouches), and the ledger's word of the newest segment that is not trimmed (it is written again).
"""

import os
import random
import re
import shutil
from contextlib import suppress
from hashlib import sha256

import pytest
import sqlalchemy as sa

from bus.envelope import GENESIS
from projections.engine.heads import Signer
from projections.engine.segments import form
from projections.engine.segments.signing import sign_segment_head
from projections.engine.tables import checkpoints, events, heads, segments
from tests.projections.engine.segments.histories import copied, findings, made, opened

#: Of the long test: BURSAR_MUTATIONS=10000 tries ten thousand.
MANY = int(os.environ.get("BURSAR_MUTATIONS", "1000"))
#: Compared with the bus at each start, or only shown: tests/projections/engine/test_tampering.py.
UNCOMPARED = {"version", "stream", "stream_created_us", "incarnation", "name"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mutations")
    made(folder)
    assert findings(folder) == ()
    return folder


def flipped(content, random_):
    place = random_.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << random_.randrange(8)]) + content[place + 1 :]  # fmt: skip


# segments: each takes the folder and a source of chance, and gives what must be named


def files(folder):
    return sorted((folder / "segments").iterdir())


def segment_flipped(folder, random_):
    path = random_.choice(files(folder))
    path.write_bytes(flipped(path.read_bytes(), random_))
    return path.name


def segment_removed(folder, random_):
    path = random_.choice(files(folder))
    path.unlink()
    return path.name


def segment_truncated(folder, random_):
    path = random_.choice(files(folder))
    content = path.read_bytes()
    path.write_bytes(content[: random_.randrange(len(content))])
    return path.name


def segment_longer(folder, random_):
    path = random_.choice(files(folder))
    content, place = path.read_bytes(), 0
    place = random_.randrange(len(content) + 1)
    path.write_bytes(
        content[:place] + random_.randbytes(1 + random_.randrange(9)) + content[place:]
    )
    return path.name


def segments_reordered(folder, random_):
    one, other = random_.sample(files(folder), 2)
    contents = one.read_bytes(), other.read_bytes()
    one.write_bytes(contents[1])
    other.write_bytes(contents[0])
    return one.name


def heads_swapped(folder, random_):
    one, other = random_.sample(files(folder), 2)
    (first, packed), (second, others) = (
        form.parted(one.read_bytes()),
        form.parted(other.read_bytes()),
    )
    one.write_bytes(form.joined(second, packed))
    other.write_bytes(form.joined(first, others))
    return one.name


def forged(folder, random_):
    """Events of a segment are changed, and it is signed with a new key; the ledger is told of the new file."""
    path = random_.choice(files(folder))
    head, packed = form.parted(path.read_bytes())
    said = form.Content(form.unpack(packed, head.last - head.first + 1)).events()
    kind = random_.choice(["removed", "reordered", "doubled", "same"])
    place = random_.randrange(len(said) - 1)
    if kind == "removed":
        del said[place]
    elif kind == "reordered":
        said[place], said[place + 1] = said[place + 1], said[place]
    elif kind == "doubled":
        said.insert(place, said[place])
    before = random_.choice([head.before, GENESIS])
    packed = form.pack(said)
    new = form.head_of(said, before, sha256(packed).digest())
    if kind != "same" and random_.random() < 0.5:
        # By the right key, which lies beside the ledger: the chain does not fit then.
        signer = Signer(folder / "key")
    else:
        signer = Signer(folder / "new")
    new = sign_segment_head(new, signer)
    file = form.joined(new, packed)
    path.write_bytes(file)
    store = opened(folder)
    with store.engine.begin() as connection:
        told = segments.update().where(segments.c.first == head.first)
        connection.execute(told.values(sha256=sha256(file).digest(), head=form.encode_head(new)))
    store.close()
    return path.name


# archive and ledger


def rows_of(store, table):
    return store.select(sa.select(table).order_by(*table.primary_key.columns))


def changed(value, random_):
    if isinstance(value, bytes):
        return flipped(value, random_) if value else b"x"
    if isinstance(value, int):
        return value ^ 1 << random_.randrange(20)
    place = random_.randrange(len(value) + 1)
    return value[:place] + random_.choice("xyz") + value[place + random_.randrange(2) :] + "x"


def cell(table, *left_out):
    def mutate(folder, random_):
        store = opened(folder)
        # What the database itself refuses is no change.
        while not change(store, random_):
            pass
        store.close()
        return ""

    def change(store, random_):
        row = random_.choice(rows_of(store, table))
        column = random_.choice([c for c in table.columns if c.name not in left_out])
        where = [c == row[i] for i, c in enumerate(table.columns) if c.primary_key]
        value = changed(row[table.columns.keys().index(column.name)], random_)
        with suppress(sa.exc.IntegrityError), store.engine.begin() as connection:
            connection.execute(table.update().where(*where).values({column.name: value}))
            return True
        return False

    mutate.__name__ = f"{table.name}_cell"
    return mutate


def event_removed(folder, random_):
    store = opened(folder)
    row = random_.choice(rows_of(store, events)[1:])
    with store.engine.begin() as connection:
        connection.execute(events.delete().where(events.c.sequence == row[0]))
    store.close()
    return ""


def event_inserted(folder, random_):
    """Behind the end, or among what was trimmed."""
    store = opened(folder)
    rows = rows_of(store, events)
    place = random_.choice([rows[-1][0] + 1, random_.randrange(rows[0][0] + 1, rows[1][0])])
    with store.engine.begin() as connection:
        connection.execute(events.insert().values((place, *random_.choice(rows)[1:])))
    store.close()
    return ""


def events_reordered(folder, random_):
    store = opened(folder)
    one, other = random_.sample(rows_of(store, events), 2)
    with store.engine.begin() as connection:
        for row, place in ((one, other[0]), (other, one[0])):
            values = dict(zip(events.columns.keys()[1:], row[1:], strict=True))
            connection.execute(events.update().where(events.c.sequence == place).values(values))
    store.close()
    return ""


def segment_forgotten(folder, random_):
    store = opened(folder)
    row = random_.choice(rows_of(store, segments)[:-1])
    with store.engine.begin() as connection:
        connection.execute(segments.delete().where(segments.c.sequence == row[0]))
    store.close()
    return ""


MUTATIONS = (
    segment_flipped, segment_removed, segment_truncated, segment_longer, segments_reordered,
    heads_swapped, forged, event_removed, event_inserted, events_reordered, segment_forgotten,
    cell(events), cell(segments), cell(heads), cell(checkpoints, *UNCOMPARED),
)  # fmt: skip


def tried(whole, folder, seed):
    """(what was done, whether it was found and named)."""
    random_ = random.Random(seed)
    mutate = random_.choice(MUTATIONS)
    copied(whole, folder)
    try:
        named = mutate(folder, random_)
        found = findings(folder, Signer(whole / "key").public_key)
        told = " ".join(f"{one.what} {one.reason}" for one in found)
        return mutate.__name__, bool(found) and bool(re.search(re.escape(named), told))
    finally:
        shutil.rmtree(folder)


def test_any_single_change_is_found_and_named(whole, tmp_path):
    passed_over = [
        (seed, name)
        for seed in range(200)
        for name, is_found in [tried(whole, tmp_path / "copy", seed)]
        if not is_found
    ]

    assert passed_over == []


@pytest.mark.slow
@pytest.mark.computes
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("part", range(MANY // 1_000))
def test_many_changes_are_found_and_named(whole, tmp_path, part):
    passed_over = [
        (seed, name)
        for seed in range(1_000 * (part + 1), 1_000 * (part + 2))
        for name, is_found in [tried(whole, tmp_path / "copy", seed)]
        if not is_found
    ]

    assert passed_over == []
