"""Claims of a real API server that are rewritten all the time, or that may not be read, and `bursar up` beside it."""

import asyncio
import json
import signal
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
import sqlalchemy as sa

from bus.sources.catalogue import RESOURCE_CLAIMS, RESOURCE_SLICES
from deploy.cli.program.exits import Exit
from projections.engine.tables import events
from tests.acceptance.bookkeeping import BUILT_IN, Bookkeeping
from tests.acceptance.up_process import Up
from tests.cluster.api import MERGE, eventually

pytestmark = [pytest.mark.kube, pytest.mark.nats, pytest.mark.slow, pytest.mark.waits]

READER = Path(__file__).parents[2] / "deploy" / "manifests" / "rbac" / "reader.yaml"
DEVICES = "/apis/resource.k8s.io/v1"
CLAIMS = f"{DEVICES}/namespaces/default/resourceclaims"
DRIVER = "gpu.nvidia.com"
FLAPS = 1_000


def device(plane):
    """A slice of one card."""
    spec = {
        "driver": DRIVER, "nodeName": "node", "devices": [{"name": "gpu-0"}],
        "pool": {"name": "node", "generation": 1, "resourceSliceCount": 1},
    }  # fmt: skip
    body = {"metadata": {"name": "slice"}, "spec": spec}
    plane.api.request("POST", f"{DEVICES}/resourceslices", body)


def allocated(plane, name):
    """A claim that was given the card."""
    ask = {"name": "gpu", "exactly": {"deviceClassName": DRIVER}}
    body = {"metadata": {"name": name}, "spec": {"devices": {"requests": [ask]}}}
    found = plane.api.request("POST", CLAIMS, body)
    result = {"request": "gpu", "driver": DRIVER, "pool": "node", "device": "gpu-0"}
    given = {"status": {"allocation": {"devices": {"results": [result]}}}}
    plane.api.request("PATCH", f"{CLAIMS}/{name}/status", given, content_type=MERGE)
    return found["metadata"]["uid"]


def holder(plane, claim):
    """The uid of a new pod that was created with a node's name, and names a claim."""
    container = {"name": "main", "image": "x", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {
        "containers": [container], "nodeName": "node",
        "resourceClaims": [{"name": "gpu", "resourceClaimName": claim}],
    }  # fmt: skip
    body = {"metadata": {"name": f"of-{claim}"}, "spec": spec}
    found = plane.api.request("POST", "/api/v1/namespaces/default/pods", body)
    return found["metadata"]["uid"]


@pytest.mark.timeout(180)
async def test_a_claim_whose_reservation_flaps_a_thousand_times_adds_no_event(own_plane, tmp_path):
    device(own_plane)
    claim = allocated(own_plane, "shared")
    pod = holder(own_plane, "shared")
    sources = (*BUILT_IN, RESOURCE_CLAIMS, RESOURCE_SLICES)
    async with Bookkeeping(tmp_path) as books:
        watcher = await books.watch(own_plane, sources=sources)
        await books.until(lambda books: held(books, pod) == [1000])
        await asyncio.to_thread(flap, own_plane, "shared", pod)
        # The watch tells in order: who sees the end of the claim has seen all before.
        own_plane.api.request("DELETE", "/api/v1/namespaces/default/pods/of-shared?gracePeriodSeconds=0")  # fmt: skip
        own_plane.api.request("DELETE", f"{CLAIMS}/shared")
        of_claim = sa.select(events.c.type).where(events.c.key == claim).order_by(events.c.sequence)
        gone = [("resourceclaim.vanished",)]
        await books.until(lambda books: books.store.select(of_claim)[-1:] == gone)
        said = [kind for (kind,) in books.store.select(of_claim)]
        state = watcher.reflectors["resourceclaims"].state

        assert said == ["resourceclaim.observed", "resourceclaim.vanished"]
        assert state.skipped >= FLAPS
        # Another watch tells the end of the pod, and may be behind: until then the pod holds nothing that its claim had.
        await books.until(lambda books: held(books, pod) == [1000])


def held(books, pod):
    """Milli-cards of each segment of a pod; none where it is not there."""
    found = books.accounts().get(pod)
    return [one.gpu_milli for one in found.holdings] if found else []


def flap(plane, claim, pod):
    """Reserve a claim for a pod and take it back, a thousand versions in all."""
    reserved = [{"resource": "pods", "name": f"of-{claim}", "uid": pod}]
    path, headers = f"{CLAIMS}/{claim}/status", plane.api._headers(MERGE)
    with closing(plane.api._connect(30)) as connection:
        for number in range(FLAPS):
            body = {"status": {"reservedFor": None if number % 2 else reserved}}
            connection.request("PATCH", path, json.dumps(body), headers)
            answer = connection.getresponse()
            said = answer.read()
            assert answer.status == 200, said


@pytest.mark.timeout(240)
def test_where_claims_may_not_be_read_status_says_so_and_what_is_held_is_flagged(
    own_plane, tmp_path
):
    own_plane.kubectl("apply", "--server-side", "-f", str(READER))
    device(own_plane)
    allocated(own_plane, "unread")
    holder(own_plane, "unread")
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/bursar-reader"
    rules = own_plane.api.request("GET", role)["rules"]
    without = [one for one in rules if one["apiGroups"] != ["resource.k8s.io"]]
    own_plane.api.request("PATCH", role, {"rules": without}, content_type=MERGE)
    up = Up(reading(own_plane, tmp_path), tmp_path)
    up.start()
    try:
        code, told = eventually(
            lambda: (found := status(up))[1].count("may be missing") == 2 and found, seconds=90
        )
        row = eventually(lambda: up.rows("default").get("of-unread"))

        for kind in ("resourceclaims", "resourceslices"):
            trouble = (
                f"permission='list {kind}.resource.k8s.io' status=403; GPUs that are given out"
            )
            assert f"{trouble} by claim may be missing (flag claim_unseen)" in told
        assert code == Exit.UNHEALTHY
        assert row.flags == ("claim_unseen",)
        own_plane.api.request("PATCH", role, {"rules": rules}, content_type=MERGE)
        row = eventually(
            lambda: not (row := up.rows("default")["of-unread"]).flags and row, seconds=90
        )
        assert [one.gpu_milli for one in row.holdings] == [1000]
        eventually(lambda: status(up)[0] == 0, seconds=90)
    finally:
        with suppress(ProcessLookupError):
            up.end(signal.SIGKILL)


def reading(plane, folder):
    """The control plane, as the account that reads sees it."""
    token = plane.kubectl("create", "token", "bursar", "--namespace=bursar-system").strip()
    kubeconfig = folder / "reader.kubeconfig"
    kubeconfig.write_text(plane.kubeconfig.read_text().replace(plane.token, token))
    return SimpleNamespace(kubeconfig=kubeconfig)


def status(up):
    """The exit code of `bursar status`, and what it says, in one line."""
    program = "from deploy.cli import main; main()"
    command = [sys.executable, "-c", program, "status", "--data", str(up.folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, " ".join(done.stdout.split())
