"""Sizes of pods' images on each node. They are read from the nodes' texts at the first use of an image."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

#: Most images with kept sizes.
KEPT = 256


class ImageSizes:
    """Columns of bytes by image; -1 = missing on the node."""

    def __init__(self) -> None:
        self._sizes: OrderedDict[str, npt.NDArray[np.int64]] = OrderedDict()

    def of(self, image: str, texts: Iterable[str]) -> npt.NDArray[np.int64]:
        """The sizes of an image; ``texts``: the reports of all nodes, in the order of rows."""
        found = self._sizes.get(image)
        if found is None:
            found = np.array([size_in(text, image) for text in texts], np.int64)
            self._sizes[image] = found
            if len(self._sizes) > KEPT:
                self._sizes.popitem(last=False)
        else:
            self._sizes.move_to_end(image)
        return found

    def describe(self, row: int, text: str) -> None:
        """Read a node's new report."""
        for image, sizes in self._sizes.items():
            sizes[row] = size_in(text, image)

    def forget(self) -> None:
        """Forget all sizes after a change of the rows."""
        self._sizes.clear()


def size_in(text: str, image: str) -> int:
    """The size of an image in a node's text; -1 = none."""
    at = text.find(f"{image}=")
    if at < 0:
        return -1
    return int(text[at + len(image) + 1 :].split(" ", 1)[0])
