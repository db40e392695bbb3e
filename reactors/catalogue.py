"""The reactors with later effects, one line each. Admission answers at once and has an adapter of its own."""

from __future__ import annotations

from reactors.budgets.reactor import reactor as budgets
from reactors.culling.reactor import reactor as culling
from reactors.engine.contract import Reactor
from reactors.evictions.reactor import reactor as evictions
from reactors.jobs.reactor import reactor as jobs
from reactors.migration.reactor import reactor as migration
from reactors.scheduling.reactor import reactor as scheduling

REACTORS: tuple[Reactor, ...] = (budgets, culling, evictions, jobs, migration, scheduling)
