"""The owner of an object: the object charged for it, by group, kind and uid, and only after an observation. Pure.

Any user with write access to an object can write a reference to a controller, so it proves nothing by itself. It counts if a
controller's account wrote it, or if the owner's controller may run under any account, and its kind
makes such objects. Otherwise the object is charged in its own right.

Source: ``docs/admission.md`` ("Objects below an owner").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

import msgspec

from bus.events.pods import Owner
from bus.kube.kinds import GOVERNED

if TYPE_CHECKING:
    # Questions about decisions need owners, but no reviews.
    from reactors.webhook.review import Review

#: Kubernetes' own controllers, where they have one account for all.
CONTROLLER_MANAGER = "system:kube-controller-manager"
#: Its garbage collector, where each controller has an account of its own.
COLLECTOR = ":generic-garbage-collector"
NODES = "system:nodes"
NODE = "Node"

#: Kinds that cover their controlled objects.
COVERING = frozenset(kind.kind for kind in GOVERNED if kind.covers)


class Controllers(msgspec.Struct, frozen=True):
    """The accounts of controllers: the objects that they make below an owner are the owner's."""

    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset({"system:serviceaccounts:kube-system"})

    def wrote(self, review: Review) -> bool:
        """Whether a controller asks."""
        is_named = review.user == CONTROLLER_MANAGER or review.user in self.users
        return is_named or not self.groups.isdisjoint(review.groups)


def collects(review: Review) -> bool:
    """Whether the request may be the garbage collector's: other controllers release replaced objects at once."""
    return review.user == CONTROLLER_MANAGER or review.user.endswith(COLLECTOR)


def wrote_node(review: Review) -> bool:
    """Whether a node agent asks: it writes mirror pods, for pods that its node runs anyway."""
    return review.user.startswith("system:node:") and NODES in review.groups


def controller_of(metadata: Mapping[str, Any]) -> tuple[str, str]:
    """Kind and uid of the controller in an object's metadata, of any group; ("", "") for none. Never raises."""
    references = metadata.get("ownerReferences")
    for one in references if isinstance(references, list) else ():
        if isinstance(one, dict) and one.get("controller") is True:
            return str(one.get("kind", "")), str(one.get("uid", ""))
    return "", ""


def is_covering(owner: Owner | None) -> TypeGuard[Owner]:
    """Whether an object with this controller may be covered by it."""
    return owner is not None and owner.kind in COVERING
