"""What a page or a docstring names is there: paths of this repository, and the pages that are given as sources."""

import re

import pytest

from tests.architecture.product import PACKAGES, ROOT, files

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
_PATH = re.compile(
    r"`((?:bus|projections|reactors|migrations|deploy|tests|docs)/[A-Za-z0-9_./-]+)`"
)
_LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
_SOURCE = re.compile(r"\b((?:docs/|[A-Za-z./-]*/)?[A-Za-z-]+\.md)\b")
#: A number of a list that is not in this repository.
_NUMBERED = re.compile(r"Source: (?:item|issue) \d+")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_and_link_of_a_page_is_there(page):
    text = page.read_text()
    named = {ROOT / path for path in _PATH.findall(text)}
    linked = {page.parent / path for path in _LINK.findall(text)}

    assert [] == sorted(str(path) for path in named | linked if not path.exists())


def test_no_docstring_cites_a_page_that_is_not_here():
    cited = {
        (str(path.relative_to(ROOT)), name)
        for path in files(*PACKAGES)
        for name in _SOURCE.findall(path.read_text())
    }

    assert [] == sorted((path, name) for path, name in cited if not (ROOT / name).exists())


def test_no_docstring_cites_a_number_of_a_list_that_is_not_here():
    cited = [
        str(path.relative_to(ROOT))
        for path in files(*PACKAGES)
        if _NUMBERED.search(path.read_text())
    ]

    assert [] == cited
