"""Container images in facts: images of a waiting pod, and images on a node. Pure.

Only whether two names are equal decides anything, so a fact has 48 bits of a digest in the place of each name: a node of 50
images has 2 KiB of them, and no name of an image leaves the cluster.

Source: Kubernetes API reference, core/v1 ContainerImage; kube-scheduler's ImageLocality.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b

import msgspec

#: Most bytes of a node's images in its fact; 50 images, the kubelet's list, with two names each need half of it.
LARGEST_IMAGES = 4 * 1024
#: Largest published size, in bytes.
LARGEST_SIZE = 2**50


class ContainerImage(msgspec.Struct, rename="camel"):
    """An entry of a node's ``status.images``."""

    names: list[str] | None = None
    size_bytes: int = 0


@lru_cache(maxsize=8_192)
def image_key(name: str) -> str:
    """Eight characters for the name of an image, with its default tag if the name has none."""
    if name.rfind(":") <= name.rfind("/"):
        name = f"{name}:latest"
    return urlsafe_b64encode(blake2b(name.encode(), digest_size=6).digest()).decode()


def images_of(images: Iterable[ContainerImage]) -> str:
    """A node's images as ``KEY=BYTES`` for each name, spaces between, the largest first; of too many the smallest are left out."""
    sizes: dict[str, int] = {}
    for one in images:
        for name in one.names or ():
            if "<none>" not in name:
                key, size = image_key(name), min(max(0, one.size_bytes), LARGEST_SIZE)
                sizes[key] = max(size, sizes.get(key, 0))
    found: list[str] = []
    room = LARGEST_IMAGES
    for key, size in sorted(sizes.items(), key=lambda one: (-one[1], one[0])):
        text = f"{key}={size}"
        room -= len(text) + 1
        if room < 0:
            break
        found.append(text)
    return " ".join(found)
