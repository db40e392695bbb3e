"""Signed heads in ConfigMaps of a real API server vouch for a history, whatever is done with this machine and Bursar's account."""

import asyncio
import shutil

import pytest

from bus.clock import SECOND_US
from bus.envelope import to_line
from bus.errors import LedgerError
from bus.kube.client import Access
from bus.kube.client.config_maps import ConfigMaps
from bus.waiting import beside
from deploy.cli.program.exits import Exit
from deploy.runtime.anchor_places import below, place_of
from deploy.runtime.sealing import Anchoring
from deploy.settings.load import load
from projections.engine.anchors import DailyHeads, kept_at
from projections.engine.store import Store, engine
from tests.cluster.api import ApiError
from tests.deploy.anchored import kept, verified
from tests.deploy.ledgers import EVENTS, bursar
from tests.deploy.manifests import FOLDER
from tests.reactors.cluster import START_US
from tests.scenario import Clock

pytestmark = [pytest.mark.kube, pytest.mark.nats]

WHERE = "configmap://bursar-anchors"
PATH = "/api/v1/namespaces/bursar-anchors/configmaps"
DAY_US = 86_400 * SECOND_US
#: A year that is not this one.
LATER_US = 30 * 365 * DAY_US + START_US


@pytest.fixture(scope="module")
def plane(start_module_plane):
    return start_module_plane()


@pytest.fixture
def account(plane, tmp_path):
    """A kubeconfig of the account that writes the ledger."""
    for file in ("rbac/reader.yaml", "anchors.yaml"):
        plane.kubectl("apply", "-f", str(FOLDER / file))
    file = tmp_path / "bursar.kubeconfig"
    token = plane.kubectl("create", "token", "bursar", "--namespace=bursar-system").strip()
    file.write_text(plane.kubeconfig.read_text().replace(plane.token, token))
    return file


@pytest.fixture
def data(plane, account, tmp_path, monkeypatch):
    """A data folder whose newest head is kept by Bursar's account; verified by the kubeconfig of who administers."""
    data = tmp_path / "data"
    imported(tmp_path, EVENTS)
    monkeypatch.setenv("BURSAR_DATA", str(data))
    monkeypatch.setenv("BURSAR_LEDGER__ANCHOR", WHERE)
    monkeypatch.setenv("KUBECONFIG", str(account))
    assert kept(data, place_of(WHERE, load())).sequence == len(EVENTS) + 1
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig))
    yield data
    plane.api.request("DELETE", PATH)


def imported(folder, events):
    lines = b"".join(to_line(event) + b"\n" for event in events)
    (folder / "events.ndjson").write_bytes(lines)
    assert bursar("import", "events", folder / "events.ndjson", "--data", folder / "data") == 0


def found(plane):
    return [
        one["metadata"]["name"]
        for one in plane.api.request("GET", PATH)["items"]
        if "head" in one["metadata"]["name"]
    ]


def place(kubeconfig, us=LATER_US, purpose="bursar"):
    return DailyHeads(ConfigMaps(Access(str(kubeconfig)), "bursar-anchors", purpose), Clock(us))


def test_who_has_this_machine_and_our_account_takes_no_head_back(
    plane, account, data, tmp_path, capsys
):
    """Whoever can write the data folder signs what he likes: only the cluster has what was."""
    code, row, _ = verified(capsys, "--heads", WHERE)
    assert (code, row["anchored_until"]) == (Exit.OK, len(EVENTS) + 1)
    assert verified(capsys, "--require-anchor")[0] == Exit.UNANCHORED
    [name] = found(plane)
    for verb in (
        ("delete", "configmap", name),
        ("label", "configmap", name, "bursar.io/kept-for-"),
    ):
        with pytest.raises(RuntimeError, match="forbidden"):
            plane.kubectl("--kubeconfig", str(account), "--namespace=bursar-anchors", *verb)
    with pytest.raises(ApiError, match="immutable"):
        plane.api.request(
            "PATCH",
            f"{PATH}/{name}",
            {"data": {"text": "x"}},
            content_type="application/merge-patch+json",
        )

    shutil.rmtree(data)
    imported(tmp_path, [*EVENTS[:1], *EVENTS[2:]])
    assert verified(capsys, "--require-anchor")[0] == Exit.UNANCHORED, "its parts fit"
    code, row, _ = verified(capsys, "--heads", WHERE)
    assert code == Exit.DIFFERENT and row["findings"]
    with pytest.raises(LedgerError, match="no head of this ledger"):
        kept(data, place_of(WHERE, load()))
    assert found(plane) == [name]


