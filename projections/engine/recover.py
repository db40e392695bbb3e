"""Repairs stream and ledger after one of them lost events. Every acknowledged event is kept.

The ledger's archive holds every event it folded, byte for byte, in order. The stream may be anything: shorter,
empty, made anew, altered, or with events unknown to the ledger. Sources, effectors and the runner are stopped
meanwhile. The procedure is the same for every transport:

1. **Compare.** The stream is read beside the archive. Up to some event both are the same; that part may be empty.
   The missing beginning of a trimmed stream counts as the same if segments hold it.
2. **Nothing beyond it in the stream:** it lost its tail, or was made anew and is empty. The archive's rest is
   published again under the same ids. Each window expects the event before it as the stream's last, so every event
   comes back at its own sequence or not at all.
3. **Other events beyond it:** someone went on writing after the loss, before it was noticed. Their sequences are
   taken by older events, so *they* move: events unknown to the archive are folded and archived after its end, in
   the order of the stream. When the ledger has everything, the stream is made anew (``renew``, an adapter's
   business) and filled from the archive as in 2.
4. **Holes**, sequences counted but lost by the stream (a damaged block, a flipped bit): readers stop at them, and
   nothing can be published there, so the stream is made anew as in 3. Lost events in the archive come back; events
   unknown to the ledger are gone, and counted in ``lost``.
5. **The checkpoint** is bound to the stream as it is now. A stream made anew is a new ``incarnation``.

An event of the stream with the id of an archived one and another body is an altered event or an id used twice: the
archive's is kept, since the chain speaks for it, and the other is counted in ``altered``. An event impossible to
publish again unchanged returns in another form, at its own sequence (:mod:`projections.engine.restored`).

Each step detects the results of the earlier ones, so an interrupted recovery is simply started again. Afterwards
sources list their clusters, as at any start, and close the gap.

Alternatives refused: a new stream with the next sequence as its first (``first_seq``) needs no publishing, but then
readers from the beginning, and the check of the event at the checkpoint, fail; renumbering the archive by the
stream's order breaks signed heads and every sequence in a decision.

Source: docs/architecture.md; docs/reliability.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import msgspec

from bus.crashpoints import crashpoint
from bus.envelope import GENESIS, MALFORMED, Event, chain, digest
from bus.errors import HistoryDivergedError, LedgerError, WrongExpectationError
from bus.transport import Expectation, Head, Transport
from projections.engine.checkpoint import Checkpoint
from projections.engine.folder import Folder
from projections.engine.model import Model
from projections.engine.restored import Carried, is_restored, restored
from projections.engine.segments.reading import sealed_until, with_links
from projections.engine.store import LEDGER, Store
from projections.engine.tables import checkpoints

#: Events published under one condition. JetStream takes at most 1,000.
WINDOW = 500

#: Makes an empty stream in place of the old one and returns the transport to it. Its argument is the last sequence
#: read from the old stream. It must raise HistoryDivergedError, changing nothing, if the stream has more by now.
Renew = Callable[[int], Awaitable[Transport]]

Progress = Callable[[str, int, int], None]

#: Every subject of a history.
EVERYTHING = "bursar.>"

#: version of the body, digest of cluster, type, key and body
_Content = tuple[int, bytes]


class Recovery(msgspec.Struct, frozen=True):
    """The result of a recovery. All counts 0 and ``incarnation`` as before: nothing had to be done.

    ``common``: events in both stream and archive. ``taken``: events of the stream new to the ledger. ``altered``:
    events of the stream different from the archive. ``published``: events brought back to the stream. ``lost``:
    events lost by the bus before the ledger read them; they are gone for good.
    """

    common: int
    taken: int
    altered: int
    published: int
    incarnation: int
    lost: int = 0


async def recover(
    model: Model,
    store: Store,
    transport: Transport,
    renew: Renew | None = None,
    *,
    progress: Progress | None = None,
) -> Recovery:
    """Bring ``transport``'s stream and the ledger together; see the module's text.

    Safe to repeat. ``progress`` hears (step, done, total) with the steps ``compare``, ``take``, ``publish``. Raises
    HistoryDivergedError when the stream must be made anew and ``renew`` is None, or when someone still writes.
    """
    progress = progress or _silent
    checkpoint = store.checkpoint(model.version)
    head = await transport.head()
    found = await _compare(store, transport, head, checkpoint.sequence, progress)
    common, taken, altered, published = found.common, 0, 0, 0
    # Events after the archive in its own stream are no loss: the runner will read it, unless there is a hole.
    is_other = bool(found.beyond) or bool(found.holes) or not _is_kept(store, head)
    if is_other or common < checkpoint.sequence:
        if is_other:
            if renew is None:
                raise HistoryDivergedError(
                    "the stream holds other events than the ledger, or has holes: it must be made anew, which "
                    "`bursar recover --yes` does with the embedded bus, and the administrator of any other",
                    common=common,
                    others=len(found.beyond),
                    holes=found.holes,
                )
            unknown, altered = _unknown(store, checkpoint.sequence, found.beyond)
            checkpoint, taken = await _take(
                store,
                Folder(model.current(checkpoint.version), store),
                transport,
                head,
                unknown,
                checkpoint,
                progress,
            )
            transport = await renew(head.last_sequence)
            common = 0
        published = await _publish(store, transport, common, checkpoint.sequence, progress)
    checkpoint = await _bind(store, transport, checkpoint)
    return Recovery(
        found.common if not is_other else 0, taken, altered, published, checkpoint.incarnation,
        found.lost,
    )  # fmt: skip


class _Compared(msgspec.Struct):
    """The content of a stream beside an archive of ``last`` events: the length of the common beginning; identity
    and content of the further events to check; its lost sequences, and how many of them the archive lacks too.
    """

    common: int = 0
    beyond: dict[str, _Content] = {}
    holes: int = 0
    lost: int = 0


async def _compare(
    store: Store, transport: Transport, head: Head, last: int, progress: Progress
) -> _Compared:
    """The stream beside the archive of ``last`` events. A healthy rest behind the archive is only counted, as it may be long."""
    found = _Compared()
    place, rest = head.first_sequence - 1, 0
    archive = _archive(store, head.first_sequence, last)
    if is_common := _is_kept(store, head):
        found.common = place
    else:
        found.lost = max(place - last, 0)
    async for event in _read(transport, head):
        _count_holes(found, place, event.sequence, last)
        place = event.sequence
        progress("compare", place, head.last_sequence)
        if is_common and found.common == last:
            rest += 1
            continue
        if is_common:
            ours = next(archive, None)
            is_common = (
                ours is not None
                and event.sequence == found.common + 1
                and is_restored(ours, digest(event))
            )
        if is_common:
            found.common += 1
        else:
            found.beyond.setdefault(_identity(event), _content(event))
    _count_holes(found, place, head.last_sequence + 1, last)
    if rest and found.holes:
        # Now the rest moves, too.
        async for event in _read(transport, head):
            if event.sequence > last:
                found.beyond.setdefault(_identity(event), _content(event))
    return found


def _is_kept(store: Store, head: Head) -> bool:
    """Whether segments hold the missing beginning of the stream: it was trimmed."""
    return head.first_sequence - 1 <= sealed_until(store.select)


def _count_holes(found: _Compared, before: int, after: int, last: int) -> None:
    """Count the sequences between two neighbors of the stream."""
    found.holes += after - before - 1
    found.lost += max(after - 1 - max(before, last), 0)


def _unknown(store: Store, last: int, beyond: dict[str, _Content]) -> tuple[set[str], int]:
    """(identities missing in the archive, number of those with another content)."""
    unknown, altered = set(beyond), 0
    for ours in _archive(store, 1, last):
        unknown.discard(restored(ours).id)
        if (identity := _identity(ours)) in unknown:
            unknown.discard(identity)
            altered += not _agrees(beyond[identity], _content(ours))
    return unknown, altered


async def _take(
    store: Store,
    folder: Folder,
    transport: Transport,
    head: Head,
    unknown: set[str],
    checkpoint: Checkpoint,
    progress: Progress,
) -> tuple[Checkpoint, int]:
    """Fold and archive the missing events, after the archive's end, in the stream's order."""
    folder.open()
    wanted, total = set(unknown), len(unknown)
    part: list[Event] = []

    def write() -> Checkpoint:
        moved = store.commit(part, folder.fold(part), checkpoint) if part else checkpoint
        folder.settle()
        part.clear()
        return moved

    if wanted:
        async for event in _read(transport, head):
            if (identity := _identity(event)) not in wanted:
                continue
            wanted.discard(identity)
            place = checkpoint.sequence + len(part) + 1
            part.append(msgspec.structs.replace(event, sequence=place))
            if len(part) == WINDOW:
                checkpoint = write()
                progress("take", total - len(wanted), total)
        checkpoint = write()
        progress("take", total, total)
    return checkpoint, total


async def _publish(
    store: Store, transport: Transport, common: int, last: int, progress: Progress
) -> int:
    """Publish the archive after ``common`` again; every event comes back at its own sequence."""
    place = common
    link_before = with_links(store.select, common, 1)[0][1] if common else GENESIS
    forms = Carried()
    for event in _archive(store, 1, common):
        forms.mark(event.id)
    while place < last:
        found = with_links(store.select, place + 1, WINDOW)
        window = [event for event, _ in found]
        links = [value for _, value in found]
        if not window or chain(link_before, window) != links:
            raise LedgerError("the archive is damaged: see `bursar verify`", after=place)
        messages = [forms.carried(event) for event in window]
        crashpoint("recover.before_publish")
        try:
            places = await transport.publish(messages, expect=Expectation(EVERYTHING, place))
        except WrongExpectationError as error:
            raise HistoryDivergedError("someone else writes to the stream", after=place) from error
        crashpoint("recover.after_publish")
        if places != [event.sequence for event in window]:
            raise HistoryDivergedError("the stream gave other sequences", after=place)
        place, link_before = window[-1].sequence, links[-1]
        progress("publish", place - common, last - common)
    return last - common


async def _bind(store: Store, transport: Transport, checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint, bound to the existing stream, stored if this changes it."""
    if checkpoint.sequence == 0:
        return checkpoint
    head = await transport.head()
    event = await transport.at(checkpoint.sequence)
    ours = with_links(store.select, checkpoint.sequence, 1)[0][0]
    if event is None or not is_restored(ours, digest(event)):
        raise HistoryDivergedError("the stream still has another event at the checkpoint")
    is_new = bool(checkpoint.stream) and (head.stream, head.created_us) != (
        checkpoint.stream,
        checkpoint.stream_created_us,
    )
    bound = msgspec.structs.replace(
        checkpoint,
        stream=head.stream,
        stream_created_us=head.created_us,
        incarnation=checkpoint.incarnation + is_new,
        digest=digest(event),
    )
    if bound != checkpoint:
        crashpoint("recover.before_checkpoint")
        with store.engine.begin() as connection:
            connection.execute(
                checkpoints.update()
                .where(checkpoints.c.name == LEDGER)
                .values(
                    stream=bound.stream,
                    stream_created_us=bound.stream_created_us,
                    incarnation=bound.incarnation,
                    digest=bound.digest,
                )
            )
        crashpoint("recover.after_checkpoint")
    return bound


