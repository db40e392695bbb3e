"""Names of users under a key, from the watch to an answer: who destroys the key has destroyed the names, and nothing else."""

import json

import msgspec
import pytest

from bus.clock import parse_stamp
from bus.envelope import to_line
from bus.kube.watch.records import Record
from bus.sources import namespaces, pods
from deploy.cli.program.exits import Exit
from deploy.errors import SettingsError
from deploy.settings.load import load
from deploy.settings.place import place
from tests.deploy.ledgers import bursar
from tests.factories import CLUSTER

pytestmark = pytest.mark.nats
USER = "example.org/user"
NAMES = ("amy-lastname", "bob-lastname")


@pytest.fixture
def key(tmp_path, monkeypatch):
    found = tmp_path / "users.key"
    found.write_text("5" * 64)
    monkeypatch.setenv("BURSAR_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("BURSAR_LABELS__USER", USER)
    monkeypatch.setenv("BURSAR_LABELS__USER_KEY", str(found))
    return found


def pod(number, user):
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    metadata = {
        "name": f"p{number}", "namespace": "ns", "uid": f"u{number}", "resourceVersion": str(number),
        "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {USER: user},
    }  # fmt: skip
    status = {"phase": "Succeeded", "startTime": "2026-01-01T00:00:00Z"} | {
        "containerStatuses": [{"name": "main", "state": {"terminated": {
            "exitCode": 0, "startedAt": "2026-01-01T00:00:00Z", "finishedAt": f"2026-01-01T0{number}:00:00Z",
        }}}],
    }  # fmt: skip
    spec = {"containers": [container], "nodeName": "n"}
    return {"metadata": metadata, "spec": spec, "status": status}


def seen(thing):
    at_us = parse_stamp("2026-01-02T00:00:00Z")
    return Record("ADDED", msgspec.json.encode(thing), at_us, CLUSTER, "kube/test")


def said(policy):
    """Two pods of each user, a namespace of one, and a pod of nobody."""
    space = {
        "metadata": {
            "name": "ns",
            "uid": "ns",
            "resourceVersion": "9",
            "annotations": {"owner": NAMES[0]},
        }
    }
    yield namespaces.translate(seen(space), policy)
    for number, user in enumerate(NAMES * 2, 1):
        yield pods.translate(seen(pod(number, user)), policy)
    nobody = pod(5, "")
    nobody["metadata"]["namespace"] = "other"
    yield pods.translate(seen(nobody), policy)


@pytest.fixture
def answer(capsys):
    def asked(*arguments):
        capsys.readouterr()
        assert bursar(*arguments, "-o", "json") == 0
        return json.loads(capsys.readouterr().out)

    return asked


def hours(rows):
    return {row["user"]: row["cpu_milli_s"] for row in rows}


def test_who_destroys_the_key_has_destroyed_the_names_and_nothing_else(
    key, tmp_path, answer, capsys
):
    events = list(said(load().labels.policy()))
    (tmp_path / "seen.ndjson").write_bytes(b"".join(to_line(one) + b"\n" for one in events))
    assert bursar("import", "events", tmp_path / "seen.ndjson") == 0
    with_key = answer("report", "--by", "user", "--amounts", "--unit", "exact")
    one = answer("acct", "--user", NAMES[0])
    assert {row["user"] for row in one} == {NAMES[0]} and len(one) == 2
    assert set(hours(with_key)) >= set(NAMES)
    assert [row["pod"] for row in answer("acct", "--user", "unassigned")] == ["p5"]
    assert NAMES[0] in shown(capsys, "report", "--by", "user")
    assert bursar("history", "seal") == 0
    chain = verified(capsys)
    assert answer("status")["user_names"] == "under a key"

    key.unlink()
    assert verified(capsys) == chain
    assert answer("status")["user_names"].startswith(f"there is no {key}: answers show tokens")
    without = answer("report", "--by", "user", "--amounts", "--unit", "exact")
    assert sorted(hours(with_key).values()) == sorted(hours(without).values())
    assert not set(hours(without)) & set(NAMES)
    held = b"".join(one.read_bytes() for one in (tmp_path / "data").rglob("*") if one.is_file())
    assert not any(name.encode() in held for name in NAMES)


def verified(capsys):
    """The last link of a history that holds; that nobody else keeps its heads is said by the exit code."""
    capsys.readouterr()
    assert bursar("verify", "-o", "json") == Exit.OK
    found = json.loads(capsys.readouterr().out)
    assert found["ok"]
    return found["chain"]


def shown(capsys, *arguments):
    capsys.readouterr()
    assert bursar(*arguments) == 0
    return capsys.readouterr().out


def test_the_author_of_an_order_is_a_name_too(key):
    labels = load().labels
    assert labels.author("amy") != "amy"
    assert labels.names().opened(f"by {labels.author('amy')}") == "by amy"


def test_free_text_is_warned_about(key, capsys, monkeypatch):
    warning = "warning: the reason is recorded in clear text"
    assert bursar("pause") == 0
    assert warning not in capsys.readouterr().err
    assert bursar("pause", "--reason", "for amy") == 0
    assert warning in capsys.readouterr().err
    monkeypatch.delenv("BURSAR_LABELS__USER_KEY")
    assert bursar("resume", "--reason", "for amy") == 0
    assert warning not in capsys.readouterr().err


def test_without_its_key_nothing_is_written(key):
    key.unlink()
    with pytest.raises(SettingsError, match=r"labels\.user_key: there is no .*openssl rand"):
        load().labels.policy()
    key.write_text("short")
    with pytest.raises(SettingsError, match=r"labels\.user_key: .*at least 32 bytes"):
        load().labels.policy()


def test_a_label_by_which_quotas_select_namespaces_stays_readable(key, monkeypatch):
    monkeypatch.setenv("BURSAR_LABELS__USER", "bursar.io/user")
    with pytest.raises(SettingsError, match="quotas select namespaces by such labels"):
        load()


@pytest.mark.parametrize("where", ["environment", "file"])
def test_a_question_finds_the_key_where_the_settings_say_it(where, key, tmp_path, monkeypatch):
    file = None
    if where == "file":
        monkeypatch.delenv("BURSAR_LABELS__USER_KEY")
        file = tmp_path / "bursar.yaml"
        file.write_text(f"labels: {{user: {USER}, user_key: {key}}}\n")
    assert place({}, file).user_key == key == load({}, file).labels.user_key
