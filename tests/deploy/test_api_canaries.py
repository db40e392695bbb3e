"""An asker that is kept to one namespace: two ledgers that differ outside of it give the same answer to every question."""

import asyncio
import contextlib
import os

import httpx
import msgspec
import pytest

from deploy.api import application
from deploy.api.answers import WAITING, Answers, BusyError
from deploy.api.application import ApiApplication
from deploy.api.callers import Callers
from deploy.api.child import AskedCommand, answer
from deploy.api.questions import QUESTIONS
from deploy.api.turns import FullError, Turns, caller_of
from deploy.runtime import kept, ledgers
from tests import factories as said
from tests.deploy.ledgers import a_hub, make_ledger
from tests.deploy.toy_api import LIMITS, Server

OWN = [
    said.namespace_observed("lab", team="red"),
    said.node_observed("n", model="A100", allocatable={"nvidia.com/gpu": "1"}),
    said.pod_observed(
        "b", 1, 0, cpu="6", gpu=1, namespace="lab", labels={"app": "y", "user": "eve"}
    ),
    said.pod_observed("w", 1, 60, created=60, node=None, phase="Pending", namespace="lab"),
    said.pod_vanished("b", 2, 3_600, cpu="6", gpu=1, deletion=3_600, namespace="lab"),
    said.pod_observed("late", 1, 7_200, namespace="lab"),
]
CANARY = [
    said.namespace_observed("canary-ns", team="canary"),
    said.namespace_observed("kube-canary"),
    said.node_observed("canary-node", model="CANARY100"),
    said.quota_observed("canary-quota"),
    said.pod_observed("canary", 1, 5, cpu="9", gpu=2, namespace="canary-ns", node="canary-node", name="canary-pod",
                      labels={"user": "canary-user", "canary": "1"}),
    said.pod_observed("canary-open", 1, 6, gpu=1, namespace="kube-canary"),
    said.pod_vanished("canary", 2, 4_000, cpu="9", gpu=2, namespace="canary-ns", node="canary-node", name="canary-pod"),
]  # fmt: skip
#: Values of options: of this namespace, of others, and odd ones.
VALUES = {
    "team": ("red", "canary"), "user": ("eve", "canary-user"), "workload": ("Pod/b", "Pod/canary-pod"),
    "quota": ("q", "canary-quota"), "node": ("n", "canary-node"), "model": ("A100", "CANARY100"),
    "label": ("app=y", "canary=1", "odd"), "cluster": ("c", "other"), "tz": ("Asia/Tokyo", "Mars/X"),
    "from": ("2026-10-26T08:00:06", "yesterday"), "to": ("2026-10-26T08:30", "x"), "as-of": ("2026-10-26T08:30", "now"),
    "at": ("3", "999", "2026-10-26T08:00:05", "2026-10-25", "now", "٣"), "top": ("1", "0"),
    "sort": ("team", "sequence", "held_s", "canary"), "output": ("table", "wide", "csv", "exe"),
    "all-namespaces": ("true",), "namespace": ("canary-ns", "none"),
}  # fmt: skip
GROUPS = (
    "team,user,namespace,workload,quota", "model,device,class,node,cluster", "day,hour,label:app", "job,attempt,cause", "canary",
)  # fmt: skip
OF = {
    "report": {"by": GROUPS, "unit": ("exact", "canary"), "amounts": ("true",)},
    "acct": {"pod": ("b", "canary", "canary-pod")},
}


