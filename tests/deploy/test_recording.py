"""The bundled recording: after `make run` every command of the README answers with something worth reading."""

import json
import re
import shutil
from pathlib import Path

import msgspec
import pytest

from bus.clock import SECOND_US
from bus.sources.events import read_lines
from deploy.runtime.reactors import remembered
from deploy.runtime.service import RECORDING
from projections.engine.heads import Signer
from projections.engine.snapshots import last, write
from projections.engine.store import Store, engine
from reactors.catalogue import REACTORS
from reactors.engine.replica import Replica
from reactors.engine.snapshots import at, last_archived, reader_of
from tests.deploy.ledgers import bursar, make_ledger, process
from tests.reactors.engine.restoring import readers_of
from tests.recording import recorded

pytestmark = pytest.mark.long

README = Path(__file__).parents[2] / "README.md"
(DAY,) = RECORDING.glob("*.ndjson.zst")
#: These need a cluster, a bus of their own or a file, or change something.
ELSEWHERE = (
    "up", "import", "export", "recover", "webhook", "config", "cull undo", "quota check",
    "budget credit", "pause", "resume", "queue move", "queue hold", "queue release", "parked", "schedule check",
)  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_ledger(tmp_path_factory.mktemp("day"), list(read_lines(DAY)))


@pytest.fixture
def asked(capsys, data):
    def ask(*arguments):
        assert bursar(*arguments, "--data", data, "-o", "json") == 0, capsys.readouterr().err
        return json.loads(capsys.readouterr().out)

    return ask


def test_it_is_a_whole_day_of_three_teams(asked):
    rows = {row["team"]: row for row in asked("report", "--by", "team")}
    events = list(read_lines(DAY))

    assert set(rows) == {"vision", "language", "robotics"}
    assert all(row["gpu_hours"] > 20 for row in rows.values())
    assert events[-1].time_us - events[0].time_us > 23.9 * 3600 * SECOND_US


def test_a_stretch_of_time_is_unknown_and_one_fact_came_late(asked):
    """Two pods ended while nobody watched. Of one another watcher's word came two hours later: its time is known since."""
    unknown = [row for row in asked("acct") if row.get("unknown_s")]
    events = list(read_lines(DAY))
    newest_us, late_us = 0, 0
    for event in events:
        if event.type == "pod.vanished":
            late_us = max(late_us, newest_us - event.time_us)
        newest_us = max(newest_us, event.time_us)

    assert sum(row["unknown_s"] for row in asked("report", "--by", "team")) > 0
    assert unknown
    assert late_us > 3600 * SECOND_US


def test_quotas_were_held_a_budget_was_spent_and_pods_were_evicted_for_it(asked):
    (spent,) = [row for row in asked("budget", "list") if row["quota"] == "vision"]
    refused = asked(
        "sql",
        "SELECT reason, count(*) AS n FROM v1_admissions WHERE verdict = 'refused' GROUP BY 1",
    )
    evicted = [row for row in asked("evictions") if row["result"] == "done"]

    assert spent["remaining"] < 0
    assert {"over-quota", "budget-exhausted"} <= {row["reason"] for row in refused}
    assert {row["reason"] for row in evicted} == {"budget-grace-over"}


def test_its_quotas_name_their_namespaces_as_they_should(data, capsys):
    bursar("status", "--data", data)
    said = capsys.readouterr().out

    assert "quotas" in said
    assert "name no namespaces" not in said


def test_cards_are_given_out_by_claim_whole_and_in_parts(asked):
    devices, classes = (asked(*one) for one in (("devices",), ("report", "--by", "class")))
    held = [row for row in devices if row["state"] == "held"]

    assert {row["class"] for row in classes} > {"gpu.nvidia.com", "mig.nvidia.com"}
    assert any(row["gpu_milli"] < 1000 for row in held)
    assert sum(row["model"] == "NVIDIA-B200" for row in devices if row["state"] == "idle") > 3


def test_jobs_waited_and_some_wait_still(asked):
    waits = asked("sql", "SELECT * FROM v1_waits")
    waiting = asked("queue", "show")

    assert len(waits) > len(waiting) > 0
    assert asked("why", f"{waiting[0]['namespace']}/{waiting[0]['name']}")


def test_notebooks_are_busy_idle_warned_stopped_and_unknown(asked):
    states = {row["pod"]: (row["state"], row["reason"]) for row in asked("notebooks")}
    verbs = asked("sql", "SELECT verb, result FROM v1_decisions WHERE reactor = 'culling'")

    assert len(states) >= 4
    assert ("keep", "warned") in states.values()
    assert ("keep", "exempt") in states.values()
    assert "unknown" in {state for state, _ in states.values()}
    assert {row["verb"] for row in verbs if row["result"] == "done"} >= {
        "decision.warn", "decision.withdraw", "decision.cull",
    }  # fmt: skip


