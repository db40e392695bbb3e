"""Heads that are kept elsewhere, and what `bursar verify` says by them."""

import json

from projections.engine.anchors import Anchor
from projections.engine.store import Store, engine
from tests.deploy.ledgers import bursar


def kept(data, place):
    """Keep the newest head of a data folder at a place; the head."""
    store = Store(engine(f"sqlite:///{data / 'ledger.db'}"))
    head = Anchor(store, place).keep()
    store.close()
    return head


def verified(capsys, *arguments):
    """Exit code, and what is said."""
    capsys.readouterr()
    code = bursar("verify", *arguments, "-o", "json")
    out, err = capsys.readouterr()
    return code, json.loads(out) if out else {}, err
