"""Quotas that name no namespaces: `bursar status` says so, and a setting requires namespaces."""

import json

from bus.events.quotas import NamespaceRequirement, Serves
from bus.kube.kinds import SELECTABLE
from deploy.cli.notes.governed import governed_line
from deploy.settings.load import load
from tests import factories as f
from tests.deploy.ledgers import bursar, make_ledger


def quota(name, *namespaces, **fields):
    return f.quota_observed(name, hard={}, serves=Serves(namespaces), **fields)


def test_status_names_the_quotas_that_any_namespace_may_use(capsys, tmp_path):
    events = [
        quota("open"), quota("ours", "lab"), quota("below", parent="ours"), f.quota_observed("old", hard={}),
        quota("gone"), f.quota_vanished("gone"), quota("child", parent="chosen"),
        f.quota_observed("chosen", hard={}, serves=Serves((), (NamespaceRequirement("bursar.io/a", "Exists"),))),
    ]  # fmt: skip
    make_ledger(tmp_path, events)
    bursar("status", "--data", tmp_path, "-o", "json")
    found = json.loads(capsys.readouterr().out)["quotas"]

    assert found["open"] == ["old", "open"]
    assert "2 name no namespaces, so any that is not mapped may use them: old, open" in (
        governed_line(found)
    )


def test_no_settings_leave_out_the_labels_by_which_quotas_select(monkeypatch, tmp_path):
    monkeypatch.setenv("BURSAR_LABELS__KEEP", '["x"]')
    monkeypatch.setenv("BURSAR_LABELS__KEEP_PREFIXES", '["example.com/"]')

    assert {*SELECTABLE, "example.com/"} <= {
        *load({"data": tmp_path}).labels.policy().label_prefixes
    }


def test_namespaces_can_be_required_by_a_setting(monkeypatch, tmp_path):
    monkeypatch.setenv("BURSAR_ADMISSION__REQUIRE_NAMESPACES", "true")

    assert load({"data": tmp_path}).admission.require_namespaces
