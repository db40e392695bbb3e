"""The signature of a segment's head, by the key of the ledger's heads. Source: ``docs/history.md`` (segments); RFC 8032."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from projections.engine.heads import Signer, is_signed
from projections.engine.segments.form import SegmentHead


def sign_segment_head(head: SegmentHead, signer: Signer) -> SegmentHead:
    """The head, signed."""
    named = msgspec.structs.replace(head, public_key=signer.public_key)
    return msgspec.structs.replace(named, signature=signer.signature(named.signed_content))


def verify_segment_head(head: SegmentHead, keys: Collection[bytes] = ()) -> bool:
    """Whether the head is signed by one of ``keys``, or by the key it names itself where none is given."""
    if keys and head.public_key not in keys:
        return False
    return is_signed(head.public_key, head.signature, head.signed_content)
