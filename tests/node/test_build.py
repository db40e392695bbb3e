"""A machine that cannot run a node is told why, and an image holds what it was given."""

import json
import os
import shutil
import tarfile

from tests.node import build
from tests.node.images import write_image


def test_without_root_the_reason_says_so(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert "a kubelet needs root on Linux" == build.refused()


def test_without_hierarchies_of_cgroups_the_reason_names_their_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(build, "CGROUPS", tmp_path)

    assert f"no cgroup v1 hierarchies in {tmp_path}" in build.refused()


def test_without_go_the_reason_names_it(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda name: None)

    assert (True, True) == (
        "no kubelet, containerd" in build.missing(),
        "no go on PATH" in build.missing(),
    )


def test_the_binaries_lie_beside_the_control_plane(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    assert tmp_path / "bursar" / "cluster" == build.folder().parent


def test_an_image_starts_its_first_file(tmp_path):
    program = tmp_path / "program"
    program.write_text("text")
    write_image(tmp_path / "image.tar", "localhost/program:1", program)
    with tarfile.open(tmp_path / "image.tar") as tar:

        def read(name):
            return json.load(tar.extractfile(name))

        [top] = read("index.json")["manifests"]
        manifest = read(f"blobs/sha256/{top['digest'].partition(':')[2]}")
        config = read(f"blobs/sha256/{manifest['config']['digest'].partition(':')[2]}")

    assert {"io.containerd.image.name": "localhost/program:1"} == top["annotations"]
    assert ["/program"] == config["config"]["Cmd"]
