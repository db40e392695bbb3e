"""Images for the node without a registry: an OCI archive of a few files, as `ctr images import` reads it."""

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
CONFIG = "application/vnd.oci.image.config.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def write_image(archive: Path, name: str, *files: Path) -> None:
    """Writes an image whose root has these files, and whose command is the first of them."""
    root = io.BytesIO()
    with tarfile.open(fileobj=root, mode="w") as tar:
        for file in files:
            tar.add(file, file.name)
    layer = root.getvalue()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        "config": {"Cmd": [f"/{files[0].name}"], "Env": ["PATH=/usr/bin:/bin"]},
    }
    with tarfile.open(archive, "w") as tar:
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": _blob(tar, CONFIG, json.dumps(config).encode()),
            "layers": [_blob(tar, LAYER, gzip.compress(layer, 1, mtime=0))],
        }
        top = _blob(tar, MANIFEST, json.dumps(manifest).encode())
        top["annotations"] = {"io.containerd.image.name": name}
        _add(tar, "index.json", json.dumps({"schemaVersion": 2, "manifests": [top]}).encode())
        _add(tar, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')


def _blob(tar: tarfile.TarFile, kind: str, content: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    _add(tar, f"blobs/sha256/{digest}", content)
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)}


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))
