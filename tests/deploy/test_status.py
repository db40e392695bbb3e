"""What `bursar status` says of a bus that is ahead of its ledger."""

import asyncio
import json
import os

import pytest

from bus.clock import SystemClock
from bus.embedded import EmbeddedServer
from bus.errors import WrongClockError
from bus.jetstream import JetStream
from bus.kube.watch.contract import ReflectorState
from bus.streams import history
from deploy.api.serving import answering
from deploy.cli.program.exits import Exit
from deploy.runtime.service import serve
from deploy.runtime.source_metrics import source_metrics
from deploy.settings.shape import Settings
from projections.catalogue import MODEL
from projections.engine.folder import Folder
from projections.engine.runner import Runner
from projections.engine.store import Store, engine
from tests import factories as said
from tests.deploy.ledgers import EVENTS, bursar, make_ledger, process
from tests.scraping import scraped

BACKLOG = 3_000


@pytest.mark.nats
async def test_e12_a_backlog_is_a_lag_that_a_monitor_can_ask_for(tmp_path):
    data = make_ledger(tmp_path)
    backlog = [said.pod_observed(f"p{n}", n + 10, 1) for n in range(BACKLOG)]

    async def status(*options):
        ended = await asyncio.to_thread(process, "status", "--data", data, "-o", "json", *options)
        found = json.loads(ended.stdout)
        return ended.returncode, found["lag"], found["healthy"]

    async with EmbeddedServer(tmp_path) as server:
        bus = await JetStream.connect(server.url, history(), credentials=server.credentials)
        await bus.publish([*EVENTS, *backlog])

        assert await status() == (0, BACKLOG, True)
        assert await status("--max-lag", "1000") == (Exit.UNHEALTHY, BACKLOG, False)

        store = Store(engine(f"sqlite:///{data / 'ledger.db'}"))
        await Runner(store, Folder(MODEL, store), bus).run(live=False)
        store.close()
        assert await status("--max-lag", "0") == (0, 0, True)
        await bus.close()


def following(data, **sources):
    """What a running `bursar up` would have left in the data folder."""
    state = {"heard_us": said.us(0), "published": 1}
    told = {"pid": os.getpid(), "sources": {name: state | own for name, own in sources.items()}}
    (data / "up.json").write_text(json.dumps(told))


def status(data, capsys, *options):
    code = bursar("status", "--data", data, *options)
    return code, capsys.readouterr().out


def test_an_object_that_is_in_no_row_makes_status_unhealthy_and_is_named(tmp_path, capsys):
    """Of any kind, while it is in the newest list; a healthy source beside it changes nothing."""
    data = make_ledger(tmp_path)
    reason = "TooLargeError: The fact is larger than a message may be"
    refused = {"unread": {"team-a/hidden": reason}, "unread_count": 3}
    following(data, pods={}, quotas=refused)

    code, told = status(data, capsys, "-o", "json")
    found = json.loads(told)

    assert (code, found["healthy"]) == (Exit.UNHEALTHY, False)
    assert found["unread"] == [
        {"source": "quotas", "object": "team-a/hidden", "reason": reason},
        {"source": "quotas", "object": "2 more", "reason": ""},
    ]
    assert "team-a/hidden" in status(data, capsys)[1]

    following(data, pods={}, quotas={})

    assert status(data, capsys, "-o", "json")[0] == 0


@pytest.mark.parametrize("source", ["resourceclaims", "resourceslices"])
def test_where_claims_or_slices_may_not_be_read_status_is_unhealthy(source, tmp_path, capsys):
    """GPUs may be missing. Where the cluster serves no such kinds, or reads them again, none are."""
    data = make_ledger(tmp_path)
    following(data, pods={}, **{source: {"trouble": f"no permission: list {source}"}})
    missing = f"{source}: no permission: list {source}; GPUs that are given out by claim may be missing (flag claim_unseen)"

    code, told = status(data, capsys, "-o", "json")
    found = json.loads(told)

    assert (code, found["healthy"]) == (Exit.UNHEALTHY, False)
    assert found["devices_unread"] == [missing]
    assert missing in " ".join(status(data, capsys)[1].split())

    following(data, pods={}, **{source: {"absent_us": said.us(60)}})
    assert status(data, capsys, "-o", "json")[0] == 0

    following(data, pods={}, **{source: {}})
    code, told = status(data, capsys, "-o", "json")
    assert (code, json.loads(told)["devices_unread"]) == (0, [])


