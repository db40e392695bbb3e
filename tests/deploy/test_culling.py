"""``bursar notebooks``, ``cull``, ``why``, ``pause``: what people see of culling, on a ledger of a day."""

import asyncio
import json

import msgspec
import pytest
from pydantic import ValidationError

from bus.events.decisions import NoticeSettled, Restore, RestoreAsked, Warn
from reactors.budgets.settings import BudgetSettings
from reactors.culling.policy import KubeflowRules
from reactors.culling.settings import CullingSettings
from tests.deploy.ledgers import bursar, make_ledger
from tests.factories import namespace_observed, said, us
from tests.reactors.culling.scene import Notebooks

CLUSTER = ("--cluster", "c")


async def a_morning():
    at = Notebooks()
    await at.policy()
    for uid, evidence in {
        "idle": {},
        "busy": {"busy": True, "active_us": None},
        "lost": {"outcome": "refused", "active_us": None},
        "fresh": {"active_us": us(2_000)},
    }.items():
        await at.see(uid, kind="StatefulSet")
        at.kernels[uid] = evidence
    await at.pass_time(2_000)
    return at


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    at = asyncio.run(a_morning())
    return make_ledger(tmp_path_factory.mktemp("morning"), at.transport.events)


def answer(capsys, *arguments, code=0):
    found = bursar(*arguments, "-o", "json")
    out, err = capsys.readouterr()
    assert found == code, err
    return json.loads(out)


def test_notebooks_tells_who_is_used_and_when_the_others_are_stopped(capsys, data):
    rows = {row["pod"]: row for row in answer(capsys, "--data", data, "notebooks", *CLUSTER)}

    assert {"idle": "keep", "busy": "keep", "lost": "unknown", "fresh": "keep"} == {
        pod: row["state"] for pod, row in rows.items()
    }
    assert ("warned", "2026-10-26T08:45:00Z") == (rows["idle"]["reason"], rows["idle"]["culls_at"])
    assert (None, "StatefulSet-lost") == (rows["lost"]["culls_at"], rows["lost"]["target"])


def test_notebooks_says_what_holds_a_due_action_and_until_when(capsys, data, tmp_path):
    at = asyncio.run(a_day_with_a_jump())
    held = make_ledger(tmp_path, at.transport.events)
    rows = {row["pod"]: row for row in answer(capsys, "--data", held, "notebooks", *CLUSTER)}
    bursar("--data", held, "notebooks", *CLUSTER)
    shown = " ".join(capsys.readouterr().out.split())

    assert rows["idle"]["blocked_by"] == "clock_jumped"
    assert rows["idle"]["blocked_until"] is not None
    assert "warning delayed: the clock jumped" in shown
    assert "warning delayed: no fresh activity data (retrying)" in shown
    assert rows["lost"]["blocked_by"] == "no_fresh_evidence"
    assert rows["busy"]["blocked_by"] is None


async def a_day_with_a_jump():
    """Idle for longer than limit and warning, and one tick after two minutes without one."""
    at = await a_morning()
    await at.pass_time(300)
    await at.tick(after=120)
    for uid, evidence in at.kernels.items():
        await at.look(uid, **evidence)
    return at


def test_notebooks_says_as_of_when_and_in_which_mode(capsys, data):
    bursar("--data", data, "notebooks", *CLUSTER)
    out = capsys.readouterr().out

    assert "culling is on" in out
    assert "as of event 291, 2026-10-26T08:31:40Z" in out


def test_a_simulation_tells_culls_and_hours(capsys, data):
    rows = answer(
        capsys, "--data", data, "cull", "simulate", "--idle", "10m", "--idle", "2h",
        "--warning", "5m", *CLUSTER,
    )  # fmt: skip

    assert [(600, 1), (7_200, 0)] == [(row["idle_s"], row["culls"]) for row in rows]


@pytest.mark.parametrize(
    "period", [("--from", "2026-10-26T08:01:40Z"), ("--to", "2026-10-26T08:33:00Z")]
)
def test_one_wrong_clock_moves_no_period_of_a_simulation(capsys, tmp_path, period):
    """A namespace that was said last by a clock of half an hour ago, and one that was said first by that of tomorrow."""
    early, late = namespace_observed("early", at=86_400), namespace_observed("late", at=5)
    data = make_ledger(tmp_path, [early, *asyncio.run(a_morning()).transport.events, late])
    rows = answer(
        capsys, "--data", data, "cull", "simulate", "--idle", "10m", "--warning", "5m", *period,
        *CLUSTER,
    )  # fmt: skip

    assert [1] == [row["culls"] for row in rows]


