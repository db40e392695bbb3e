"""``bursar up`` as a process: bus, ledger and sources together, until a signal.

It follows a cluster, if it finds one. If not, the bundled recording takes the same way: bus, runner, ledger.
Recorded and real ledgers are kept apart. A recording is played into an embedded ledger that is empty or holds that recording.
A cluster is never followed into the folder of a recording.
Source: docs/architecture.md; items 1 and 5.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec

from bus.clock import SystemClock
from bus.envelope import Event
from bus.errors import BusUnavailableError
from bus.jetstream import GuardLine
from bus.kube.client import KubeCluster
from bus.kube.watch.contract import ReflectorState
from bus.private_files import replace
from bus.sources.events import read_lines
from bus.waiting import beside, reached
from deploy.errors import SettingsError
from deploy.hints import hint
from deploy.runtime.admission import Answering, Figures, admitting, healthy
from deploy.runtime.blocked import held_back, run_by
from deploy.runtime.bootstrap import Bus, LedgerWriter, bus, filled, keeper, reach
from deploy.runtime.files import raise_file_limit
from deploy.runtime.guarding import bus_metrics, guarded, prove_blocks, settle
from deploy.runtime.import_events import Taken, say
from deploy.runtime.ledger_metrics import LedgerMetrics
from deploy.runtime.ledgers import held_ledger
from deploy.runtime.locking import ACTING, writer_lock
from deploy.runtime.proving import Proof, Prover
from deploy.runtime.reactors import acting, remembered, require_clock, stored, tell_of_reactors
from deploy.runtime.source_metrics import source_metrics
from deploy.runtime.tracing import tracing
from deploy.runtime.watch import following, states
from deploy.settings.addresses import default_data
from deploy.settings.admission import announcement_of
from deploy.settings.load import cluster_access
from deploy.settings.shape import Settings
from projections.engine.fill import Filled
from projections.engine.heads import Signer
from projections.engine.store import Store
from reactors.catalogue import REACTORS
from reactors.diagnosis import Diagnosis
from reactors.engine.adapters import QuotaTrees
from reactors.engine.figures import figures
from reactors.engine.replica import Replica
from reactors.queue.releasing import Releasing

#: Where the bundled recording lies.
RECORDING = Path(__file__).parents[1] / "recording"
#: In the data folder: this ledger holds the recording.
MARK = "recording"

_log = logging.getLogger(__name__)

#: How often the sources' state is written.
STATE_SECONDS = 5.0


class Progress(msgspec.Struct):
    """The progress on the screen of ``bursar up``. ``stage``: starting, catching up, following, playing or waiting."""

    stage: str = "starting"
    sequence: int = 0
    projected: int = 0
    #: The new or changed parts of the ledger in filling, with their progress; and the reason why the history is not sealed.
    filled: Filled | None = None
    unsealed: str = ""
    sources: dict[str, ReflectorState] = {}
    guard: list[GuardLine] = []
    cluster: str = ""
    #: Whether reviews arrive; None where there is no webhook.
    proof: Proof | None = None
    played: int = 0
    #: Sources of blocked actions: the reactors, and the queues. None while they do not run.
    replica: Replica | None = None
    troubles: Mapping[str, Callable[[], Iterable[str]]] = {}
    releasing: Releasing | None = None

    @property
    def trouble(self) -> str:
        """The obstacle of a source; "" while all work."""
        found = (f"{name}: {s.trouble}" for name, s in self.sources.items() if s.trouble)
        if self.proof is not None and self.proof.problem and self.proof.mode == "enforce":
            return f"no review arrives at {self.proof.address}: {self.proof.problem}"
        return next(found, "")


class Screen(Protocol):
    """Shows the progress."""

    def tell(self, text: str) -> None:
        """Something happened once."""

    def show(self, progress: Progress) -> None:
        """How things are; called now and then."""


async def serve(
    settings: Settings,
    screen: Screen,
    *,
    answering: Answering,
    once: bool = False,
    recording: bool = False,
) -> None:
    """Run until cancelled. With ``once``, run until the ledger holds everything published so far, and all its parts are filled.

    ``answering`` is :func:`deploy.api.serving.answering`. It is passed in because it is of a higher layer: it runs commands.

    Raises LedgerBusyError if another process writes this ledger, WrongClockError if this machine's clock is before
    the first build of this program, SettingsError if recorded and real ledgers would mix,
    and the errors of bus, runner and sources that forbid going on.
    """
    if not recording and cluster_access(settings) is not None:
        require_clock()
        settings.admission.require_authenticated()
    screen.tell(raise_file_limit())
    progress = Progress()
    with held_ledger(settings, "up") as (store, lock):
        # A killed process may leave the file. In a container another process soon gets its process id.
        settings.state_file.unlink(missing_ok=True)
        async with bus(settings) as opened:
            await settle(opened.transport)
            keeping = keeper(settings, store, opened.shared, lock)
            async with beside(keeping.run()), beside(guarded(opened)), AsyncExitStack() as stack:
                if settings.bus.is_embedded:
                    proof = prove_blocks(opened, settings.data / "bus")
                    await (proof if once else stack.enter_async_context(beside(proof)))
                await _work(
                    settings, screen, progress, store, opened, keeping, answering, once, recording
                )


async def _work(
    settings: Settings,
    screen: Screen,
    progress: Progress,
    store: Store,
    opened: Bus,
    keeping: LedgerWriter,
    answering: Answering,
    once: bool,
    recording: bool,
) -> None:
    progress.guard = opened.guard
    screen.tell(f"bus {opened.url}, ledger in {settings.data}")
    screen.tell(keeping.signer)
    async with beside(_shown(screen, progress, opened, keeping)), written(settings, progress):
        progress.stage = "catching up"
        head = await opened.transport.head()
        await reach(keeping, head.last_sequence)
        async with AsyncExitStack() as stack:
            access = None if recording else cluster_access(settings)
            if access is not None:
                _refuse_recorded(settings)
                acts = writer_lock(settings.ledger_url, store.engine, "up", ACTING)
                lock = stack.enter_context(acts)
                await stack.enter_async_context(beside(lock.run()))
                progress.cluster = access.kubeconfig or "the service account of this pod"
                screen.tell(f"following the cluster of {progress.cluster}")
                replica = await stored(store, Signer(settings.signing_key), settings.cluster.name)
                followed = await stack.enter_async_context(
                    following(settings, access, opened.transport, store, replica.cluster_state)
                )
                followed.cluster.fence = lock.confirm
                progress.sources = followed.states
                screen.tell(f"admission is {announcement_of(settings.admission)}")
                metrics = LedgerMetrics(store, keeping, settings.sealed_events)
                await stack.enter_async_context(beside(metrics.run()))
                more: Figures = [
                    partial(source_metrics, followed.states),
                    metrics,
                    partial(bus_metrics, opened.guard),
                ]
                keeping_trees = keeping_quotas(
                    settings, opened, store, followed.cluster, followed.relist, more, progress
                )
                trees = await stack.enter_async_context(keeping_trees)
                # Also with all reactors off: undoing a cull on a person's request is done then, too.
                await stack.enter_async_context(
                    deciding(
                        settings, opened, store, followed.cluster, trees, more, progress, replica
                    )
                )
                if settings.api.serves:
                    await stack.enter_async_context(answering(settings, followed.cluster, more))
                tell_of_reactors(settings, screen.tell)
                progress.stage = "following"
                _write_state(settings, progress)
                if once:
                    await _listed(progress)
            else:
                await _play(
                    settings, screen, progress, store, opened, head.last_sequence, recording
                )
            if once or progress.stage == "waiting":
                await reach(keeping, (await opened.transport.head()).last_sequence)
            if once:
                await filled(keeping)
            if progress.played:
                await remembered(store, Signer(settings.signing_key))
            _say_what_to_ask(settings, screen)
            if not once:
                await asyncio.Event().wait()


@asynccontextmanager
async def keeping_quotas(
    settings: Settings,
    opened: Bus,
    store: Store,
    cluster: KubeCluster,
    relist: Callable[[str], None],
    more: Figures,
    progress: Progress,
    shows: Figures | None = None,
) -> AsyncIterator[QuotaTrees | None]:
    """Keep the quotas of the followed cluster, and answer reviews, if the settings ask for it. None: they ask for neither.

    ``relist`` requests a complete list of a kind. ``more`` is added to the webhook's metrics.
    ``shows``: see :func:`deploy.runtime.admission.admitting`.
    """
    wanted = settings.admission
    if wanted.mode == "off":
        async with healthy(settings, more, shows):
            yield None
        return
    prover = None
    if wanted.mode in ("shadow", "enforce"):
        prover = Prover(cluster, wanted, SystemClock())
        progress.proof = prover.proof
    diagnosis = Diagnosis(lambda: progress.replica)
    async with AsyncExitStack() as stack:
        if wanted.answers_diagnosis:
            await stack.enter_async_context(beside(diagnosis.follow(opened.shared)))
        admission = await stack.enter_async_context(
            admitting(
                settings, opened.shared, cluster, keeps=True, relist=relist, more=more,
                prover=prover, ledger=store, signer=Signer(settings.signing_key), diagnosis=diagnosis,
                shows=shows,
            )
        )  # fmt: skip
        progress.releasing = admission.releasing
        yield admission.keeper


@asynccontextmanager
async def deciding(
    settings: Settings,
    opened: Bus,
    store: Store,
    cluster: KubeCluster,
    trees: QuotaTrees | None,
    more: Figures,
    progress: Progress,
    replica: Replica,
) -> AsyncIterator[None]:
    """Decide on the known state of the followed cluster, and act."""
    sections = {one.name: settings.section(one) for one in REACTORS}
    async with tracing(settings, "act") as tracer, acting(
        opened.shared, cluster, settings.wanted,
        name=settings.cluster.name, clock=cluster.clock, sections=sections, trees=trees,
        ledger=store, signer=Signer(settings.signing_key), writes_elastic=settings.admission.elastic_status,
        replica=replica, tracer=tracer,
    ) as runner:  # fmt: skip
        more.append(partial(figures, runner.replica))
        progress.replica, progress.troubles = runner.replica, runner.troubles
        yield


def _say_what_to_ask(settings: Settings, screen: Screen) -> None:
    """Suggests the next commands, with the folder if it is not the default one."""
    data = "" if settings.data == default_data() else f" --data {settings.data}"
    screen.tell("ask:")
    for words in ("report --by team", "report --by team,model,day", "acct", "status"):
        screen.tell(f"  {hint(words)}{data}")


def _refuse_recorded(settings: Settings) -> None:
    if (settings.data / MARK).exists():
        raise SettingsError(
            f"{settings.data} holds the bundled recording: name another folder with --data, or remove this one"
        )


async def _play(
    settings: Settings,
    screen: Screen,
    progress: Progress,
    store: Store,
    opened: Bus,
    last: int,
    wanted: bool,
) -> None:
    """Play the recording where it may be played, else say why not."""
    if not wanted:
        screen.tell("no cluster found: no kubeconfig and no service account")
    mark = settings.data / MARK
    is_ours = settings.bus.is_embedded and not settings.ledger.url.get_secret_value()
    if not wanted and not mark.exists() and (last or not is_ours):
        screen.tell(f"this ledger holds {last:,} events and is kept as it is")
        progress.stage = "waiting"
        return
    files = sorted(RECORDING.glob("*.ndjson.zst"))
    if not files:
        screen.tell("and this installation has no bundled recording to play")
        progress.stage = "waiting"
        return
    replace(mark, b"The ledger in this folder is that of Bursar's bundled recording.\n")
    screen.tell(f"playing the bundled recording: {', '.join(file.name for file in files)}")
    progress.stage = "playing"
    taken = Taken()

    def show() -> None:
        progress.played = taken.events

    await say(opened.transport, store.engine, _recorded(files), taken, show)
    progress.stage = "waiting"
    screen.tell(f"played {taken.events:,} events, {taken.published:,} of them new")


def _recorded(files: list[Path]) -> Iterator[Event]:
    for file in files:
        yield from read_lines(file)


async def _listed(progress: Progress) -> None:
    """Return when every source has listed its objects once, or reports an obstacle.

    Raises StalledError if none of them moves for a minute.
    """
    sources = progress.sources.values()

    def listed() -> int:
        return sum(bool(s.listed_us or s.trouble or s.is_absent) for s in sources)

    def moved() -> int:
        # A long list is no standstill: its published events count, too. The goal stays unknown until all are published.
        return 0 if listed() == len(sources) else -1 - sum(s.published + s.skipped for s in sources)

    await reached(moved, 0, "the first lists of the cluster")


async def _shown(screen: Screen, progress: Progress, opened: Bus, keeping: LedgerWriter) -> None:
    while True:
        progress.projected = keeping.sequence
        progress.filled, progress.unsealed = keeping.filled, keeping.unsealed
        progress.sequence = max(progress.sequence, keeping.sequence)
        if opened.transport.connected:
            # NATS does not answer for a while during a leader election; the previous figure is shown then.
            with suppress(BusUnavailableError):
                progress.sequence = (await opened.transport.head()).last_sequence
        screen.show(progress)
        await asyncio.sleep(0.5)


@asynccontextmanager
async def written(settings: Settings, progress: Progress) -> AsyncIterator[None]:
    """Keep the sources' state in a file, for ``bursar status`` of another process."""

    async def write() -> None:
        while True:
            _write_state(settings, progress)
            await asyncio.sleep(STATE_SECONDS)

    try:
        async with beside(write()):
            yield
    finally:
        settings.state_file.unlink(missing_ok=True)


def _write_state(settings: Settings, progress: Progress) -> None:
    state = {
        "pid": os.getpid(),
        **{"filling": progress.filled, "unsealed": progress.unsealed},
        "sources": states(progress.sources),
        "paused": None if progress.replica is None else progress.replica.policies.pause,
        "blocked": held_back(progress.replica, progress.releasing, progress.troubles),
        "admission": progress.proof,
        "run_by": {} if progress.replica is None else run_by(progress.replica),
    }
    try:
        replace(settings.state_file, msgspec.json.encode(state))
    except OSError as error:
        # Following the cluster goes on with a full disk; `bursar status` notices the old file.
        _log.warning("what `bursar status` shows of this process is old: %s", error)
