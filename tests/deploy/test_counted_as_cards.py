"""Resources that an installation counts as cards (`devices.accelerators`), from what a source sees to reports and supply."""

import json

import msgspec
import pytest

from bus.events.devices import COUNTED
from bus.kube.watch.labels import Accelerator
from bus.sources import nodes, pods
from deploy.cli.program.exits import Exit
from deploy.settings.devices import DeviceSettings
from deploy.settings.load import load
from projections.devices.plugins import offered
from tests import factories as given
from tests.bus.sources.records import POLICY, body, record
from tests.deploy.ledgers import bursar, make_ledger

MLU, CORE = "cambricon.com/mlu370", "iluvatar.ai/vcuda-core"
ACCELERATORS = {MLU: {"model": "MLU370"}, CORE: {"gpu_milli": 10}, "unused.example/card": {}}
COUNTS = msgspec.structs.replace(
    POLICY, accelerators=DeviceSettings(accelerators=ACCELERATORS).policy()
)
SAID = {
    COUNTED: '{"cambricon.com/mlu370":[1000,"MLU370"],"iluvatar.ai/vcuda-core":[10,"vcuda-core"]}'
}


def pod_of(requests, **metadata):
    metadata = {"uid": "p", "name": "p", "namespace": "ns", "resourceVersion": "1", **metadata}
    containers = [{"name": "c", "resources": {"requests": one}} for one in requests]
    return {"metadata": metadata, "spec": {"containers": containers}, "status": {}}


def seen(translate, found, policy=COUNTS):
    return body(translate(record(msgspec.json.encode(found)), policy)).get("card_texts", {})


def pod(uid="p", texts=SAID, asked=None, **fields):
    wanted = asked or {MLU: "2", CORE: "25", "cpu": "4"}
    return given.pod_observed(uid, resources=given.requesting(wanted), card_texts=texts, at=5, **fields)  # fmt: skip


def test_a_pod_and_a_node_say_what_counts_of_what_they_have():
    requests = [{"cpu": "1", MLU: "2"}, {CORE: "25"}]
    assert seen(pods.translate, pod_of(requests)) == SAID
    assert seen(pods.translate, pod_of([{"cpu": "1"}])) == {}
    assert seen(pods.translate, pod_of(requests), POLICY) == {}
    node = {
        "metadata": {"uid": "n", "name": "n", "resourceVersion": "1"},
        "status": {"allocatable": {"cpu": "8", MLU: "4"}},
    }
    assert seen(nodes.translate, node) == {COUNTED: '{"cambricon.com/mlu370":[1000,"MLU370"]}'}
    assert seen(nodes.translate, node, POLICY) == {}


def test_nobody_says_by_an_annotation_what_counts():
    forged = {
        "annotations": {COUNTED: '{"cambricon.com/mlu370":[1,"x"]}'},
        "labels": {COUNTED: "x"},
    }
    for policy in (POLICY, COUNTS):
        assert "x" not in str(seen(pods.translate, pod_of([{"cpu": "1"}], **forged), policy))


SEGMENTS = "SELECT gpu_milli, model, devices, extended FROM v1_held_segments"


def held(capsys, folder, *events):
    data = make_ledger(folder, [*events, *given.pods_listed(["p"], "9", 3_605)])
    capsys.readouterr()
    assert bursar("sql", SEGMENTS, "--data", data, "-o", "json") == 0
    return json.loads(capsys.readouterr().out)


def test_they_count_as_cards_and_not_as_counts_of_a_resource(capsys, tmp_path):
    """Two cards and a quarter of one, of two models; what it requests otherwise stays a count."""
    asked = {MLU: "2", CORE: "25", "example.com/other": "3", "cpu": "4"}
    [row] = held(capsys, tmp_path, given.node_observed(), pod(asked=asked))

    assert row == {
        "gpu_milli": 2250, "model": "MLU370", "devices": '{"MLU370":2000,"vcuda-core":250}',
        "extended": '{"example.com/other":3}',
    }  # fmt: skip
    assert bursar("acct", "--data", tmp_path, "-o", "json") == 0
    [account] = json.loads(capsys.readouterr().out)
    assert account["devices"] == {"MLU370": 2000, "vcuda-core": 250}
    assert account["extended"] == {"example.com/other": 3}


def test_the_label_of_their_node_names_the_model_first(capsys, tmp_path):
    [row] = held(capsys, tmp_path, given.node_observed(model="X8"), pod())

    assert (row["gpu_milli"], row["model"]) == (2250, "X8")


def test_what_was_observed_before_the_setting_stays_a_count(capsys, tmp_path):
    [row] = held(capsys, tmp_path, given.node_observed(), pod(texts={}))

    assert (row["gpu_milli"], row["extended"]) == (0, f'{{"{MLU}":2,"{CORE}":25}}')


@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", '{"cambricon.com/mlu370":[0,"x"]}', '{"cambricon.com/mlu370":[1001,"x"]}', '{"cambricon.com/mlu370":[-5,"x"]}',
        '{"cambricon.com/mlu370":[1e300,"x"]}', '{"cambricon.com/mlu370":[1000,""]}', '{"cambricon.com/mlu370":[1000]}',
        "[" * 9_000, json.dumps({MLU: [1000, "x" * 64]}),
    ],
    ids=range(10),
)  # fmt: skip
def test_what_no_source_would_have_said_counts_nothing(text, capsys, tmp_path):
    """A history may be imported, or written by whoever may write the bus: nothing ends, and no card is made up."""
    [row] = held(capsys, tmp_path, given.node_observed(), pod(texts={COUNTED: text}))

    assert row["gpu_milli"] == 0
    assert offered({MLU: "4"}, {COUNTED: text}) == {}


def test_a_node_offers_them():
    assert offered({MLU: "4", "cpu": "8"}, {COUNTED: SAID[COUNTED]}) == {"cambricon": 4000}
    assert offered({CORE: "200"}, {COUNTED: SAID[COUNTED]}) == {"iluvatar": 2000}
    assert offered({MLU: "4"}, {}) == {}


@pytest.mark.parametrize(
    ("accelerators", "words"),
    [
        ({"mlu370": {}}, "name a resource with its domain"),
        ({"nvidia.com/gpumem": {}}, "counts as a card already"),
        ({"example.com/gpu": {}}, "counts as a card already"),
        ({MLU: {"gpu_milli": 0}}, "gpu_milli"),
        ({MLU: {"gpu_milli": 1001}}, "gpu_milli"),
        ({MLU: {"model": "a,b"}}, "model"),
        ({MLU: {"cards": 1}}, "cards"),
    ],
)
def test_what_cannot_be_is_refused(accelerators, words, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("BURSAR_DEVICES__ACCELERATORS", json.dumps(accelerators))
    assert bursar("config", "show", "--data", tmp_path) == Exit.USAGE
    assert words in capsys.readouterr().err


def test_settings_are_what_sources_go_by(monkeypatch, tmp_path):
    monkeypatch.setenv("BURSAR_DEVICES__ACCELERATORS", json.dumps(ACCELERATORS))
    named = (MLU, Accelerator(1000, "MLU370")), (CORE, Accelerator(10, "vcuda-core"))

    monkeypatch.setenv("BURSAR_DATA", str(tmp_path))
    assert load().observed().accelerators[:2] == named
