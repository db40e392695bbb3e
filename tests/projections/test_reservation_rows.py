"""What reservations keep and what of it is used, as exact sums: by brute force, in any order, and as a person asks for it."""

from random import Random

import msgspec
import sqlalchemy as sa

from bus.events.pods import ReservationObserved, ReservationVanished
from projections import reservations
from projections.views.reservations import MOST_SUM
from tests import factories as f
from tests.projections.engine.archives import fill, ledger


def seen(version, at, cpu="4", used="0", node="n", phase="Available", **fields):
    said = {"allocatable": {"cpu": cpu, "nvidia.com/gpu": "2"}, "allocated": {"cpu": used}} | fields
    fact = ReservationObserved(
        uid="r", name="web", resource_version=str(version), node=node, phase=phase, team="blue", **said
    )  # fmt: skip
    return f.said(fact, key="r", id=f"r/{version}", at=at)


def gone(version, at):
    fact = ReservationVanished(uid="r", name="web", resource_version=str(version))
    return f.said(fact, key="r", id=f"r/{version}/gone", at=at)


def folded(events):
    row = None
    for event in events:
        kind = ReservationVanished if "vanished" in event.type else ReservationObserved
        row = reservations.fold(row, msgspec.json.decode(event.body, type=kind), event)
    return row


def shown(row):
    found = reservations.projection.codec.shown(row)
    return {name: found[name] for name in found if name.endswith(("_s", "milli"))}


def random_history(random):
    """(events, by second: cpu reserved and used) of one reservation."""
    events, second, now, seconds = [], 0, (0, 0), []
    for version in range(1, random.randint(3, 15)):
        step = random.randint(1, 50)
        seconds += [now] * (step if version > 1 else 0)
        second += step
        cpu, used = random.randint(0, 8), random.randint(0, 10)
        phase = random.choice(
            ("Available", "Available", "Waiting", "Pending", "Succeeded", "Failed")
        )
        is_kept = phase in ("Available", "Waiting")
        now = (cpu * 1000, min(cpu, used) * 1000) if is_kept else (0, 0)
        events.append(seen(version, second, str(cpu), str(used), phase=phase))
    if random.random() < 0.5:
        step = random.randint(1, 50)
        seconds += [now] * step
        events.append(gone(99, second + step))
    return events, seconds


def test_sums_are_those_of_every_second_whatever_the_order():
    for number in range(60):
        random = Random(number)
        events, seconds = random_history(random)
        row = folded(events)
        mixed = events + random.sample(events, len(events) // 2)
        random.shuffle(mixed)

        assert folded(mixed).history == row.history
        found = shown(row)
        assert found["reserved_cpu_milli_s"] == sum(one for one, _ in seconds)
        assert found["used_cpu_milli_s"] == sum(one for _, one in seconds)


def test_amounts_of_a_status_that_are_none_reserve_nothing_and_huge_ones_fit():
    for text in ("NaN", "", "-4", "1e99", "9" * 300, "0x10"):
        found = shown(folded([seen(1, 0, text, text), seen(2, 10**9, text)]))
        assert 0 <= found["used_cpu_milli_s"] <= found["reserved_cpu_milli_s"] < 2**63


def test_a_wrong_clock_makes_no_sum_that_a_row_cannot_hold(tmp_path):
    store = ledger(f"sqlite:///{tmp_path}/ledger.db")
    later, cpu = 5_000_000_000, "2147483"
    clocks = [
        seen(1, -f.START_S, cpu, "1"),
        seen(2, later, cpu, "2"),
        f.pod_observed("p", 1, 2 * later),
    ]
    fill(store, f.numbered(clocks), batch=3)
    columns = ("reserved_cpu_milli_s", "used_cpu_milli_s", "idle_cpu_milli_s")
    (found,) = store.select(sa.text(f"SELECT {', '.join(columns)} FROM v1_reservations"))
    store.close()

    assert reservations.MOST_SUM == MOST_SUM
    used = 1000 * (f.START_S + later) + 2000 * later
    assert tuple(found) == (2**62, used, 2**62 - used)


def test_the_view_values_what_goes_on_up_to_the_moment_of_its_cluster(tmp_path):
    store = ledger(f"sqlite:///{tmp_path}/ledger.db")
    events = [seen(1, 0), seen(2, 3600, used="1"), f.pod_observed("p", 1, 7200)]
    fill(store, f.numbered(events), batch=3)
    columns = "team, reserved_core_hours, used_core_hours, idle_core_hours, reserved_gpu_hours, idle_gpu_milli_s"
    rows = store.select(sa.text(f"SELECT {columns} FROM v1_reservations"))
    store.close()

    assert [tuple(one) for one in rows] == [("blue", 8.0, 1.0, 7.0, 4.0, 14_400_000)]


def test_the_name_is_the_same_in_any_order_where_one_version_has_two():
    one, other = seen(1, 0), seen(1, 0)
    other = msgspec.structs.replace(other, body=bytes(other.body).replace(b'"web"', b'"zoo"'))

    assert folded([one, other]).name == folded([other, one]).name == "zoo"
