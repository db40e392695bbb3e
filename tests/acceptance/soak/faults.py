"""What goes wrong in a soak: each fault is a name, and a generator that hurts, waits by `yield seconds`, and heals."""

import os

from tests.acceptance.soak.site import CERTIFICATE_SECONDS, certificate
from tests.disks import fill

PARTS = ("watch", "ledger", "act", "webhook", "nats")
#: How long a process stands still, a network is cut, a disk is full, a clock is wrong.
HURT_SECONDS = 9
#: Longer than the time after which PostgreSQL ends the session of a silent machine (25 s).
LONG_SECONDS = 32
JUMP_SECONDS = 3_600


def _victim(site, kind, random):
    return random.choice(site.parts.named(kind))


def kill(kind):
    def fault(site, random):
        site.parts.kill(_victim(site, kind, random))
        yield 0

    return fault


def pause(kind):
    def fault(site, random):
        name = _victim(site, kind, random)
        site.parts.pause(name)
        yield HURT_SECONDS
        site.parts.resume(name)

    return fault


def part(server, seconds=HURT_SECONDS):
    def fault(site, _):
        for wire in site.wires[server]:
            wire.cut()
        yield seconds
        for wire in site.wires[server]:
            wire.mend()

    return fault


def full_disk(site, _):
    """Nobody can write below the data folders and the store of the history."""
    if not site.has_disk:
        return
    filling = site.disk / "filling"
    fill(filling)
    yield HURT_SECONDS
    filling.unlink()


def clock(seconds):
    """Of all processes of Bursar, as on one node; and back."""

    def fault(site, _):
        for file in site.clocks.values():
            _write(file, str(seconds))
        yield HURT_SECONDS
        for file in site.clocks.values():
            _write(file, "0")

    return fault


def _write(file, text):
    draft = file.with_suffix(".draft")
    draft.write_text(text)
    os.replace(draft, file)


def api_server(site, _):
    site.plane.kill_apiserver()
    yield 2
    site.plane.start_apiserver()


def expired(site, _):
    """The serving certificate ends before the next one is there."""
    certificate(site.certificate, 14)
    yield 26
    certificate(site.certificate, CERTIFICATE_SECONDS)


#: In an order in which nine show one of each sort.
FAULTS = {
    "act killed": kill("act"), "network of PostgreSQL cut": part("postgres"), "disk full": full_disk,
    "clocks an hour ahead": clock(JUMP_SECONDS), "webhook paused": pause("webhook"), "API server restarted": api_server,
    "certificate expired": expired, "network of NATS cut": part("nats"), "watch killed": kill("watch"),
    "nats killed": kill("nats"), "network of the API server cut": part("api"), "ledger killed": kill("ledger"),
    "act paused": pause("act"), "clocks an hour behind": clock(-JUMP_SECONDS), "webhook killed": kill("webhook"),
    "network of PostgreSQL cut for long": part("postgres", LONG_SECONDS), "ledger paused": pause("ledger"),
    "nats paused": pause("nats"), "watch paused": pause("watch"), "network of NATS cut for long": part("nats", LONG_SECONDS),
}  # fmt: skip
