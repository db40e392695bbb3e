"""ADAPTER: a history kept by NATS JetStream, the only place of Bursar that knows NATS.

Stands between every writer and every reader of events. :class:`JetStream` fulfils
:class:`bus.transport.Transport`; :func:`require_safe` turns the lines of its start-up guard into a
refusal. Each file knows one thing: `connection` the socket and nats-py, `wire` the bytes of one
message, `publisher` windows and acknowledgements, `reader` the ordered read, `guard` what a safe
bus looks like, `adapter` how they make one transport.

Source: NATS ADR-50 (atomic batches), ADR-17 and ADR-37 (ordered and pull consumers), ADR-31 (direct
get); every property of the server that is relied on was measured in docs/reliability.md.
"""

import bus.jetstream.websockets  # noqa: F401  # Before whatever imports nats-py.
from bus.jetstream.adapter import JetStream
from bus.jetstream.connection import Credentials
from bus.jetstream.guard import GuardLine, State, guard_lines, require_safe
from bus.jetstream.tls import Tls

__all__ = ["Credentials", "GuardLine", "JetStream", "State", "Tls", "guard_lines", "require_safe"]
