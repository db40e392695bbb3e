"""Rooms and floors: nothing in a package imports in a circle. :mod:`tests.architecture.rooms` says what is counted."""

import pytest

from tests.architecture.product import PACKAGES, ROOT
from tests.architecture.rooms import Package, floors

#: Package → (most rooms, most floors). Of `deploy` it is the goal; of the others what is measured, with rooms for what is added.
MOST = {
    "bus": (32, 8),
    "projections": (70, 11),
    "reactors": (120, 15),
    "migrations": (1, 1),
    "deploy": (32, 9),
}
#: Most children of a folder, and most floors, imports of types included.
CHILDREN, FLOORS = 25, 10
#: Folders that hold more → (most children, most floors). A row only shrinks, and goes when the folder meets the bound.
WIDER = {
    "bus": (28, 6),
    "bus.sources": (36, 8),
    "deploy.runtime": (27, 7),
    "projections": (27, 7),
    "projections.engine": (31, 10),
}
#: One file for each migration, and each stays.
VERSIONS = "migrations.versions"


@pytest.fixture(scope="module")
def packages():
    return {name: Package(ROOT, name) for name in PACKAGES}


@pytest.mark.parametrize("name", PACKAGES)
def test_no_two_files_or_folders_beside_each_other_import_each_other(packages, name):
    assert {} == packages[name].circles


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_has_few_rooms_on_few_floors(packages, name):
    package = packages[name]
    rooms, floors = len(package.rooms), max(package.floors.values())
    print(f"{name}: {rooms} rooms on {floors} floors")

    assert (rooms <= MOST[name][0], floors <= MOST[name][1]) == (True, True), (rooms, floors)


@pytest.fixture(scope="module")
def folders(packages):
    """Folder → (children, floors)."""
    found = {
        ".".join(folder): (len(children), max(floors(children).values()))
        for package in packages.values()
        for folder, children in package.folders.items()
    }
    del found[VERSIONS]
    return found


def is_wider(size):
    return size[0] > CHILDREN or size[1] > FLOORS


def test_a_folder_has_at_most_25_children_on_10_floors(folders):
    most = {folder: WIDER.get(folder, (CHILDREN, FLOORS)) for folder in folders}

    assert {} == {
        folder: (size, most[folder])
        for folder, size in folders.items()
        if size[0] > most[folder][0] or size[1] > most[folder][1]
    }


def test_a_folder_that_meets_the_bound_has_no_row(folders):
    assert set() == {
        folder for folder in WIDER if not (folder in folders and is_wider(folders[folder]))
    }


def make(folder, **files):
    for name, text in files.items():
        path = folder.joinpath("p", *name.split("__")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        for above in (path.parent, *path.parent.parents):
            if above == folder:
                break
            (above / "__init__.py").touch()
        path.write_text(text)
    return Package(folder, "p")


def test_rooms_are_folders_of_modules_and_modules_beside_folders(tmp_path):
    package = make(
        tmp_path,
        top="from p.low import thin\nfrom p.mid import one",
        low__thin="", low__thick="from p.low import thin",
        mid__one="import p.mid.deep.two", mid__deep__two="from p.low.thick import x", mid__deep__three="",
    )  # fmt: skip

    floors = {".".join(room): floor for room, floor in package.floors.items()}
    assert {"p.low": 1, "p.mid.deep": 2, "p.mid.one": 3, "p.top": 4} == floors
    assert {} == package.circles


def test_a_circle_is_found_where_one_of_its_imports_is_inside_a_function(tmp_path):
    package = make(
        tmp_path,
        a__one="from p.b.two import x",
        b__two="def f():\n    from p.c import three",
        c__three="from p.a import one",
    )

    assert {
        "p": ["p.a.one:1 -> p.b.two", "p.b.two:2 -> p.c.three", "p.c.three:1 -> p.a.one"]
    } == package.circles
    with pytest.raises(ValueError, match="circle"):
        _ = package.floors


def test_a_circle_of_files_in_one_room_and_one_of_folders_whose_files_have_none_are_found(tmp_path):
    package = make(
        tmp_path,
        a__one="from p.a.two import x", a__two="from p.a.one import x", a__three="from p.b.low import x",
        b__low="", b__high="from p.a import one",
    )  # fmt: skip

    assert {"p.a", "p"} == package.circles.keys()


def test_a_name_of_a_type_alone_ties_nothing(tmp_path):
    package = make(
        tmp_path,
        one="from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p import two",
        two="from p import one",
    )

    assert {} == package.circles


def test_the_children_of_a_folder_are_tied_by_names_of_types_too(tmp_path):
    package = make(
        tmp_path,
        one="from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.low.thin import x",
        two="from p import one", low__thin="", low__thick="from p.low import thin",
    )  # fmt: skip

    assert {"one": {"low"}, "two": {"one"}, "low": set()} == package.folders["p",]
    assert {"thin": set(), "thick": {"thin"}} == package.folders["p", "low"]
    assert {"low": 1, "one": 2, "two": 3} == floors(package.folders["p",])


def test_a_circle_of_types_has_no_floors(tmp_path):
    package = make(
        tmp_path,
        one="from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p import two",
        two="from p import one",
    )

    with pytest.raises(ValueError, match="circle"):
        floors(package.folders["p",])
