"""What an upgrade changed is named in each answer until it is filled, and short commands fill it before they end."""

import asyncio
import json
import os
import re

import pytest
import sqlalchemy as sa

from bus.envelope import to_line
from deploy.cli.program.exits import Exit
from deploy.runtime import kept, ledgers
from projections.catalogue import MODEL
from projections.engine.store import Store, engine
from projections.pod_runs.derivation import derivation
from tests import factories as said
from tests.deploy.ledgers import a_hub, bursar, make_ledger, process, rows_of, version_of
from tests.deploy.questions import LENGTH, POD, QUESTIONS
from tests.deploy.quota_ledger import lived
from tests.recording import recorded

PODS = f"pod_runs={derivation.version}"
EARLIER = f"pod_runs={derivation.version - 1}"


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """The looks of one test."""
    monkeypatch.setattr(ledgers, "looks", [])


def set_version(data, version):
    """A ledger whose checkpoint names these parts."""
    store = Store(engine(f"sqlite:///{data / 'ledger.db'}"))
    with store.engine.begin() as connection:
        connection.execute(sa.text("UPDATE checkpoints SET version = :v"), {"v": version})
    store.close()


def filling(data, event=2):
    """A ledger whose pods and their sums end at an event."""
    changed = MODEL.version.replace(PODS, f"{EARLIER}@{event}")
    set_version(data, re.sub(r"report_days=\d+", "report_days=0@0", changed))


def told(capsys, *command):
    code = bursar(*command)
    return code, *capsys.readouterr()


@pytest.fixture(scope="module")
def day(tmp_path_factory):
    data = make_ledger(tmp_path_factory.mktemp("day"), recorded()[:LENGTH])
    filling(data, 1_234)
    (data / "FILE").write_text(POD)
    return data


#: A comparison of two past moments folds both anew, as ``--at`` does.
NOW = [one for one in QUESTIONS if one[0] != "diff"]
MORE = (
    ("sql", "SELECT 1"), ("export", "history.ndjson"), ("events",), ("budget", "shares"), ("status",),
    ("parked", "list"), ("report", "--by", "team"),
)  # fmt: skip


@pytest.mark.parametrize("question", [*NOW, *MORE], ids=" ".join)
def test_every_question_names_parts_that_are_not_there_yet_and_their_event(question, day, capsys):
    words = [str(day / word) if word in ("FILE", "history.ndjson") else word for word in question]

    _, out, err = told(capsys, *words, "--data", day)
    told_people = " ".join(out.split())

    assert err.count("pod_runs end at event 1,234: an upgrade fills them anew") == 1
    assert err.count("report_days end at an unknown event") == 1
    assert ("as of event 2,400" in told_people) == ("pod_runs as of event 1,234" in told_people)


def test_an_answer_for_programs_is_whole_and_named_beside(tmp_path, capsys):
    filling(data := make_ledger(tmp_path))

    code, out, err = told(capsys, "report", "--data", data, "-o", "json")

    assert code == 0 and json.loads(out)
    assert "pod_runs end at event 2" in err


def test_a_whole_ledger_is_named_nowhere(tmp_path, capsys):
    """The innocent bystander: no part is missing."""
    code, out, err = told(capsys, "report", "--data", make_ledger(tmp_path))

    assert (code, err) == (0, "")
    assert "fills" not in out and "pod_runs" not in out


def test_the_footer_of_a_report_has_the_event_of_each_part(tmp_path, capsys):
    filling(data := make_ledger(tmp_path))

    _, out, _ = told(capsys, "report", "--by", "team", "--data", data)

    assert "as of event 5, " in out
    assert "report_days as of an unknown event; pod_runs as of event 2" in " ".join(out.split())


def test_a_past_moment_is_complete(tmp_path, capsys):
    """``--at`` folds its rows anew by the rules of this program."""
    filling(data := make_ledger(tmp_path))

    code, _, err = told(capsys, "report", "--data", data, "--at", "4", "-o", "json")

    assert code == 0 and "end at" not in err


def test_a_caller_that_is_kept_to_a_namespace_reads_no_number_of_the_cluster(
    tmp_path, capsys, monkeypatch
):
    filling(data := make_ledger(tmp_path))
    monkeypatch.setattr(kept, "caller", kept.KeptScope("c", "ns"))

    _, out, err = told(capsys, "report", "--data", data)

    assert "pod_runs lack the newest events" in err
    assert "event 2" not in err + out and "event 5" not in err + out


def test_a_hub_names_the_parts_of_each_ledger_and_leaves_others_alone(tmp_path, capsys):
    a_hub(tmp_path, {"a": 100, "b": 100}, are_named=True)
    filling(tmp_path / "clusters" / "b", 1)

    _, _, both = told(capsys, "report", "--data", tmp_path)
    _, _, one = told(capsys, "status", "--cluster", "a", "--data", tmp_path)

    assert both.count("pod_runs end at event 1") == 1
    assert one == ""