def test_a_clock_that_is_wrong_by_years_makes_status_unhealthy(tmp_path, capsys, monkeypatch):
    """Of the machine that runs `bursar up`, and of this one, where nothing runs as `up` refused to start."""
    data = make_ledger(tmp_path)
    trouble = (
        "A clock stands before the first build: clock='of this machine' now='1970-01-01T00:00:00Z'"
    )
    following(data, pods={"wrong_clock": trouble, "trouble": trouble})

    code, told = status(data, capsys, "-o", "json")

    assert (code, json.loads(told)["clock"]) == (Exit.UNHEALTHY, trouble)

    (data / "up.json").unlink()
    monkeypatch.setattr(SystemClock, "now_us", lambda _: 0)
    code, told = status(data, capsys, "-o", "json")

    assert code == Exit.UNHEALTHY and "1970" in json.loads(told)["clock"]


def test_an_offset_of_the_clock_above_two_seconds_is_shown(tmp_path, capsys):
    data = make_ledger(tmp_path)
    following(data, pods={"offset_us": 3_600_000_000}, nodes={"offset_us": 3_600_000_000})

    code, told = status(data, capsys)

    assert (code, "3,600 s behind the API server's" in told) == (0, True)

    following(data, pods={"offset_us": -2_000_000})

    assert "API server's" not in status(data, capsys)[1]


def test_offset_unread_objects_and_trouble_are_metrics():
    state = ReflectorState(
        offset_us=-3_500_000, unread_count=2, heard_us=9_500_000, trouble="no right"
    )
    states = {"pods": state}

    assert scraped(source_metrics(states)) == {
        'bursar_source_clock_offset_seconds{source="pods"}': -3.5,
        'bursar_source_unread_objects{source="pods"}': 2,
        'bursar_source_heard_timestamp_seconds{source="pods"}': 9,
        'bursar_source_trouble{source="pods"}': 1,
    }


async def test_up_follows_no_cluster_while_this_machines_clock_is_wrong_by_years(
    tmp_path, monkeypatch
):
    config = tmp_path / "config"
    config.write_text("{current-context: here, contexts: [{name: here, context: {}}]}")
    monkeypatch.setenv("KUBECONFIG", str(config))
    monkeypatch.setattr(SystemClock, "now_us", lambda _: 0)

    with pytest.raises(WrongClockError, match="NTP"):
        await serve(Settings(data=tmp_path / "data"), Quiet(), answering=answering)

    assert not (tmp_path / "data" / "bus").exists()


@pytest.mark.nats
async def test_what_a_killed_process_said_of_itself_is_gone_before_the_next_begins(tmp_path):
    """In a container its process id is soon another's."""
    settings = Settings(data=tmp_path / "data")
    settings.data.mkdir(mode=0o700)
    following(settings.data, pods={"unread": {}})
    seen = []

    class Looking(Quiet):
        def tell(self, text):
            if text.startswith("bus "):
                seen.append(settings.state_file.exists())

    await serve(settings, Looking(), answering=answering, once=True, recording=True)

    assert seen == [False]


class Quiet:
    """A screen that nobody looks at."""

    def tell(self, text):
        """Nothing."""

    def show(self, progress):
        """Nothing."""


