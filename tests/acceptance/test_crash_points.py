"""A process killed at any named place leaves a ledger that goes on to the same rows as one that was never interrupted.

Every label that a run reaches is a point: a child kills itself there, the next run goes on, and every table must equal,
byte for byte, that of an uninterrupted run. Some runs are killed a second time while they recover. Two stores that move
the checkpoint apart from the rows show that the test can see.

Source: docs/reliability.md.
"""

import asyncio
import importlib.util
import shutil

import pytest

from bus import crashpoints
from projections.engine.store import Store, engine
from tests import factories as f
from tests.acceptance import crashing
from tests.acceptance.filebus import FileTransport, made_anew
from tests.thorough import tries

pytestmark = pytest.mark.long

#: Of the many points only each n-th is tried in the default run, of those of a second work each n-th.
SAMPLE, OTHER_SAMPLE = 32, tries(5, 1)


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    """An empty ledger."""
    path = tmp_path_factory.mktemp("template") / "ledger.db"
    made = engine(f"sqlite:///{path}")
    crashing.schema(made)
    made.dispose()
    return path


@pytest.fixture
def uninterrupted(template, tmp_path):
    """(digest, labels) of a run without a crash."""

    def run(batch, **options):
        folder = crashing.fresh(template, tmp_path / f"whole-{batch}")
        hits = crashing.labels_hit(folder, batch, **options)
        return crashing.digest(folder), hits

    return run


def outcome(template, folder, batch, points, **options):
    """The digest after a run killed at each of ``points`` in turn and a last one that is not; or why it failed."""
    crashing.fresh(template, folder)
    try:
        for point in points:
            crashing.killed(folder, batch, point, **options)
        try:
            crashing.play(folder, batch, **options)
        except Exception as error:
            return type(error).__name__
        return crashing.digest(folder)
    finally:
        shutil.rmtree(folder)


def wrong(template, folder, batch, expected, points, **options):
    """The points after which the ledger is another one."""
    return [
        point
        for point in points
        if outcome(template, folder / "crashed", batch, point, **options) != expected
    ]


@pytest.mark.parametrize("batch", [1, 7, 100])
def test_a_sample_of_kills_leaves_the_same_ledger(batch, template, uninterrupted, tmp_path):
    expected, hits = uninterrupted(batch)
    points = [(n,) for n in range(1, len(hits) + 1)][:: SAMPLE if batch == 1 else SAMPLE // 4]

    assert [] == wrong(template, tmp_path, batch, expected, points)


@pytest.mark.slow
@pytest.mark.computes
@pytest.mark.parametrize("batch", [1, 7, 100])
def test_a_kill_at_any_place_leaves_the_same_ledger(batch, template, uninterrupted, tmp_path):
    expected, hits = uninterrupted(batch)
    points = [(n,) for n in range(1, len(hits) + 1)]

    assert [] == wrong(template, tmp_path, batch, expected, points)


@pytest.mark.slow
@pytest.mark.computes
@pytest.mark.parametrize("batch", [1, 7, 100])
def test_a_second_kill_during_recovery_leaves_the_same_ledger(
    batch, template, uninterrupted, tmp_path
):
    expected, hits = uninterrupted(batch)
    step = max(1, len(hits) // 15)
    points = [(k, j) for k in range(3, len(hits), step) for j in (11 + k % 7, 19)]

    assert [] == wrong(template, tmp_path, batch, expected, points)


def test_all_batches_end_in_the_same_ledger(uninterrupted):
    assert 1 == len({uninterrupted(batch)[0] for batch in (1, 7, 100)})


@pytest.mark.slow
@pytest.mark.computes
def test_the_enumeration_has_at_least_300_points_and_reaches_every_label_of_the_flow(uninterrupted):
    hits = [hit for batch in (1, 7, 100) for hit in uninterrupted(batch)[1]]
    flow = {label for label in crashpoints.LABELS if label.split(".")[0] in RUN}

    assert len(hits) >= 300
    assert flow == set(hits)


RUN = {"source", "runner", "store"}


@pytest.mark.skipif(
    importlib.util.find_spec("migrations.schema") is None, reason="no migrations yet"
)
def test_a_kill_while_the_schema_is_made_leaves_the_same_ledger(tmp_path, template):
    whole = crashing.fresh(None, tmp_path / "whole")
    hits = crashing.labels_hit(whole, 100, migrate=True)
    migrating = [(n,) for n, hit in enumerate(hits, 1) if hit.startswith("migrate.")]

    assert 2 == len(migrating)
    assert [] == wrong(None, tmp_path, 100, crashing.digest(whole), migrating, migrate=True)


def tail_lost(path):
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:7]))


def all_lost(path):
    made_anew(path)


