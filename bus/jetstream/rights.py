"""Rights on a NATS server of one's own: a user for each process of Bursar, with its needed subjects.

Readers cannot write, watchers of the cluster cannot decide, and deciding processes cannot publish observations. The
stream cannot be changed, purged or deleted with any of these rights. Pure: the text of a nats-server's
configuration.

Source: nats-server 2.15 configuration (authorization, permissions); docs/install.md (your NATS).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bus.jetstream.system_account import ALLOWED
from bus.streams import history

_STREAM = history().name
_INBOX = "_INBOX_bursar.>"
#: The requests of a reader. Each reader has a consumer, and JetStream lets none deliver into the stream.
_READING = (
    f"$JS.API.STREAM.INFO.{_STREAM}",
    f"$JS.API.STREAM.MSG.GET.{_STREAM}",
    f"$JS.API.DIRECT.GET.{_STREAM}",
    f"$JS.API.DIRECT.GET.{_STREAM}.>",
    f"$JS.API.CONSUMER.CREATE.{_STREAM}.>",
    f"$JS.API.CONSUMER.DELETE.{_STREAM}.>",
    f"$JS.API.CONSUMER.MSG.NEXT.{_STREAM}.>",
)
#: Where there is no stream yet.
_MAKING = (f"$JS.API.STREAM.CREATE.{_STREAM}",)
#: Messages between processes, outside of the history.
_WORDS = (f"_INBOX_bursar.{_STREAM}.*",)
_OBSERVED = ("*.observed", "*.vanished", "*.listed", "source.heard", "observation.refused")
_DECIDED = (
    "admission.*", "decision.*", "effect.settled", "notice.settled", "scheduling.passed", "bind.settled", "budget.judged",
    "notebook.sampled", "policy.changed", "clock.ticked", "pause.changed",
)  # fmt: skip
_ORDERED = ("pause.changed", "budget.credited", "queue.ordered", "restore.asked")


class Role(msgspec.Struct, frozen=True):
    """A user of the server: its purpose, the types of events it may write (with NATS' wildcards), and its other requests."""

    purpose: str
    types: tuple[str, ...] = ()
    asks: tuple[str, ...] = _READING + _MAKING

    @property
    def publishes(self) -> tuple[str, ...]:
        """Every subject it may publish to."""
        return (*(f"bursar.*.{type}.*" for type in self.types), *self.asks)


#: By the name of the user.
ROLES: Mapping[str, Role] = {
    "watch": Role("bursar watch: what is observed of the cluster", _OBSERVED),
    "ledger": Role("bursar ledger: it reads", ()),
    "act": Role("bursar act: it decides, and says what came of it", _DECIDED, _READING + _MAKING + _WORDS),
    "webhook": Role("bursar webhook: it decides about reviews", ("admission.*",)),
    "up": Role("bursar up: all of these in one process, and orders", _OBSERVED + _DECIDED + _ORDERED, _READING + _MAKING + _WORDS),
    "orders": Role("people's orders: bursar pause, resume, budget credit, queue and restore", _ORDERED, _READING),
    "ask": Role("questions: it reads", (), _READING),
}  # fmt: skip


def configuration() -> str:
    """A nats-server for Bursar: TLS with certificates of both sides, every event on disk before it counts, and the users."""
    users = "\n".join(f"  # {role.purpose}\n{_user(name, role)}" for name, role in ROLES.items())
    return f"""\
# nats-server -c FILE, with the passwords in its environment: BURSAR_WATCH_PASSWORD and so on.
# Three nodes: a `cluster` block too, with TLS, `verify: true` and a log-in of its own: whoever joins may do everything.
listen: "0.0.0.0:4222"
max_payload: 1048576
jetstream {{ store_dir: "/data", sync_interval: always }}
tls {{
  cert_file: "/etc/nats/tls/tls.crt"
  key_file: "/etc/nats/tls/tls.key"
  ca_file: "/etc/nats/tls/ca.crt"
  # Clients show a certificate of that authority, too.
  verify: true
}}
authorization {{ users: [
{users}
] }}
# Says what else only the monitoring port would, which asks for no log-in.
accounts {{ $SYS {{ users: [
  {{ user: status, password: $BURSAR_STATUS_PASSWORD, permissions: {{
    publish: [{", ".join(f'"{subject}"' for subject in ALLOWED)}]
    subscribe: ["{_INBOX}"]
  }} }}
] }} }}
"""


def _user(name: str, role: Role) -> str:
    published = ", ".join(f'"{subject}"' for subject in role.publishes)
    return (
        f"  {{ user: {name}, password: $BURSAR_{name.upper()}_PASSWORD, permissions: {{\n"
        f"    publish: [{published}]\n"
        f'    subscribe: ["{_INBOX}"]\n'
        f"  }} }}"
    )
