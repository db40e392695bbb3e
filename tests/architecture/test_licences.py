"""Licences: what is installed with Bursar under terms that ask to be named is named in NOTICE."""

import re
import runpy
from importlib import metadata
from pathlib import Path

from packaging.markers import default_environment
from packaging.requirements import Requirement

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
    assert all("sha256:" in told[name]["comment"] for name in told if name != "bursar")
