"""What is missing is named, and nothing is built twice or half."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster import build

ROOT = Path(__file__).parents[2]


@pytest.fixture
def nothing_built(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)


@pytest.fixture
def no_go(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))


def test_the_cache_folder_lies_under_the_users_cache(nothing_built, tmp_path):
    assert tmp_path / "bursar" / "cluster" == build.cache_folder().parent


def test_without_go_the_reason_names_it(nothing_built, no_go):
    reason = build.missing()

    assert (True, True) == ("etcd, kube-apiserver" in reason, "no Go on PATH" in reason)


def test_with_go_the_reason_names_the_command(nothing_built, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")

    assert "`python -m tests.cluster.build`" in build.missing()


def test_building_without_go_fails_in_words(nothing_built, no_go):
    done = subprocess.run(
        [sys.executable, "-m", "tests.cluster.build"], cwd=ROOT, text=True, capture_output=True
    )

    assert (1, "", True) == (
        done.returncode,
        done.stdout,
        done.stderr.startswith("control plane: no etcd") and "Traceback" not in done.stderr,
    )


def test_the_users_own_binaries_go_first(nothing_built, monkeypatch, tmp_path):
    assets = tmp_path / "assets"
    assets.mkdir()
    (assets / "etcd").touch()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))

    assert [assets / "etcd", build.cache_folder() / "kubectl"] == [
        build.binary("etcd"),
        build.binary("kubectl"),
    ]


def test_every_staging_module_has_the_release_of_kubernetes():
    minor = build.kubernetes_version().removeprefix("v1.")
    text = (build.HERE / "kubernetes" / "go.mod").read_text()
    replaced = [line.split() for line in text.splitlines() if " => " in line]

    assert {(name, f"v0.{minor}") for name, *_ in replaced} == {
        (name, version) for _, _, name, version in replaced
    }
