"""The control of the pipeline benchmark: the same ledger written the way one would write it first.

nats-py's ``fetch(100)`` with an acknowledgement for each message, pydantic models of the same facts, SQLAlchemy Core
row by row in a transaction per fetch. Folds, derivations and tables are the product's own, so the rows are the same;
only the plumbing differs. It keeps no archive, no checkpoint and no hash chain, which the product does.

The folds take the product's facts, so a validated model is copied into one; that is about 2 us of its cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any
from unittest import mock

import msgspec
import nats
import sqlalchemy as sa
from nats.js.api import AckPolicy, ConsumerConfig
from pydantic import BaseModel, ConfigDict
from sqlalchemy.dialects.sqlite import insert

from bus.clock import parse_stamp
from bus.envelope import Event
from bus.events import VOCABULARY
from bus.events.pods import Owner
from bus.events.vocabulary import Fact
from projections.catalogue import MODEL
from projections.engine import folder
from projections.engine.changes import Changes
from projections.engine.store import Store


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore")


class OwnerModel(_Model):
    kind: str
    name: str
    uid: str


class PodModel(_Model):
    uid: str
    namespace: str
    name: str
    resource_version: str
    created: str | None = None
    phase: str = ""
    node: str | None = None
    scheduled: str | None = None
    deletion: str | None = None
    grace_seconds: int | None = None
    disrupted: str | None = None
    finished: tuple[str, ...] = ()
    owner: OwnerModel | None = None
    team: str | None = None
    user: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    resources: dict[str, Any] = {}
    notes: tuple[str, ...] = ()


class NamespaceModel(_Model):
    uid: str
    name: str
    resource_version: str
    created: str | None = None
    team: str | None = None
    user: str | None = None
    labels: dict[str, str] = {}


class NodeModel(_Model):
    uid: str
    name: str
    resource_version: str
    created: str | None = None
    model: str | None = None
    allocatable: dict[str, str] = {}
    ready: bool = False
    unschedulable: bool = False
    labels: dict[str, str] = {}


class WorkloadModel(_Model):
    uid: str
    kind: str
    namespace: str
    name: str
    resource_version: str
    created: str | None = None
    owner: OwnerModel | None = None
    labels: dict[str, str] = {}


class WorkloadGone(_Model):
    uid: str
    kind: str
    namespace: str
    name: str
    resource_version: str


MODELS: dict[str, type[BaseModel]] = {
    "pod.observed": PodModel,
    "pod.vanished": PodModel,
    "namespace.observed": NamespaceModel,
    "node.observed": NodeModel,
    "workload.observed": WorkloadModel,
    "workload.vanished": WorkloadGone,
}


class Envelope(_Model):
    id: str
    source: str
    type: str
    subject: str
    time: str
    dataversion: int


def event_of(message: Any) -> Event:
    """A message of nats-py as an event, its attributes validated by a model."""
    headers = {k[3:]: v for k, v in message.headers.items() if k.startswith("ce-")}
    envelope = Envelope.model_validate(headers)
    return Event(
        message.subject.split(".")[1],
        envelope.type,
        envelope.subject,
        envelope.id,
        envelope.source,
        parse_stamp(envelope.time),
        message.data,
        envelope.dataversion,
        message.metadata.sequence.stream,
    )


def read(event: Event) -> Fact:
    """The fact of an event, validated by pydantic."""
    model = MODELS[event.type].model_validate_json(event.body)
    fields = dict(model.__dict__)
    if fields.get("owner") is not None:
        fields["owner"] = Owner(**fields["owner"].__dict__)
    if "resources" in fields:
        fields["resources"] = msgspec.Raw(msgspec.json.encode(fields["resources"]))
    return VOCABULARY[event.type](**fields)


@contextmanager
def decoding():
    """Within it the product's folder decodes with pydantic."""
    with mock.patch.object(folder, "fact_in", read):
        yield


async def play(
    url: str, credentials: tuple[str, str], stream: str, count: int, store: Store
) -> int:
    """Fill ``store`` with the first ``count`` events of a stream; how many were read."""
    nc = await nats.connect(url, user=credentials[0], password=credentials[1])
    subscription = await nc.jetstream().pull_subscribe(
        "bursar.>", stream=stream, config=ConsumerConfig(ack_policy=AckPolicy.EXPLICIT)
    )
    ledger = folder.Folder(MODEL, store)
    ledger.open()
    seen = 0
    with decoding():
        while seen < count:
            messages = await subscription.fetch(min(100, count - seen), timeout=10)
            changes = ledger.fold([event_of(message) for message in messages])
            write(store.engine, changes)
            ledger.settle()
            for message in messages:
                await message.ack()
            seen += len(messages)
    await subscription.unsubscribe()
    await nc.close()
    return seen


def write(engine: sa.Engine, changes: Changes) -> None:
    """One batch, a Core statement for each row."""
    with engine.begin() as connection:
        for table, column, values in changes.deletes:
            for value in values:
                connection.execute(sa.delete(table).where(table.c[column] == value))
        for table, rows in changes.upserts.items():
            for row in rows:
                connection.execute(_upsert(table), _named(table, row))
        for restatement in changes.restatements:
            for group, sums in restatement.differences.items():
                row = _named(restatement.table, (*group, *sums))
                connection.execute(_added(restatement.table), row)
                if row["pods"] <= 0:
                    _sweep(connection, restatement.table, row)


def _named(table: sa.Table, row: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(table.columns.keys(), row, strict=True))


@lru_cache
def _upsert(table: sa.Table) -> sa.Insert:
    statement = insert(table)
    rest = {c.name: statement.excluded[c.name] for c in table.columns if not c.primary_key}
    return statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=rest)


@lru_cache
def _added(table: sa.Table) -> sa.Insert:
    statement = insert(table)
    rest = {
        c.name: statement.excluded[c.name] + (0 if c.name == "sequence" else c)
        for c in table.columns
        if not c.primary_key
    }
    return statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=rest)


def _sweep(connection: sa.Connection, table: sa.Table, row: dict[str, Any]) -> None:
    key = (column == row[column.name] for column in table.primary_key)
    connection.execute(sa.delete(table).where(*key, table.c.pods == 0))
