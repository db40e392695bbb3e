"""Questions over HTTPS: the answers are the command line's own, each asker has the rights that the API server names, and no
question reaches beyond the ledger or takes more than it may."""

import asyncio
import contextlib
import json
import os
import re
from types import SimpleNamespace

import httpx
import pytest
import yaml

from deploy.api.answers import Answers
from deploy.api.application import ApiApplication
from deploy.api.callers import AUDIENCE, GROUP, Callers
from deploy.api.questions import QUESTIONS, UnknownQuestionError, arguments, question
from deploy.api.turns import Turns
from deploy.errors import SettingsError
from deploy.runtime.confined import GRACE_SECONDS, Limits
from tests import factories as said
from tests.deploy.ledgers import EVENTS, bursar, make_ledger
from tests.deploy.manifests import FOLDER
from tests.deploy.toy_api import LIMITS, MIB, Server

LIVED = [
    *EVENTS,
    said.namespace_observed("lab", team="red"),
    said.pod_observed("b", 1, 0, cpu="6", namespace="lab", labels={"app": "y"}),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_ledger(tmp_path_factory.mktemp("ledger"), LIVED)


@contextlib.asynccontextmanager
async def asking(data, limits=LIMITS, allowed=None, at_once=1):
    names = {word.split()[0] for word in QUESTIONS}
    allowed = {("ann", name, "") for name in names} if allowed is None else allowed
    server = Server({"good": "ann"}, allowed)
    answers = Answers(limits, {**os.environ, "BURSAR_DATA": str(data)}, at_once)
    transport = httpx.ASGITransport(app=ApiApplication(answers, Callers(server)))
    try:
        async with httpx.AsyncClient(transport=transport, base_url="https://api") as client:

            async def ask(path, token="good", **headers):
                headers = {"Authorization": f"Bearer {token}"} | headers if token else headers
                found = await client.get(f"/v1/{path}", headers=headers)
                return SimpleNamespace(**found.json() | {"status": found.status_code})

            ask.client = client
            yield ask
    finally:
        await answers.close()


async def test_an_answer_is_that_of_the_command_line_and_says_its_event(data, capsys):
    async with asking(data) as ask:
        found = {
            path: await ask(path)
            for path in ("report?by=team", "acct", "events?limit=2", "report?by=team&at=3")
        }
        table = await ask("report?by=team&output=table&width=80")
        wrong = await ask("quota/show?name=none")
    bursar("report", "--by", "team", "-o", "json", "--data", data)
    rows = json.loads(capsys.readouterr().out)

    assert found["report?by=team"].answer == rows
    assert {path: one.sequence for path, one in found.items()} == {
        "report?by=team": len(LIVED), "acct": len(LIVED), "events?limit=2": len(LIVED), "report?by=team&at=3": 3,
    }  # fmt: skip
    assert len(found["events?limit=2"].answer) == 2
    lines = re.sub(r"\x1b\[\d+m", "", table.answer).splitlines()
    assert lines[0].startswith("TEAM") and "as of event" in table.answer
    assert max(map(len, lines)) <= 80
    assert (wrong.status, wrong.code, wrong.answer) == (200, 1, "") and "none" in wrong.notes[0]


@pytest.mark.parametrize(
    "path",
    [
        "sql?query=SELECT+1", "lab/run", "up", "report?data=/etc", "report?ledger=sqlite:////etc/passwd", "report?config=/etc/x",
        "report?watch=true", "report?debug=true", "report?bus=nats://x", "report?by=team&output=exe", "report?width=9999",
        "report?width=000000000999999999999",
        "report?all-namespaces=maybe", "report?is_all=true", "report/../sql",
    ],
)  # fmt: skip
async def test_nothing_but_questions_is_answered_and_none_names_a_place_of_the_machine(data, path):
    async with asking(data) as ask:
        found = await ask(path)

    assert (found.status, found.kind, found.reason) == (400, "Status", "BadRequest")


def test_an_option_cannot_be_hidden_in_a_value():
    line = arguments(("why",), [("name", "--data=/etc"), ("at", "--config")])

    assert line == ["why", "--at=--config", "--", "--data=/etc"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"token": "bad"}, 401),
        ({"token": ""}, 401),
        ({"token": "", "X-Remote-User": "system:admin", "X-Remote-Group": "system:masters"}, 401),
        ({"token": "", "X-Forwarded-User": "ann", "Impersonate-User": "ann"}, 401),
        ({"token": "", "Authorization": "Basic Z29vZDpnb29k"}, 401),
    ],
    ids=str,
)
async def test_who_shows_no_token_of_bursar_is_nobody_whatever_else_it_says(data, headers, status):
    async with asking(data) as ask:
        found = await ask("report", **headers)

    assert (found.status, found.kind) == (status, "Status")
    assert AUDIENCE in found.message or "no token" in found.message


