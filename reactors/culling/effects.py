"""The effects of culling: warnings, stops and restores; and, beside them, probes, Kubeflow's stamps and reports."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from bus.clock import SECOND_US
from bus.events.decisions import Cull, Restore, Warn, Withdraw
from reactors.culling.policy import CullingPolicy
from reactors.culling.settings import CullingSettings
from reactors.culling.state import NAME, CullingState

if TYPE_CHECKING:
    from reactors.culling.probing import Prober
    from reactors.engine.adapters import Adapters, EffectorTable


def effects(adapters: Adapters) -> EffectorTable:
    """The effects as the settings have them; while culling is off no notebook is asked. Raises OSError for a token's file."""
    # A question to the reactors needs no effects, and should not pay for the import.
    from bus.notebooks.memory import HEARTBEAT_US
    from bus.notebooks.prober import ProbeSettings
    from reactors.culling.probing import Prober

    settings, policy = adapters.settings, adapters.policy
    assert isinstance(settings, CullingSettings) and isinstance(policy, CullingPolicy)
    if adapters.mode == "off":
        return effects_by(adapters, None, 0.0)
    view = adapters.replica.states[NAME]
    assert isinstance(view, CullingState)
    prober = Prober(
        view, adapters.cluster, adapters.transport, adapters.clock, name=adapters.replica.cluster,
        tokens=settings.tokens, exporter_namespaces=settings.exporter_namespaces,
        settings=ProbeSettings(refused=settings.refused_networks),
        kubeflow=policy.kubeflow is not None,
        # Evidence counts for two periods, so it is said again within one.
        heartbeat_us=min(HEARTBEAT_US, policy.check_period_seconds * SECOND_US // 2),
    )  # fmt: skip
    return effects_by(adapters, prober, policy.check_period_seconds)


def effects_by(adapters: Adapters, prober: Prober | None, period_seconds: float) -> EffectorTable:
    """The effects with a prober that probes every notebook once in a period; without a prober, notebooks are never stopped."""
    from bus.notify import tell
    from reactors.culling.effectors import CullEffector, Notices, StampWriter
    from reactors.culling.probing import LastLook
    from reactors.engine.adapters import EffectorTable

    replica, cluster, clock = adapters.replica, adapters.cluster, adapters.clock
    settings = adapters.settings
    assert isinstance(settings, CullingSettings)
    cull = CullEffector(cluster, clock, LastLook(replica, prober))
    effectors = {verb.wire_type: cull for verb in (Warn, Withdraw, Cull, Restore)}
    if prober is None:
        return EffectorTable(effectors)
    beside: list[Callable[[], Coroutine[Any, Any, None]]]
    beside = [partial(prober.run, period_seconds), StampWriter(replica, cluster, clock).run]
    if (receiver := settings.receiver) is not None:
        beside.append(Notices(replica, adapters.transport, clock, partial(tell, receiver)).run)
    return EffectorTable(effectors, tuple(beside))