def test_a_period_that_is_trimmed_is_played_as_before(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("BURSAR_HISTORY__SEGMENT_EVENTS", "50")
    # So many that one clock which is ahead would not do.
    later = [namespace_observed(f"later-{n}", at=200_000 + n) for n in range(120)]
    made = make_ledger(tmp_path, [*asyncio.run(a_morning()).transport.events, *later])
    period = ("--from", "2026-10-26T08:01:40Z", "--to", "2026-10-26T08:20:00Z")
    asked = (
        "--data", made, "cull", "simulate", "--idle", "10m", "--warning", "5m", *period, *CLUSTER,
    )  # fmt: skip
    before = answer(capsys, *asked)
    assert bursar("--data", made, "history", "seal") == 0
    capsys.readouterr()
    trimmed = answer(capsys, "--data", made, "history", "trim", "--keep-days", "1")

    assert trimmed["trimmed"] > 1
    assert [1] == [row["culls"] for row in before]
    assert answer(capsys, *asked) == before


def test_a_simulation_plays_the_rules_of_other_cullers(capsys, data):
    rows = answer(
        capsys, "--data", data, "cull", "simulate", "--idle", "10m", "--like", "bursar",
        "--like", "jupyterhub", *CLUSTER,
    )  # fmt: skip

    # The hub's also stops the notebook whose server gave no answer.
    assert [("bursar", 1), ("jupyterhub", 2)] == [(row["rules"], row["culls"]) for row in rows]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--like", "kubflow", "--idle", "10m"), "is none of bursar, kubeflow, opendatahub"),
        (("--like", "kubeflow", "--idle", "90s"), "kubeflow counts whole minutes"),
    ],
)
def test_a_culler_that_cannot_be_played_is_refused(capsys, data, options, said):
    code = bursar("--data", data, "cull", "simulate", *options, *CLUSTER)

    assert (2, True) == (code, said in " ".join(capsys.readouterr().err.split()))


@pytest.mark.parametrize("text", ["", "soon", "10"])
def test_a_span_that_is_none_is_refused(capsys, data, text):
    code = bursar("--data", data, "cull", "simulate", "--idle", text, *CLUSTER)

    assert (2, True) == (code, "is no span" in capsys.readouterr().err)


async def test_why_tells_of_warning_stop_and_undo(capsys, tmp_path):
    at = Notebooks()
    await at.idle()
    await at.pass_time(2_710)
    (cull,) = at.decisions()
    await at.say(said(RestoreAsked(decision=cull.id, author="me"), key=cull.id, id="u", at=2_720))
    await at.pass_time(20)
    assert 1 == len(at.decisions(Restore))
    data = make_ledger(tmp_path, at.transport.events)
    told = [
        [row["step"] for row in answer(capsys, "--data", data, "why", name, *CLUSTER)]
        for name in ("ns/Notebook-nb-1", "nb-1", cull.id)
    ]
    undone = ["cull", "done", "undo asked", "restore", "done"]

    assert [["warn", "done", *undone], ["warn", "done", *undone], undone] == told


def test_verify_decides_all_again(capsys, data):
    row = answer(capsys, "--data", data, "verify", "--decisions")

    assert (True, 1, []) == (row["ok"], row["decisions"], row["decisions_different"])


def test_verify_finds_a_decision_that_the_rules_do_not_make(capsys, tmp_path):
    at = asyncio.run(a_morning())
    (warn,) = at.decisions(Warn)
    forged = msgspec.structs.replace(warn, id="0" * 32, key="busy")
    event = forged.event(cluster="c", key="busy", id=forged.id, source="x", time_us=forged.at_us)
    data = make_ledger(tmp_path, [*at.transport.events, event])
    code = bursar("--data", data, "verify", "--decisions", "-o", "json")

    assert (6, True) == (code, "not_derived" in capsys.readouterr().out)


