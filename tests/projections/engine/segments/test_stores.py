"""On each database: sealed, trimmed, read, verified and replayed."""

from projections.catalogue import MODEL
from projections.engine.dump import digest
from projections.engine.heads import HeadKeeper, Signer
from projections.engine.replay import compare, discard, rebuild
from projections.engine.segments import reading
from projections.engine.segments.sealing import Sealer
from projections.engine.verify import verify
from tests.projections.engine.archives import fill
from tests.projections.engine.segments.histories import EVERY, HISTORY, KEEP_US


def test_a_trimmed_ledger_says_the_same(store, tmp_path):
    signer = Signer(tmp_path / "key")
    HeadKeeper(store, signer).keep(fill(store, HISTORY))
    before = digest(MODEL, store)
    sealer = Sealer(store, signer, tmp_path / "elsewhere" / "segments", EVERY)
    while sealer.seal() is not None or sealer.trim(KEEP_US) is not None:
        pass

    assert [one for part in reading.history(store.select) for one in part] == HISTORY
    assert verify(MODEL, store, keys=[signer.public_key]).findings == ()
    with rebuild(MODEL, store) as rebuilt:
        assert compare(store, rebuilt).equal
        assert digest(MODEL, rebuilt.store) == before
    discard(store)
