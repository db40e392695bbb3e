"""What `bursar install --dry-run` says of a cluster; beside a real one in tests/cluster/test_installed.py."""

import pytest

from bus.errors import NotFoundError, PermissionDeniedError
from deploy.cli.program.program import run_command
from deploy.commands.installation import Installed
from deploy.commands.preview import path, preview
from tests.deploy.installations import CASES, objects


class Server:
    """Keeps objects, adds what a server adds, and forbids a kind."""

    def __init__(self, *kept, forbidden=""):
        self.kept, self.forbidden, self.applied = {path(o): o for o in kept}, forbidden, []

    async def get(self, where):
        if where not in self.kept:
            raise NotFoundError("not found")
        return self.kept[where]

    async def apply(self, where, body, *, manager, force, dry_run):
        assert dry_run
        self.applied.append(where)
        if body["kind"] == self.forbidden:
            raise PermissionDeniedError("you may not")
        kept = self.kept.get(where, {"metadata": {}})
        metadata = {**kept["metadata"], **body["metadata"], "resourceVersion": "9", "uid": "u"}
        return {**kept, **body, "metadata": metadata, "status": {"seen": True}}


def named(kind, name="bursar", namespace="", **fields):
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "apps/v1" if kind == "Deployment" else "v1", "kind": kind, "metadata": metadata} | fields  # fmt: skip


async def said(server, *found):
    return [(o.change, o.fields) for o in await preview(server, [Installed(o, "x") for o in found])]


async def test_what_is_not_there_is_new_and_what_is_there_says_which_fields_change():
    old = named("Deployment", spec={"replicas": 1, "template": {"a": [1]}})
    new = named("Deployment", spec={"replicas": 2, "template": {"a": [1, 2]}})

    assert await said(Server(), new) == [("new", ())]
    assert await said(Server(old), new) == [("changed", ("spec.replicas", "spec.template.a"))]
    assert await said(Server(new), new) == [("same", ())]


async def test_what_lies_in_a_new_namespace_cannot_be_checked_yet():
    server = Server()
    found = await said(server, named("Namespace", "n"), named("Service", namespace="n"))

    assert [change for change, _ in found] == ["new", "new"]
    assert server.applied == ["/api/v1/namespaces/n"]


async def test_what_the_server_refuses_is_told_and_the_rest_is_asked():
    server = Server(forbidden="Service")
    found = await said(server, named("Service", namespace="n"), named("Deployment", namespace="n"))

    assert [change for change, _ in found] == ["refused", "new"]
    assert "you may not" in found[0][1][0]


@pytest.mark.parametrize("case", CASES[-1:], ids=str)
def test_every_kind_of_an_installation_has_a_place(case):
    places = {path(one) for one in objects(*case)}

    assert len(places) == len(objects(*case))
    assert "/apis/networking.k8s.io/v1/namespaces/bursar-system/networkpolicies/bursar" in places


def test_nothing_is_installed_without_kubectl(capsys):
    assert run_command(["install"]) == 2
    assert "kubectl apply -f -" in capsys.readouterr().err
