"""ADAPTER: a history in NATS JetStream, the only part of Bursar with NATS code.

Stands between every writer and every reader of events. :class:`JetStream` fulfils :class:`bus.transport.Transport`;
:func:`require_safe` turns the lines of its start-up guard into a refusal. Each file has one subject: `connection`
the socket and nats-py, `wire` the bytes of one message, `publisher` windows and acknowledgements, `reader` the
ordered read, `guard` the properties of a safe bus, `adapter` one transport made of these.

Source: NATS ADR-50 (atomic batches), ADR-17 and ADR-37 (ordered and pull consumers), ADR-31 (direct get);
docs/reliability.md has a measurement of every server property used here.
"""

import bus.jetstream.websockets  # noqa: F401  # Before whatever imports nats-py.
from bus.jetstream.adapter import JetStream
from bus.jetstream.connection import Credentials
from bus.jetstream.guard import GuardLine, Safety, guard_lines, require_safe
from bus.jetstream.tls import Tls

__all__ = ["Credentials", "GuardLine", "JetStream", "Safety", "Tls", "guard_lines", "require_safe"]
