"""What a scraper sees of culling."""

from reactors.engine.figures import figures
from tests.reactors.culling.scene import Notebooks
from tests.scraping import scraped


async def test_metrics_tell_who_runs_who_was_stopped_and_what_is_held_back():
    at = Notebooks()
    await at.idle(3)
    at.kernels["nb-2"] = {"busy": True}
    at.kernels["nb-3"] = {"outcome": "refused", "active_us": None}
    await at.pass_time(2_710)
    found = scraped(figures(at.runner.replica))

    assert {
        'notebook_running{namespace="ns"}': 3,
        'notebook_culling_total{name="Notebook-nb-1",namespace="ns"}': 1,
        'last_notebook_culling_timestamp_seconds{name="Notebook-nb-1",namespace="ns"}': 1793004300,
        'bursar_notebooks{reason="active",verdict="keep"}': 1,
        'bursar_notebooks{reason="no_fresh_evidence",verdict="unknown"}': 1,
        'bursar_notebooks{reason="idle",verdict="warn"}': 1,
        "bursar_effects_outstanding": 0,
        "bursar_reactors_paused": 0,
    } == found


async def test_what_a_limit_holds_back_is_shown():
    at = Notebooks()
    await at.idle(3)
    await at.pass_time(2_710)
    found = scraped(figures(at.runner.replica))

    assert found['bursar_decisions_withheld{reason="blast_radius"}'] == 2
