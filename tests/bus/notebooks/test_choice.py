"""Which pods are notebooks, how they are reached, and what is asked of them."""

import json
import re
from pathlib import Path

import pytest

from bus.clock import parse_stamp
from bus.kube.watch.labels import LabelPolicy, kept_labels
from bus.notebooks.catalogue import PROBES
from bus.notebooks.choice import (
    BASE_PATH,
    HUB_COMPONENTS,
    HUB_SERVER,
    HUB_USER,
    PORT,
    PROBE,
    is_notebook,
    kinds_of,
    peer_of,
)
from bus.notebooks.contract import NOTEBOOK_NAME
from tests.bus.notebooks.notebooks import peer


def pod(*, labels=None, annotations=None, containers=None, phase="Running", **status):
    """A pod of the notebook controller's."""
    return json.dumps({
        "metadata": {
            "uid": "u", "namespace": "team-a", "name": "nb-0", "annotations": annotations or {},
            "labels": {"notebook-name": "nb"} if labels is None else labels,
        },
        "spec": {"containers": containers or [{"name": "nb", "image": "x/jupyter:1"}]},
        "status": {"phase": phase, "podIP": "10.0.0.7", "startTime": "2024-08-14T06:00:00Z"} | status,
    }).encode()  # fmt: skip


def test_a_notebook_of_kubeflow_is_found_with_its_path_and_port():
    found = peer_of(pod())

    assert ("10.0.0.7", 8888, "/notebook/team-a/nb/", parse_stamp("2024-08-14T06:00:00Z")) == (
        found.address,
        found.port,
        found.base_path,
        found.started_us,
    )


@pytest.mark.parametrize(
    "other",
    [pod(labels={}), pod(phase="Pending"), pod(podIP=""), pod(podIP=None)],
    ids=["no notebook", "not running", "no address", "null address"],
)
def test_what_cannot_be_asked_is_no_peer(other):
    assert peer_of(other) is None


def test_an_annotation_makes_any_pod_a_notebook():
    found = peer_of(pod(labels={}, annotations={"bursar.io/probe": "code-server"}))

    assert "/" == found.base_path


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        ("/lab", "/lab/"), ("a/b/", "/a/b/"), ("/", "/"),
        ("/a b", "/notebook/team-a/nb/"), ("/a?x", "/notebook/team-a/nb/"), ("/a%2f", "/notebook/team-a/nb/"),
        ("/a\r\nX: y", "/notebook/team-a/nb/"), ("/" + "a/" * 99, "/notebook/team-a/nb/"),
    ],
)  # fmt: skip
def test_a_base_path_is_followed_if_it_is_a_plain_path(asked, path):
    assert path == peer_of(pod(annotations={"bursar.io/probe-base-path": asked})).base_path


@pytest.mark.parametrize(("asked", "port"), [("9999", 9999), ("0", 8787), ("x", 8787), ("", 8787)])
def test_the_port_is_the_annotations_else_the_containers(asked, port):
    server = {"name": "nb", "ports": [{"containerPort": 8787}]}

    found = peer_of(pod(annotations={"bursar.io/probe-port": asked}, containers=[server]))

    assert port == found.port


def test_a_sidecar_has_counters():
    both = [{"name": "nb"}, {"name": "istio-proxy"}]

    assert (0, 15_090) == (
        peer_of(pod()).counters_port,
        peer_of(pod(containers=both)).counters_port,
    )


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"image": "r.example/jupyter/code-server:4"}, "code-server"),
        ({"image": "kubeflownotebookswg/jupyter-scipy:v1.8"}, "jupyter"),
        ({"image": "rocker/rstudio"}, "rstudio"),
        ({"image": "my/own:1"}, "jupyter"),
        ({"image": "x/jupyter", "labels": {"bursar.io/probe": "rstudio"}}, "rstudio"),
        ({"image": "x/jupyter", "annotations": {"bursar.io/probe": "code-server"}}, "code-server"),
        ({"image": "x/jupyter", "annotations": {"bursar.io/probe": "nonsense"}}, "jupyter"),
    ],
)
def test_a_kind_is_chosen_by_annotation_label_or_image(fields, kind):
    assert kind == kinds_of(peer(**fields))[0].name


def test_several_kinds_may_be_asked_for():
    both = peer(annotations={"bursar.io/probe": "code-server, jupyter"})

    assert ["jupyter", "code-server", "traffic", "gpu", "pod-cpu"] == [
        k.name for k in kinds_of(both)
    ]


HUB = {"hub.jupyter.org/username": "ada@example.org", "hub.jupyter.org/servername": ""}


@pytest.mark.parametrize("key", ["component", "app.kubernetes.io/component"])
def test_a_single_user_server_of_jupyterhub_is_a_notebook_by_default(key):
    labels, _ = kept_labels({key: "singleuser-server", "x": "y"}, LabelPolicy())
    found = peer_of(pod(labels=labels, annotations=HUB))

    assert is_notebook(labels, {})
    assert found.base_path == "/user/ada@example.org/"
    assert "jupyter" in {kind.name for kind in kinds_of(found)}


@pytest.mark.parametrize(
    ("user", "server", "path"),
    [
        ("ada", "gpu", "/user/ada/gpu/"),
        ("a b/ü", "", "/user/a%20b%2F%C3%BC/"),
        ("", "", "/"),
        ("..", "", "/"),
        ("ada", "..", "/"),
        ("x" * 600, "", "/"),
    ],
)
def test_the_address_of_a_hub_server_is_escaped_as_jupyterhub_does(user, server, path):
    annotations = {"hub.jupyter.org/username": user, "hub.jupyter.org/servername": server}
    labels = {"component": "singleuser-server"}

    assert peer_of(pod(labels=labels, annotations=annotations)).base_path == path


def test_every_key_that_the_page_names_is_read():
    page = (Path(__file__).parents[3] / "docs" / "culling.md").read_text()

    for key in (NOTEBOOK_NAME, PROBE, PORT, BASE_PATH, HUB_USER, *HUB_COMPONENTS, HUB_SERVER):
        assert key in page
    assert {kind.name for kind in PROBES if not kind.everywhere} <= set(
        re.findall(r"[a-z-]+", page)
    )