class Within:
    """Answers in this process, by the code of the processes that answer."""

    async def ask(self, arguments, width, caller, kept=None):
        return answer(AskedCommand([*arguments], LIMITS, width, kept))


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """What a process that answers sets is set for this test alone."""
    monkeypatch.setattr(kept, "caller", None)
    monkeypatch.setattr(ledgers, "looks", [])
    monkeypatch.setattr(application, "STEP_SECONDS", 0.001)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The same namespace, alone and among others."""
    mixed = [one for pair in zip(CANARY, [*OWN, None], strict=True) for one in pair if one]
    return [make_ledger(tmp_path_factory.mktemp("ledger"), events) for events in (OWN, mixed)]


@contextlib.asynccontextmanager
async def asking(data, monkeypatch, allowed, cluster="c", **options):
    monkeypatch.setenv("BURSAR_DATA", str(data))
    callers = Callers(Server({"good": "ann"}, allowed), cluster)
    app = ApiApplication(Within(), callers, **options)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="https://api") as client:  # fmt: skip

        async def ask(path):
            found = await client.get(f"/v1/{path}", headers={"Authorization": "Bearer good"})
            headers = {k: v for k, v in found.headers.items() if k.startswith("bursar")}
            return found.status_code, headers, found.text.replace(" ", "")

        yield ask


def paths():
    """Every question, and each option of those that a namespace may ask, with names of its own and of others."""
    for words in QUESTIONS:
        for query in ("", "?namespace=lab", "?name=canary-ns/canary-pod"):
            yield words.replace(" ", "/") + query
    for question, more in OF.items():
        for option, values in (VALUES | more).items():
            yield from (f"{question}?namespace=lab&{option}={value}" for value in values)


async def test_nothing_outside_of_a_namespace_changes_a_byte_of_what_its_reader_is_told(
    folders, monkeypatch
):
    allowed = {("ann", words.split()[0], "lab") for words in QUESTIONS}
    found = []
    for folder in folders:
        async with asking(folder, monkeypatch, allowed) as ask:
            found.append({path: await ask(path) for path in paths()})
    alone, among = found
    differ = {path: (alone[path], among[path]) for path in alone if alone[path] != among[path]}

    assert differ == {}
    leaks = [
        path for path, (_, _, text) in among.items() if "canary" in text and "canary" not in path
    ]
    assert leaks == []
    given = [path for path, (status, _, text) in among.items() if status == 200 and '"b"' in text]
    assert {"report", "acct"} >= {path.partition("?")[0] for path in given} and len(given) > 15
    assert among["acct?namespace=lab"][1] == {}


async def test_whoever_may_ask_for_everything_is_told_events_and_what_is_near(folders, monkeypatch):
    """The bystander: nothing is left out for those who are kept to nothing."""
    async with asking(folders[1], monkeypatch, {("ann", "acct", "")}) as ask:
        whole, near, past = [await ask(f"acct?{query}") for query in ("", "team=canar", "at=3")]

    assert whole[1] == {"bursar-sequence": "13"} and '"sequence":13' in whole[2]
    assert "canary" in near[2] and '"code":1' in near[2]
    assert past[1] == {"bursar-sequence": "3"} and "event3of13" in past[2]


async def test_at_a_hub_a_right_is_of_one_cluster(tmp_path, monkeypatch):
    a_hub(tmp_path, {"a": 60, "b": 120}, are_named=True)
    hub = {"is_hub": lambda: True}
    async with asking(tmp_path, monkeypatch, {("ann", "acct", "ns")}, "a", **hub) as ask:
        own = await ask("acct?namespace=ns&cluster=a")
        others = [
            await ask(f"acct?namespace=ns{more}") for more in ("", "&cluster=b", "&cluster=none")
        ]
    async with asking(tmp_path, monkeypatch, {("ann", "acct", "", "b")}, "a", **hub) as ask:
        named = [
            await ask(f"acct?{query}") for query in ("cluster=b", "cluster=a", "", "namespace=ns")
        ]
    async with asking(tmp_path, monkeypatch, {("ann", "report", "")}, "a", **hub) as ask:
        every = await ask("report?by=cluster")

    assert own[0] == 200 and '"cluster":"a"' in own[2] and '"cluster":"b"' not in own[2]
    assert [status for status, _, _ in others] == [403] * 3
    assert [status for status, _, _ in named] == [200, 403, 403, 403]
    assert '"cluster":"b"' in named[0][2] and '"cluster":"a"' not in named[0][2]
    assert every[0] == 200 and '"a"' in every[2] and '"b"' in every[2]


async def test_a_ledger_with_rows_of_several_clusters_gives_those_of_one(tmp_path, monkeypatch):
    other = [msgspec.structs.replace(one, cluster="other") for one in (*OWN, *CANARY)]
    make_ledger(tmp_path, [*OWN, *other])
    async with asking(
        tmp_path, monkeypatch, {("ann", "acct", "lab"), ("ann", "report", "lab")}
    ) as ask:
        rows = await ask("acct?namespace=lab")
        groups = await ask("report?namespace=lab&by=cluster")
        refused = await ask("acct?namespace=lab&cluster=other")

    assert '"cluster":"c"' in rows[2] and "other" not in rows[2] + groups[2]
    assert refused[0] == 403


async def test_an_asker_with_a_hundred_questions_locks_nobody_out():
    """One turn later the next caller has its own; only who asks too much is refused."""
    turns, order, begun, most = Turns(2, 16), [], 0, 0

    async def one(name):
        nonlocal begun, most
        async with turns.turn(name):
            begun += 1
            most = max(most, begun)
            await asyncio.sleep(0)
            order.append(name)
            begun -= 1

    greedy = [asyncio.create_task(one("greedy")) for _ in range(100)]
    others = [asyncio.create_task(one(name)) for name in ("ann", "bob")]
    done = await asyncio.gather(*greedy, *others, return_exceptions=True)

    assert sum(isinstance(one, FullError) for one in done) == 100 - 2 - 16
    assert set(order[:5]) >= {"ann", "bob"} and len(order) == 20
    assert (most, turns._free, turns._lines) == (2, 2, {})


async def test_an_asker_that_goes_gives_its_turn_to_the_next():
    turns, held = Turns(1, 4), asyncio.Event()

    async def one(name):
        async with turns.turn(name):
            await held.wait()
            return name

    tasks = [asyncio.create_task(one(name)) for name in "abcd"]
    await asyncio.sleep(0)
    for gone in (tasks[1], tasks[0]):
        gone.cancel()
    held.set()
    done = await asyncio.gather(*tasks, return_exceptions=True)

    assert done[2:] == ["c", "d"] and (turns._free, turns._lines) == (1, {})


def test_accounts_of_one_namespace_share_their_turns():
    """Whoever may make one account may make a hundred."""
    names = (
        "system:serviceaccount:lab:a",
        "system:serviceaccount:lab:b",
        "system:serviceaccount:ns:a",
        "ann",
    )

    assert [caller_of(name) for name in names] == ["system:serviceaccount:lab"] * 2 + [
        "system:serviceaccount:ns", "ann",
    ]  # fmt: skip


async def test_one_reader_s_questions_leave_the_others_theirs(folders):
    """With the processes that answer."""
    answers = Answers(LIMITS, {**os.environ, "BURSAR_DATA": str(folders[0])}, 1)
    greedy = [asyncio.create_task(answers.ask(["acct"], 0, "greedy")) for _ in range(WAITING + 4)]
    await asyncio.sleep(0)
    other = await answers.ask(["acct"], 0, "ann")
    waiting = [one for one in greedy if not one.done()]
    for one in greedy:
        one.cancel()
    done = await asyncio.gather(*greedy, return_exceptions=True)
    await answers.close()

    assert other.code == 0 and len(waiting) > 2
    assert sum(isinstance(one, BusyError) for one in done) == 3
