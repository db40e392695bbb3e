"""Evidence of activity, by kind of server: the request to send, and the meaning of the answer.

One file per kind, each with a :class:`~bus.notebooks.contract.EvidenceKind` at its end and a line in ``PROBES`` of the
catalogue; a new kind is one file and one line. Readers are pure and total: every answer of a tenant's server
becomes evidence, at worst as unreadable. Unknown activity is recorded as unknown, since it must never pass for
idleness.

Source: docs/culling.md; docs/wrong-input.md.
"""
