"""An embedded bus whose ledger is sealed, with ages of moments in place of days."""

from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from bus.jetstream import head_trimming
from deploy.runtime.bus_trimming import BusTrimming
from deploy.runtime.ledgers import ledger
from deploy.runtime.sealing import sealer_of
from deploy.settings.history import HistorySettings
from deploy.settings.load import load
from projections.catalogue import MODEL
from projections.engine.folder import Folder
from projections.engine.runner import Runner

#: Events of a segment.
EVERY = 20
#: Between the events that may go and those that stay.
APART_SECONDS = 2.0
AGES = {"MARGIN_US": 1_500_000, "SLACK_US": 150_000, "LEAST_AGE_US": 1}


def settings_of(data):
    return load({"data": Path(data), "history": {"segment_events": EVERY, "bus_keep": "1d"}})


@contextmanager
def opened(settings):
    with ledger(settings) as store:
        yield store


async def followed(settings, store, transport):
    """Bring the ledger to the end of the bus, and seal what can be."""
    await Runner(store, Folder(MODEL, store), transport).run(live=False)
    sealer = sealer_of(settings, store)
    while sealer.seal() is not None:
        pass


async def trimmed(settings, store):
    """Trim as long as there is anything to trim; how many segments went."""
    count = 0
    with patch.multiple(head_trimming, **AGES), patch.object(HistorySettings, "bus_keep_us", 1):
        while await BusTrimming(settings, store).look():
            count += 1
    return count