def test_a_head_is_kept_for_each_day_and_rubbish_is_named_and_hides_none(
    plane, account, data, capsys
):
    """As many as of a year and a half, which is more than a page of a list."""
    head = kept(data, place(account))
    for day in range(510):
        place(account, LATER_US + day * DAY_US).keep(head)
    place(account, LATER_US + DAY_US // 2).keep(head)
    kept_there, wrong = kept_at(place(plane.kubeconfig), (), ())
    assert (len(kept_there), wrong) == (511, [])

    body = {
        "metadata": {"name": "bursar-head-2020-01-01", "labels": {"bursar.io/kept-for": "bursar"}}
    }
    for number, content in enumerate(
        [{}, {"data": {"text": "{}"}}, {"data": {"other": "x"}}, {"binaryData": {"text": "eA=="}}]
    ):
        name = f"bursar-head-rubbish-{number}"
        plane.api.request("POST", PATH, {"metadata": body["metadata"] | {"name": name}, **content})
    code, row, _ = verified(capsys, "--heads", WHERE)
    assert (code, row["found"], row["anchored_until"]) == (Exit.DIFFERENT, 4, head.sequence)
    assert "ConfigMap bursar-head-rubbish-0 is named as a head" in row["findings"][0]["reason"]


def test_ledgers_with_names_share_a_namespace(plane, account, data, tmp_path, monkeypatch, capsys):
    other = tmp_path / "other"
    other.mkdir()
    imported(other, EVENTS[:3])
    monkeypatch.setenv("KUBECONFIG", str(account))
    with pytest.raises(LedgerError, match="name another place"):
        kept(other / "data", place_of(WHERE, load()))
    names = [below(WHERE, "c2"), below(f"{WHERE}/hub", "A_b")]
    for name in names:
        assert kept(other / "data", place_of(name, load())) is not None
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig))

    assert [name.partition("-anchors/")[2] for name in names] == ["bursar-c2", "hub-08eb65adb1a8"]
    assert verified(capsys, "--heads", WHERE)[0] == Exit.OK
    assert [verified(capsys, "--heads", name, "--data", other / "data")[0] for name in names] == [
        Exit.OK
    ] * 2


def test_a_cluster_that_refuses_is_said(plane, account, data, monkeypatch, capsys):
    plane.kubectl("delete", "rolebinding", "bursar-anchors", "--namespace=bursar-anchors")
    monkeypatch.setenv("KUBECONFIG", str(account))
    code, _, err = verified(capsys, "--heads", WHERE)
    assert code == Exit.FAILED and "cannot be read" in err and "Traceback" not in err
    store = Store(engine(f"sqlite:///{data / 'ledger.db'}"))
    anchoring = Anchoring(load(), store)

    async def troubled():
        async with asyncio.timeout(60), beside(anchoring.run()):
            while "forbidden" not in anchoring.trouble:
                await asyncio.sleep(0.05)

    asyncio.run(troubled())
    store.close()


@pytest.mark.parametrize(
    "address", ["configmap://", "configmap://A", "configmap://a/b/c", "configmap://a/b_c"]
)
def test_an_address_that_is_no_place_is_refused(address, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("BURSAR_DATA", str(tmp_path))
    assert bursar("verify", "--heads", address) == Exit.USAGE
    assert address in capsys.readouterr()[1]
    monkeypatch.setenv("BURSAR_LEDGER__ANCHOR", address)
    assert bursar("verify") == Exit.USAGE
    assert "ANCHOR" in capsys.readouterr()[1]


def test_without_a_cluster_there_is_no_place_in_one(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    assert bursar("verify", "--heads", WHERE, "--data", tmp_path) == Exit.USAGE
    assert "no cluster found" in capsys.readouterr()[1]