@pytest.mark.nats
def test_a_pause_is_the_first_line_of_status(tmp_path, capsys):
    data = make_ledger(tmp_path)
    pause = {"author": "kim", "since_us": said.us(60), "reason": "restoring etcd"}
    told = {"pid": os.getpid(), "sources": {}, "paused": pause}
    (data / "up.json").write_text(json.dumps(told))
    lines = status(data, capsys)[1].splitlines()
    row = json.loads(status(data, capsys, "-o", "json")[1])

    assert lines[1].startswith("paused") and "by kim since 2026" in lines[1]
    assert "restoring etcd" in " ".join(lines[1:4]) and "resume" in " ".join(lines[1:4])
    assert row["paused"] == {
        "author": "kim",
        "since": "2026-10-26T08:01:00Z",
        "reason": "restoring etcd",
    }
    del told["paused"]
    (data / "up.json").write_text(json.dumps(told))
    assert "paused" not in status(data, capsys)[1]


@pytest.mark.nats
def test_status_says_what_a_running_process_holds_back_and_until_when(tmp_path, capsys):
    data = make_ledger(tmp_path)
    one = {"verb": "cull", "reason": "clock_jumped", "count": 3, "until_us": 0, "first": "ns/nb-0"}
    sentence = "stop delayed: the clock jumped, until 2026-11-16T13:22:00Z"
    told = {"pid": os.getpid(), "sources": {}, "blocked": [one | {"sentence": sentence}]}
    (data / "up.json").write_text(json.dumps(told))
    bursar("status", "--data", data)

    assert f"ns/nb-0, and 2 more: {sentence}" in " ".join(capsys.readouterr().out.split())


def test_status_beside_bursar_act_says_that_something_acts_and_which_certificate_has_ended(
    tmp_path, capsys
):
    """It follows no source itself: `bursar watch` does."""
    data = make_ledger(tmp_path)
    proof = {"mode": "enforce", "address": "https://a:1", "proven_us": 1, "problem": "", "ends_us": said.us(60)}  # fmt: skip
    told = {"pid": os.getpid(), "sources": {}, "blocked": [], "admission": proof}
    (data / "up.json").write_text(json.dumps(told))
    code, well = status(data, capsys)
    told["admission"] = proof | {"problem": "the certificate of /etc/tls.crt ended at noon"}
    (data / "up.json").write_text(json.dumps(told))
    ended, said_of = status(data, capsys)

    assert (code, ended) == (0, Exit.UNHEALTHY)
    assert "nothing is held back" in well and "its certificates end at 2026" in well
    assert "the certificate of /etc/tls.crt ended" in " ".join(said_of.split())


@pytest.mark.parametrize("mode", ["enforce", "shadow"])
def test_a_review_without_a_decision_makes_status_unhealthy_for_ten_minutes(mode, tmp_path, capsys):
    """Reviews failed for hours, and status was healthy. A `bursar up` of an earlier version says nothing of them."""
    data, now_us = make_ledger(tmp_path), SystemClock().now_us()
    proof = {"mode": mode, "address": "https://a:1", "proven_us": 1, "problem": ""}

    def found(**undecided):
        told = {"pid": os.getpid(), "sources": {}, "blocked": []}
        told["admission"] = proof | ({"undecided": undecided} if undecided else {})
        (data / "up.json").write_text(json.dumps(told))
        code, text = status(data, capsys)
        return code, "".join(text.split())

    error = "CREATE of pods in namespace 'free': AssertionError"
    code, text = found(reviews=73, newest_us=now_us - 590_000_000, error=error)

    assert code == Exit.UNHEALTHY
    assert "73reviewssincethestarthadnodecision" in text and "AssertionError" in text
    assert found(reviews=73, newest_us=now_us - 610_000_000, error=error)[0] == 0
    assert found(reviews=0, newest_us=0, error="")[0] == 0
    assert found()[0] == 0


def test_status_of_what_follows_no_cluster_says_that_nothing_acts(tmp_path, capsys):
    bursar("status", "--data", make_ledger(tmp_path))
    said = " ".join(capsys.readouterr().out.split())

    assert "nothing acts here" in said and "say what is due" in said
    assert "nothing is held back" not in said
    assert "every running pod has a team" in said
