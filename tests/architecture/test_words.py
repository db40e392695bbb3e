"""Docstrings and comments are plain sentences: relative words stay rare. Source: CONTRIBUTING.md."""

import ast
import io
import re
import tokenize

import pytest

from tests.architecture.product import files, nodes

#: Relative words per 100 words of docstrings and comments, as measured and rounded up. A bound only falls.
MOST = {"bus": 0.6, "projections": 0.3, "reactors": 0.8, "deploy": 1.0}

RELATIVE = re.compile(r"\b(what|who|that|which|whom|whose)\b", re.IGNORECASE)
WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def texts(path):
    """The docstrings and comments of a file."""
    for node in nodes(path):
        if isinstance(node, DOCUMENTED):
            yield ast.get_docstring(node) or ""
    for token in tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def share(found):
    """Relative words per 100 words of these texts."""
    words = [len(WORD.findall(text)) for text in found]
    return 100 * sum(len(RELATIVE.findall(text)) for text in found) / sum(words)


def test_the_share_counts_relative_words_of_any_case():
    assert 37.5 == share(["What counts", "pods that wait, somewhat", "Whose pods"])


@pytest.mark.parametrize("package", MOST)
def test_docstrings_and_comments_use_few_relative_words(package):
    found = [text for path in files(package) for text in texts(path)]

    assert MOST[package] >= share(found)
