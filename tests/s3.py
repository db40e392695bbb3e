"""An S3-compatible store for tests: the versity gateway over a folder of this machine, with one key, on a free port."""

import contextlib
import os
import socket
import subprocess

from minio import Minio
from minio.commonconfig import COMPLIANCE
from minio.objectlockconfig import DAYS, ObjectLockConfig

from tests.cluster import build
from tests.cluster.api import eventually

ACCESS, SECRET, REGION, BUCKET = "bursar", "a-secret-of-tests", "eu-west-1", "backups"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def store(folder, certificate=None, *, versions=False):
    """The address of a store with an empty bucket; its objects are files below ``folder``. ``certificate``: file and key.
    ``versions``: it keeps those of buckets that want it.
    """
    root = folder / "objects"
    (root / BUCKET).mkdir(parents=True)
    sidecar = folder / "sidecar"
    sidecar.mkdir()
    port = free_port()
    kept = []
    if versions:
        (folder / "versions").mkdir()
        kept = [f"--versioning-dir={folder / 'versions'}"]
    files = [f"--cert={certificate[0]}", f"--key={certificate[1]}"] if certificate else []
    clean = {name: text for name, text in os.environ.items() if not name.startswith("VGW_")}
    process = subprocess.Popen(
        [build.gateway(), f"--port=127.0.0.1:{port}", f"--access={ACCESS}", f"--secret={SECRET}",
         f"--region={REGION}", "--quiet", *files, "posix", f"--sidecar={sidecar}", *kept, root],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=clean,
    )  # fmt: skip
    try:
        eventually(lambda: _answers(process, port), seconds=20, every=0.05)
        yield f"{'https' if certificate else 'http'}://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _answers(process, port):
    assert process.poll() is None, "the store ended"
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def variables(url, **more):
    """What the AWS tools are told of it."""
    return {
        "AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": REGION, **more,
    }  # fmt: skip


def client(url):
    """A client of the store at an address without TLS."""
    return Minio(
        url.partition("://")[2], access_key=ACCESS, secret_key=SECRET, region=REGION, secure=False
    )


def emptied(url, monkeypatch):
    """A client of the bucket, which is empty, and of which the program is told."""
    for name, text in variables(url).items():
        monkeypatch.setenv(name, text)
    found = client(url)
    for one in found.list_objects(BUCKET, recursive=True):
        found.remove_object(BUCKET, one.object_name)
    return found


def locked(url, bucket):
    """A client of a new bucket of which nothing is deleted, nor written over, for a day."""
    found = client(url)
    found.make_bucket(bucket, object_lock=True)
    found.set_object_lock_config(bucket, ObjectLockConfig(COMPLIANCE, 1, DAYS))
    return found
