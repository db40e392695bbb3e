"""Evidence of activity, by kind of server: the request to send, and the meaning of the answer.

One file per kind, each with a :class:`~bus.notebooks.contract.Kind` at its end that stands in ``PROBES`` of the
catalogue; a new kind is one file and one line. Readers are pure and total: whatever a tenant's server answers becomes
evidence, at worst that it could not be read. What is not known is recorded as such, since it must never pass for idleness.

Source: docs/culling.md; docs/wrong-input.md.
"""