def written_over(path):
    """The tail was lost, and others went on writing before anybody noticed."""
    tail_lost(path)
    new = f.pod_observed("new", 90, 99_999, created=99_990)
    asyncio.run(FileTransport(path).publish([new]))


PUBLISHED = {"recover.before_publish", "recover.after_publish"}
BOUND = PUBLISHED | {"recover.before_checkpoint", "recover.after_checkpoint"}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("damage", "labels"), [(tail_lost, PUBLISHED), (all_lost, BOUND), (written_over, BOUND)]
)
def test_a_kill_during_recovery_of_a_damaged_bus_leaves_the_same_ledger_and_bus(
    damage, labels, template, tmp_path
):
    before = crashing.fresh(template, tmp_path / "before")
    crashing.play(before, 7)
    damage(before / "bus.ndjson")
    whole = shutil.copytree(before, tmp_path / "whole")
    hits = crashing.labels_hit(whole, 7, work=crashing.recover_and_play)

    assert labels <= set(hits)
    assert [] == wrongly_resumed(before, tmp_path, whole, hits, crashing.recover_and_play)


@pytest.mark.thorough
def test_a_kill_while_rebuilt_rows_are_put_in_place_leaves_the_same_ledger(template, tmp_path):
    before = crashing.fresh(template, tmp_path / "before")
    crashing.play(before, 7)
    whole = shutil.copytree(before, tmp_path / "whole")
    hits = crashing.labels_hit(whole, 7, work=crashing.rebuild_and_swap)

    assert crashing.digest(before) == crashing.digest(whole)
    assert {"replay.before_swap", "replay.after_swap"} < set(hits)
    assert [] == wrongly_resumed(before, tmp_path, whole, hits, crashing.rebuild_and_swap)


@pytest.mark.thorough
def test_a_kill_while_changed_projections_are_filled_leaves_the_same_ledger(template, tmp_path):
    before = crashing.fresh(template, tmp_path / "before")
    crashing.play(before, 7)
    expected = crashing.digest(before)
    crashing.older(before)
    whole = shutil.copytree(before, tmp_path / "whole")
    hits = crashing.labels_hit(whole, 7, work=crashing.fill_and_play)

    assert expected == crashing.digest(whole)
    assert {"fill.before_join", "fill.after_join", "store.before_commit"} < set(hits)
    assert [] == wrongly_resumed(before, tmp_path, whole, hits, crashing.fill_and_play)


def wrongly_resumed(before, tmp_path, whole, hits, work):
    """The points after which work that was killed and done again ends otherwise than undisturbed."""
    expected = crashing.digest(whole), (whole / "bus.ndjson").read_bytes()
    found = []
    for point in range(1, len(hits) + 1, OTHER_SAMPLE):
        folder = shutil.copytree(before, tmp_path / "crashed")
        was_killed = crashing.killed(folder, 7, point, work=work)
        work(folder, 7)
        if not was_killed or expected != (
            crashing.digest(folder),
            (folder / "bus.ndjson").read_bytes(),
        ):
            found.append((point, hits[point - 1]))
        shutil.rmtree(folder)
    return found


class CheckpointApart(Store):
    """A store as it must not be: rows in one transaction, the checkpoint in the next."""

    def commit(self, batch, changes, checkpoint):
        moved = []
        keep, self._move = self._move, lambda connection, to: moved.append(to)
        try:
            told = super().commit(batch, changes, checkpoint)
        finally:
            self._move = keep
        with self._transaction() as connection:
            self._move(connection, moved[0])
        return told


class CheckpointFirst(Store):
    """The other way to be wrong: the checkpoint is moved before the rows are there."""

    def commit(self, batch, changes, checkpoint):
        from bus.envelope import chain
        from projections.engine.checkpoint import after

        moved = after(checkpoint, list(batch), chain(checkpoint.chain, batch)[-1])
        with self._transaction() as connection:
            self._move(connection, moved)
        return super().commit(batch, changes, checkpoint)


@pytest.mark.parametrize("store_class", [CheckpointApart, CheckpointFirst])
def test_a_store_that_moves_the_checkpoint_apart_from_the_rows_is_caught(
    store_class, template, uninterrupted, tmp_path
):
    expected, hits = uninterrupted(7, store_class=store_class)
    where = ("store.after_commit", "store.after_begin")
    points = [(n,) for n, hit in enumerate(hits, 1) if hit in where]

    assert expected == uninterrupted_digest(template, tmp_path)
    assert any(
        wrong(template, tmp_path, 7, expected, [point], store_class=store_class) for point in points
    )


def uninterrupted_digest(template, tmp_path):
    folder = crashing.fresh(template, tmp_path / "right")
    crashing.play(folder, 7)
    return crashing.digest(folder)
