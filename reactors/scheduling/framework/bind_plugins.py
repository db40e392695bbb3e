"""Runs the binding plugins of a profile: PreBind in order, one Bind, then PostBind. A plugin's exception names the plugin.

Source: Kubernetes, "Scheduling Framework"; docs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from reactors.scheduling.framework.bind import DONE, Outcomes, Prepared
from reactors.scheduling.framework.bind_cycle import BindCycle
from reactors.scheduling.framework.contract import Bind, Plugin, PostBind, PreBind, extends


class BindPlugins:
    """The binding plugins of one profile."""

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        found = list(plugins)
        self._pre_binds = [one for one in found if extends(one, PreBind)]
        self._binds = [one for one in found if extends(one, Bind)]
        self._post_binds = [one for one in found if extends(one, PostBind)]

    async def pre_bind(self, cycle: BindCycle) -> Prepared:
        """The first answer other than "done" ends it: later plugins are not called before."""
        for one in self._pre_binds:
            with _named(one):
                found = await one.pre_bind(cycle)
            if found != DONE:
                return found
        return DONE

    async def bind(self, cycle: BindCycle) -> Outcomes | None:
        """The answer of the first plugin to bind this pod; None = none does, and nothing was done."""
        for one in self._binds:
            with _named(one):
                found = await one.bind_pod(cycle)
            if found is not None:
                return found
        return None

    def post_bind(self, cycle: BindCycle) -> None:
        """Notify every plugin of the pod's bind."""
        for one in self._post_binds:
            with _named(one):
                one.post_bind(cycle)


@contextmanager
def _named(plugin: Plugin) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(f"plugin {plugin.name}")
        raise
