"""What a scraper sees of culling."""

from bus.metrics import lines
from reactors.engine.figures import figures
from tests.reactors.culling.scene import Notebooks


async def test_metrics_tell_who_runs_who_was_stopped_and_what_is_held_back():
    at = Notebooks()
    await at.idle(3)
    at.kernels["nb-2"] = {"busy": True}
    at.kernels["nb-3"] = {"outcome": "refused", "active_us": None}
    await at.pass_time(2_710)
    text = [line for line in lines(figures(at.runner.replica)) if not line.startswith("#")]

    assert [
        'notebook_running{namespace="ns"} 3\n',
        'notebook_culling_total{namespace="ns",name="Notebook-nb-1"} 1\n',
        'last_notebook_culling_timestamp_seconds{namespace="ns",name="Notebook-nb-1"} 1793004300\n',
        'bursar_notebooks{verdict="keep",reason="active"} 1\n',
        'bursar_notebooks{verdict="unknown",reason="no_fresh_evidence"} 1\n',
        'bursar_notebooks{verdict="warn",reason="idle"} 1\n',
        "bursar_effects_outstanding 0\n",
        "bursar_reactors_paused 0\n",
    ] == text


async def test_what_a_limit_holds_back_is_shown():
    at = Notebooks()
    await at.idle(3)
    await at.pass_time(2_710)
    text = list(lines(figures(at.runner.replica)))

    assert 'bursar_decisions_withheld{reason="blast_radius"} 2\n' in text
