"""The image of `deploy/image/Containerfile`, built once for the tests that run pods of it."""

import pytest

from tests.acceptance.containers import Image


@pytest.fixture(scope="session")
def built_image(tmp_path_factory):
    folder = tmp_path_factory.mktemp("image")
    (folder / "root").mkdir()
    return Image(folder).build()