def test_undoing_what_is_no_cull_is_refused(capsys, data):
    code = bursar("--data", data, "cull", "undo", "0" * 32, *CLUSTER)

    assert (1, True) == (code, "there is no cull" in capsys.readouterr().err)


def test_kubeflows_variables_set_limit_and_period_where_they_are_wanted():
    variables = {"ENABLE_CULLING": "true", "CULL_IDLE_TIME": "90", "IDLENESS_CHECK_PERIOD": "2"}
    mode, policy = CullingSettings(mode="on", kubeflow=True).wanted(variables)

    rules = KubeflowRules(idle_minutes=90, period_minutes=2)
    assert ("on", rules, 120) == (mode, policy.kubeflow, policy.check_period_seconds)


@pytest.mark.parametrize(
    ("said", "meant"), [("9223372036854775807", 1), ("-9223372036854775808", -1)]
)
def test_kubeflows_never_and_at_once_are_bounded_at_a_thousand_years(said, meant):
    settings = CullingSettings(mode="on", kubeflow=True)
    variables = {"ENABLE_CULLING": "true", "CULL_IDLE_TIME": said, "IDLENESS_CHECK_PERIOD": said}
    _, policy = settings.wanted(variables)

    minutes = meant * 525_960_000
    assert KubeflowRules(idle_minutes=minutes, period_minutes=minutes) == policy.kubeflow


def test_culling_is_in_shadow_mode_by_default():
    assert "shadow" == CullingSettings().mode


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("off", "no notebook is asked"),
        ("shadow", "none is stopped"),
        ("on", "are warned and stopped"),
    ],
)
def test_bursar_up_says_what_it_does_to_notebooks(mode, words):
    assert CullingSettings().announcement(mode).startswith(f"{mode}: ")
    assert words in CullingSettings().announcement(mode)


@pytest.mark.parametrize("url", ["", "host/path", "ftp://host/", "https://"])
@pytest.mark.parametrize("settings", [CullingSettings, BudgetSettings])
def test_an_address_for_warnings_that_is_none_is_refused_without_being_repeated(settings, url):
    with pytest.raises(ValidationError, match="the address is not"):
        settings(warn_url=url)


@pytest.mark.parametrize("settings", [CullingSettings, BudgetSettings])
def test_the_address_for_warnings_and_its_token_are_not_shown(tmp_path, settings):
    token = tmp_path / "token"
    token.write_text("t0ken\n")
    found = settings(warn_url="https://host/s3cret", warn_token_file=token)

    assert ("https://host/s3cret", "t0ken") == (found.receiver.url, found.receiver.token)
    assert not {"s3cret", "t0ken"} & set(f"{found!r} {found.receiver!r}".replace("/", " ").split())
    assert settings().receiver is None


async def test_why_tells_who_was_told_of_a_warning(capsys, tmp_path):
    at = Notebooks()
    await at.idle()
    await at.pass_time(1_810)
    (warn,) = at.decisions(Warn)
    fact = NoticeSettled(decision=warn.id, reactor="culling", result="failed", message="http_500")
    await at.say(said(fact, key=warn.id, id=f"{warn.id}/notice", at=1_812))
    data = make_ledger(tmp_path, at.transport.events)
    rows = answer(capsys, "--data", data, "why", warn.id, *CLUSTER)

    assert [("warn", "idle"), ("done", ""), ("not told", "http_500")] == [
        (row["step"], row["reason"]) for row in rows
    ]


def test_kubeflows_switch_holds():
    assert "off" == CullingSettings(mode="on", kubeflow=True).wanted({})[0]


def test_without_asking_for_them_kubeflows_variables_mean_nothing():
    variables = {"ENABLE_CULLING": "true", "CULL_IDLE_TIME": "90"}

    mode, policy = CullingSettings(mode="on").wanted(variables)

    assert ("on", 3_600, None) == (mode, policy.idle_seconds, policy.kubeflow)


def test_a_check_period_that_makes_all_evidence_stale_is_refused():
    with pytest.raises(
        ValidationError, match="check_period_seconds 14: all evidence would be stale"
    ):
        CullingSettings(policy={"check_period_seconds": 14})
    assert CullingSettings(policy={"check_period_seconds": 15}).policy.check_period_seconds == 15