def test_every_decision_in_it_is_derived_again(data, capsys):
    """Recorded by rules of an older version it would prove nothing: then `make recording` is due."""
    assert bursar("verify", "--decisions", "--data", data, "-o", "json") == 0
    told = json.loads(capsys.readouterr().out)

    assert told["decisions"] > 10
    assert told["releases"] > 10
    assert min(told["reviews"], told["observed"]) > 100
    assert not told["decisions_by_other_rules"]
    assert {"metered"} == told["entries_passed_over"].keys()


@pytest.mark.nats
def test_the_snapshot_of_a_first_run_is_the_fold_of_its_history(tmp_path, capsys):
    """As a newcomer has it: `bursar up` plays the day, with its reactors beside the ledger, and ends."""
    assert process("up", "--once", "--data", tmp_path / "d", HOME=str(tmp_path)).returncode == 0
    bursar("verify", "--decisions", "--data", tmp_path / "d", "-o", "json")
    found = json.loads(capsys.readouterr().out)

    assert (True, 1, []) == (found["ok"], found["snapshots"], found["snapshots_different"])


JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: more, namespace: language, labels: {biz.group.resource.quota: language}}
spec:
  template:
    spec:
      resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]
      containers: [{name: c, resources: {limits: {cpu: "64", memory: 1Gi}, requests: {cpu: "64", memory: 1Gi}}}]
"""


def test_questions_are_answered_alike_with_a_snapshot_and_without(asked, data, tmp_path, capsys):
    (waiting, *_) = asked("queue", "show")
    refused = asked("sql", "SELECT namespace, name FROM v1_admissions WHERE verdict = 'refused'")[0]
    (tmp_path / "job.yaml").write_text(JOB)
    questions = (
        ("queue", "show"), ("quota", "show", "vision"), ("quota", "show", "language"), ("evictions",), ("notebooks",),
        ("quota", "explain", f"{waiting['namespace']}/{waiting['name']}"),
        ("quota", "check", tmp_path / "job.yaml"),
        ("why", f"{refused['namespace']}/{refused['name']}"),
    )  # fmt: skip

    def answers(folder):
        for question in questions:
            code = bursar(*question, "--data", folder)
            yield question, code, capsys.readouterr().out

    plain = list(answers(data))
    store = Store(engine(f"sqlite:///{shutil.copy(data / 'ledger.db', tmp_path)}"))
    for knows in (at(store.select, REACTORS, "default", 15_000), readers_of(recorded()[:15_000])):
        state = msgspec.msgpack.encode(knows.saved())
        assert write(store, reader_of(knows), 15_000, state)
        assert last(store.select, reader_of(knows))
    store.close()

    assert plain == list(answers(tmp_path))
    assert not [out for _, _, out in plain if "claims-unseen" in out]
    assert [] == [(q, c) for q, c, out in plain if not out.strip()]


async def test_questions_begin_at_a_snapshot_of_what_was_played(data, tmp_path):
    """To read its 17,000 events for a question takes as much CPU as all the rest of it."""
    store = Store(engine(f"sqlite:///{shutil.copy(data / 'ledger.db', tmp_path)}"))

    await remembered(store, Signer(tmp_path / "signing.key"))

    reader = reader_of(Replica(REACTORS, "default"))
    assert last(store.select, reader) == last_archived(store.select) > 10_000
    store.close()


def commands():
    """Every `bursar …` of the README's tables and blocks, without what needs more than a ledger."""
    found = re.findall(
        r"`(bursar [^`]+)`|^\$ (?:[A-Z_]+=\S+ )?(bursar [^#\n]+)", README.read_text(), re.M
    )
    lines = {
        (one or other).partition(" | ")[0].strip().removeprefix("bursar ") for one, other in found
    }
    return sorted(
        one for one in lines if one != "why" and not one.startswith(ELSEWHERE) and "UID" not in one
    )


POLICIES = {
    "two-hours.yaml": "culling: {policy: {idle_seconds: 7200}}",
    "more.yaml": 'quotas: {vision: {limits.cpu: "200"}}',
    "shares.yaml": "evictions: {policy: {monitor_all_quotas: true}}",
    "packed.yaml": "scheduling: {policy: {profiles: [{fields: {NodeResourcesFit: {strategy: MostAllocated}}}]}}",
}


@pytest.mark.parametrize("line", commands())
def test_every_command_of_the_readme_answers_with_something(line, data, tmp_path, capsys):
    arguments = re.findall(r'"([^"]+)"|(\S+)', line)
    words = [quoted or plain for quoted, plain in arguments]
    names = {"NAME": "ada-0", "NAMESPACE/NAME": "vision/ada", "DIR": tmp_path / "kept"}
    for name, text in POLICIES.items():
        names[name] = tmp_path / name
        names[name].write_text(text)
    code = bursar(*(names.get(word, word) for word in words), "--data", data)
    out, err = capsys.readouterr()

    assert code == 0, err
    assert len(out.splitlines()) >= 2