async def test_a_token_that_was_made_for_another_service_is_none():
    class Old(Server):
        async def create(self, path, body):
            found = await super().create(path, body)
            found["status"].pop("audiences")
            return found

    async with asking("/nowhere") as ask:
        ask.client._transport.app._callers = Callers(Old({"good": "ann"}, set()))
        found = await ask("report")

    assert found.status == 401


async def test_a_token_comes_in_the_body_where_a_proxy_keeps_the_header(data):
    async with asking(data) as ask:
        found = await ask.client.post("/v1/acct?pod=b", json={"token": "good"})
        large = await ask.client.post("/v1/acct", content=b'{"token": "' + b"x" * 40_000 + b'"}')
        odd = await ask.client.post("/v1/acct", content=b'{"token": "\xa2"}')

    assert found.status_code == 200 and [row["namespace"] for row in found.json()["answer"]] == ["lab"]  # fmt: skip
    assert found.headers["Bursar-Sequence"] == str(len(LIVED))
    assert (large.status_code, odd.status_code) == (401, 401)


async def test_a_right_in_one_namespace_gives_what_is_there_and_not_even_a_name_elsewhere(data):
    async with asking(data, allowed={("ann", "acct", "lab"), ("ann", "why", "lab")}) as ask:
        own = await ask("acct?namespace=lab")
        near = await ask("acct?namespace=lab&team=blu")
        refused = [
            await ask(path)
            for path in (
                "acct", "acct?namespace=ns", "acct?namespace=lab&namespace=ns", "acct?all-namespaces=true", "why?name=lab/b",
                "report?namespace=lab",
            )
        ]  # fmt: skip

    assert {row["namespace"] for row in own.answer} == {"lab"}
    # Whether another namespace has such a team is not told either.
    assert (near.code, near.answer) == (0, []) and "blue" not in str(near)
    assert [one.status for one in refused] == [403] * len(refused)


async def test_an_answer_takes_no_more_than_it_may_and_the_next_one_is_given(data):
    # An answer of some milliseconds would be there before the grace is over.
    async with asking(data, limits=Limits(0.01 - 2 * GRACE_SECONDS, 1024 * MIB, 8 * MIB)) as ask:
        late = await ask("report?by=team&at=3")
    async with asking(data, limits=Limits(60, 1024 * MIB, 100)) as ask:
        large = await ask("acct")
    async with asking(data, limits=Limits(60, MIB, 8 * MIB)) as ask:
        hungry = await ask("report")
    async with asking(data) as ask:
        ask.client._transport.app._answers._turns = Turns(0, 0)
        busy = await ask("report")
        ask.client._transport.app._answers._turns = Turns(1, 0)
        after = await ask("report")

    assert [one.status for one in (late, large, busy, after)] == [422, 422, 429, 200]
    assert "api.seconds" in late.message and "too large" in large.message
    assert hungry.status == 422 or hungry.code != 0


async def test_answers_that_end_together_leave_one_process_for_the_next_question(monkeypatch):
    started, real = [], asyncio.create_subprocess_exec
    said = """read -r line; echo '{"code":0,"sequence":1,"out":"","notes":[]}'"""

    async def program(*_, **options):
        # No program of its own below: that would keep the pipes of one that was killed.
        started.append(await real("/bin/sh", "-c", said, **options))
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", program)
    answers = Answers(LIMITS, {**os.environ}, 2)
    for _ in range(10):
        await asyncio.gather(*(answers.ask(["report"], 0, "ann") for _ in range(6)))
    waiting = [one for one in started if one.returncode is None]
    await answers.close()
    left = [one for one in started if one.returncode is None]

    assert (len(waiting), len(left)) == (1, 0)


def test_what_is_typed_is_the_query_that_is_asked():
    typed = ["--by", "team,day", "-n", "lab", "-A", "-l", "a=b", "--label=c=d", "-o", "wide", "--at", "7"]  # fmt: skip
    query = question(("report",), typed)

    assert query == [
        ("by", "team,day"), ("namespace", "lab"), ("all-namespaces", "true"), ("label", "a=b"), ("label", "c=d"),
        ("output", "wide"), ("at", "7"),
    ]  # fmt: skip
    assert question(("why",), ["lab/b", "--cluster", "x"]) == [("cluster", "x"), ("name", "lab/b")]
    with pytest.raises(SettingsError, match="--watch"):
        question(("why",), ["lab/b", "-w"])
    with pytest.raises(SettingsError, match="--data"):
        question(("report",), ["--data", "x"])


def test_every_question_is_a_right_that_the_manifests_grant_and_is_a_command():
    for words in QUESTIONS:
        assert arguments(tuple(words.split()), [])[-1:] == ["--"]
    with pytest.raises(UnknownQuestionError):
        arguments(("report",), [("nothing", "1")])
    objects = list(yaml.safe_load_all((FOLDER / "questions" / "askers.yaml").read_text()))
    [rule] = next(one["rules"] for one in objects if one["kind"] == "ClusterRole")

    assert (rule["apiGroups"], rule["verbs"]) == ([GROUP], ["get"])
    assert rule["resources"] == list(dict.fromkeys(words.split()[0] for words in QUESTIONS))
