"""pytest fixtures: the control plane of a test run, and private ones for tests that hurt theirs.

Load with `pytest_plugins = ["tests.cluster.fixtures"]` in the top-level conftest, and mark tests
that use them `kube`.
"""

import contextlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import build
from tests.cluster.api import ApiError
from tests.cluster.plane import ControlPlane


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The control plane of the whole run: all parts, and four nodes with 8 GPUs each.

    Tests share it, so they keep to their `namespace` and never kill, pause or compact it.
    """
    with _running(tmp_path_factory.mktemp("plane")) as shared:
        shared.create_nodes(4)
        yield shared


@pytest.fixture
def namespace(plane: ControlPlane) -> Iterator[str]:
    """A new namespace of the shared control plane, deleted with all in it afterwards."""
    name = f"test-{secrets.token_hex(4)}"
    plane.api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    with contextlib.suppress(ApiError):
        plane.api.request("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def start_plane(tmp_path: Path) -> Iterator[Callable[..., ControlPlane]]:
    """Starts private control planes with the options of ControlPlane; all end with the test.

    Unlike ControlPlane itself it starts only etcd and the API server unless told otherwise, and
    lets etcd write to disk as in production: these are the ones that tests kill.
    """
    with _starting(tmp_path) as start:
        yield start


@pytest.fixture(scope="module")
def start_module_plane(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[..., ControlPlane]]:
    """As `start_plane`, for the tests of one file together: etcd need not write to disk."""
    with _starting(tmp_path_factory.mktemp("planes"), unsafe_no_fsync=True) as start:
        yield start


@pytest.fixture
def own_plane(start_plane: Callable[..., ControlPlane]) -> ControlPlane:
    """A private etcd and API server, to be killed, paused and compacted at will."""
    return start_plane()


@contextlib.contextmanager
def _starting(folder: Path, **usual: Any) -> Iterator[Callable[..., ControlPlane]]:
    bare = {"controllers": False, "scheduler": False, "simulator": False, "unsafe_no_fsync": False}
    with contextlib.ExitStack() as planes:

        def start(**options: Any) -> ControlPlane:
            place = folder / f"plane-{secrets.token_hex(2)}"
            return planes.enter_context(_running(place, **{**bare, **usual, **options}))

        yield start


@contextlib.contextmanager
def _running(folder: Path, **options: Any) -> Iterator[ControlPlane]:
    if reason := build.missing():
        # Left out in silence where it matters most, these tests would be worth nothing.
        if os.environ.get("CI"):
            pytest.fail(f"no control plane: {reason}", pytrace=False)
        pytest.skip(f"no control plane: {reason}")
    with ControlPlane(folder, **options) as running:
        yield running
    # The logs stay with pytest's last runs; etcd's files would be 64 MB and more each time.
    shutil.rmtree(folder / "etcd", ignore_errors=True)
