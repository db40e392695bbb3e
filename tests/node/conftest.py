"""The node of a test run: skipped, with its reason, where a machine cannot run one."""

from collections.abc import Iterator

import pytest

from tests.cluster import build as cluster
from tests.cluster.plane import ControlPlane
from tests.node import build
from tests.node.node import Node


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A real node beside a control plane without simulated ones; its `plane` is that control plane."""
    if reason := build.refused():
        pytest.skip(f"no node: {reason}")
    if reason := cluster.missing() or build.missing():
        pytest.skip(f"no node: {reason}")
    folder = tmp_path_factory.mktemp("node")
    with ControlPlane(folder / "plane", simulator=False) as plane:
        started = Node(plane, folder / "n")
        try:
            started.start()
            yield started
        finally:
            started.stop()
    assert [] == started.left_behind()