async def _read(transport: Transport, head: Head) -> AsyncIterator[Event]:
    """Every existing event of the stream, up to ``head``; holes are passed over."""
    place = head.first_sequence - 1
    while place < head.last_sequence:
        try:
            async for events in transport.read(after=place, live=False):
                for event in events:
                    place = event.sequence
                    if place <= head.last_sequence:
                        yield event
            return
        except HistoryDivergedError:
            # One by one to the hole's end: a reader needs seconds to be sure of each.
            event = None
            while event is None and place < head.last_sequence:
                place += 1
                event = await transport.at(place)
            if event is not None:
                yield event


def _archive(store: Store, first: int, last: int) -> Iterator[Event]:
    while first <= last:
        found = with_links(store.select, first, min(WINDOW, last - first + 1))
        if not found:
            return
        for event, _ in found:
            yield event
        first = found[-1][0].sequence + 1


def _identity(event: Event) -> str:
    """The identity of an event: the id; for unreadable messages, with only their place as id, the raw bytes."""
    if event.type == MALFORMED:
        return "raw/" + hashlib.sha256(event.body).hexdigest()
    return event.id


def _content(event: Event) -> _Content:
    content = f"{event.cluster}\n{event.type}\n{event.key}\n".encode() + event.body
    return event.version, hashlib.sha256(content).digest()


def _agrees(one: _Content, other: _Content) -> bool:
    # As bus.transport.says_the_same, on digests: a stream may hold more than memory.
    return one[0] != other[0] or one[1] == other[1]


def _silent(step: str, done: int, total: int) -> None:
    """Hears nothing."""


__all__ = ["Progress", "Recovery", "Renew", "recover"]