@pytest.mark.parametrize("version", ["", "3-1-4", MODEL.version, f"{MODEL.version},dream=2@7"])
def test_odd_versions_of_a_checkpoint_end_no_question(version, tmp_path, capsys):
    set_version(data := make_ledger(tmp_path), version)

    code, out, _ = told(capsys, "report", "--data", data, "-o", "json")

    assert code == 0 and json.loads(out)


# status


def test_status_names_each_part_and_is_unhealthy_until_it_is_filled(tmp_path, capsys):
    data = make_ledger(tmp_path)
    whole = told(capsys, "status", "--data", data, "-o", "json")
    filling(data)

    code, out, _ = told(capsys, "status", "--data", data, "-o", "json")
    found = json.loads(out)
    _, shown, _ = told(capsys, "status", "--data", data)

    assert whole[0] == 0 and json.loads(whole[1])["filling"] is None
    assert (code, found["healthy"], found["projected"]) == (Exit.UNHEALTHY, False, 5)
    assert found["filling"] == {
        "parts": ["pod_runs", "report_days"],
        "ends": {"pod_runs": 2, "report_days": 0},
        "sequence": None,
        "of": None,
    }
    assert "pod_runs: ends at event 2" in shown and "fills them" in shown


def test_status_has_how_far_a_running_process_is(tmp_path, capsys):
    filling(data := make_ledger(tmp_path))
    fill = {"parts": ["pod_runs", "usage"], "sequence": 5000, "of": 12000}
    (data / "up.json").write_text(json.dumps({"pid": os.getpid(), "sources": {}, "filling": fill}))

    assert "5,000 of 12,000 events" in told(capsys, "status", "--data", data)[1]
    found = json.loads(told(capsys, "status", "--data", data, "-o", "json")[1])
    assert (found["filling"]["sequence"], found["filling"]["of"]) == (5000, 12000)


# short writers


def older(data):
    """The ledger as an older program left it: pods by other rules, and wrong."""
    set_version(data, MODEL.version.replace(PODS, EARLIER))
    store = Store(engine(f"sqlite:///{data / 'ledger.db'}"))
    with store.engine.begin() as connection:
        connection.execute(sa.text("UPDATE pod_runs SET user_name = 'old'"))
    store.close()


@pytest.fixture
def right(tmp_path):
    """The rows of a ledger of these events that this program folded."""
    (tmp_path / "right").mkdir()

    def of(events):
        return rows_of(make_ledger(tmp_path / "right", events))[0]

    return of


EVENTS = [said.namespace_observed("ns", team="blue"), said.pod_observed("a", 1, 0, cpu="2")]


@pytest.mark.parametrize("options", [(), ("--swap",)])
def test_replay_fills_what_an_upgrade_changed(options, tmp_path, right, capsys):
    older(data := make_ledger(tmp_path, EVENTS))

    code, out, err = told(capsys, "replay", "--data", data, "-o", "json", *options)

    assert code == 0, err
    assert json.loads(out)["equal"] or options
    assert version_of(data) == MODEL.version
    assert rows_of(data)[0] == right(EVENTS)


def test_replay_beside_the_process_that_fills_compares_the_other_tables(
    tmp_path, capsys, monkeypatch
):
    from deploy.errors import LedgerBusyError

    older(data := make_ledger(tmp_path, EVENTS))

    def busy(*_):
        raise LedgerBusyError(holder="up")

    monkeypatch.setattr("deploy.cli.history.keeping.held_ledger", busy)
    code, out, err = told(capsys, "replay", "--data", data, "-o", "json")

    assert (code, json.loads(out)["equal"]) == (0, True)
    assert "another process fills pod_runs" in err
    store = Store(engine(f"sqlite:///{data / 'ledger.db'}"))
    with store.engine.begin() as connection:
        connection.execute(sa.text("UPDATE namespaces SET cluster = 'other'"))
    store.close()
    assert told(capsys, "replay", "--data", data, "-o", "json")[0] == Exit.DIFFERENT


def is_filled(data, capsys):
    """Whether the ledger has all parts, and no row is another than its history gives."""
    version, found = version_of(data), rows_of(data)[0]
    code, out, _ = told(capsys, "replay", "--data", data, "-o", "json")
    return (version, code, json.loads(out)["digest"]) == (MODEL.version, 0, found)


@pytest.mark.nats
def test_short_writers_fill_what_an_upgrade_changed_before_they_end(tmp_path, capsys):
    """Commands of one folder in turn; a whole ledger beside them is filled by none."""
    file = tmp_path / "history.ndjson"
    file.write_bytes(b"".join(to_line(event) + b"\n" for event in asyncio.run(lived())))
    data = tmp_path / "d"
    assert told(capsys, "import", "events", file, "--all", "--data", data)[0] == 0
    credit = ("budget", "credit", "team", "limits.cpu", "5", "--reason", "r", "--author", "me")
    for command in (("recover",), ("import", "events", file), credit, ("up", "--once")):
        older(data)
        assert version_of(data) != MODEL.version

        found = process(*command, "--data", data, HOME=str(tmp_path))

        assert found.returncode == 0, found.stderr
        assert is_filled(data, capsys), command
