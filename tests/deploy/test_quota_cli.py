"""`bursar get quotas`, `quota tree|show|explain|check` and `why`, on a ledger that handler and keeper filled."""

import json
import shlex

import pytest
import yaml

from bus.events.quotas import Budget, NamespaceRequirement, Serves
from deploy.cli.program.exits import Exit
from tests import factories as f
from tests.deploy.ledgers import bursar, make_ledger
from tests.deploy.quota_ledger import GPU, HOUR, deployment, make_quota_ledger, room
from tests.reactors.cluster import Cluster, job

pytestmark = pytest.mark.simulated


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_quota_ledger(tmp_path_factory.mktemp("quotas"))


@pytest.fixture(scope="module")
def roomy(tmp_path_factory):
    return make_quota_ledger(tmp_path_factory.mktemp("roomy"), room)


@pytest.fixture
def told(capsys, data):
    """What a command says as JSON."""

    def run(*arguments, code=0, data=data):
        assert code == bursar(*arguments, "--data", data, "-o", "json")
        return json.loads(capsys.readouterr().out)

    return run


def test_get_quotas_has_one_line_for_each_quota_with_exact_amounts(told):
    labs, org, team = told("get", "quotas")

    assert [labs["name"], org["name"], team["name"]] == ["labs", "org", "team"]
    assert (org["parent"], team["parent"]) == ("", "org")
    assert team["hard"] == {"limits.cpu": 8_000, "limits.cpu.A4": 3_000, GPU: 2}
    assert (team["used"]["limits.cpu"], org["used"]["limits.cpu"]) == (8_000, 14_000)
    assert team["budget_left"] == {"limits.cpu": 10 * HOUR}
    assert team["exhausts_at"] == "2026-10-26T23:00:00Z"
    assert labs["exhausts_at"] is None


def test_get_quotas_shows_people_the_columns_of_the_issue(capsys, data):
    bursar("get", "quotas", "--data", data)
    head, _, _, org, team, note = capsys.readouterr().out.splitlines()

    assert head.split() == ["NAME", "PARENT", "USED", "HARD", "BUDGET-LEFT", "EXHAUSTS-AT"]
    assert org.split()[:2] == ["org", "–"]
    assert "limits.cpu: 8, limits.cpu.A4: 3, limits.nvidia.com/gpu: 2" in team
    assert "limits.cpu: 10 " in team
    assert note.startswith("as of event ")


def test_the_tree_draws_each_quota_below_its_parent(capsys, data):
    bursar("quota", "tree", "--data", data)
    lines = capsys.readouterr().out.splitlines()[2:]

    assert [line.split("  ")[0] for line in lines if not line.startswith((" ", "│", "as"))] == [
        "org",
        "├─ labs",
        "└─ team",
    ]
    assert lines[0].split() == ["org", "limits.cpu", "14", "20", "0", "14", "100", "–"]


def test_the_tree_for_programs_has_a_row_for_each_key(told):
    rows = told("quota", "tree")

    assert [(r["quota"], r["depth"]) for r in rows if r["key"] == "limits.cpu"] == [
        ("org", 0),
        ("labs", 1),
        ("team", 1),
    ]
    team = next(r for r in rows if (r["quota"], r["key"]) == ("team", "limits.cpu"))
    assert (team["used"], team["self_used"], team["claimed"], team["ungoverned"]) == (
        8_000, 8_000, 0, 3_000,
    )  # fmt: skip


def test_quotas_whose_parents_are_in_a_circle_are_drawn_once(told, tmp_path):
    circle = [f.quota_observed(name, parent=above) for name, above in (("a", "b"), ("b", "a"))]
    data = make_ledger(tmp_path, [*circle, f.quota_observed("c", parent="gone")])

    rows = told("quota", "tree", data=data)

    assert [(r["quota"], r["depth"]) for r in rows] == [("c", 0), ("a", 0), ("b", 1)]


def test_a_quota_that_cannot_be_used_says_so(capsys, tmp_path):
    data = make_ledger(tmp_path, [f.quota_observed("a", problem="spec.hard: no")])
    bursar("get", "quotas", "--data", data)

    assert "unusable: spec.hard: no" in capsys.readouterr().out


def test_show_tells_which_namespaces_a_quota_selects_and_why_it_cannot_be_used(
    capsys, told, tmp_path
):
    selector = (
        NamespaceRequirement("bursar.io/tier", "NotIn", ("gold", "tin")),
        NamespaceRequirement("bursar.io/zone", "Exists"),
        NamespaceRequirement("bursar.io/old", "DoesNotExist"),
    )

    async def lived():
        async with Cluster() as cluster:
            await cluster.see_quota("chosen", {"limits.cpu": 1000}, serves=Serves((), selector))
            await cluster.see_quota("broken", {}, problem="spec.namespaceSelector: no")
            return cluster.transport.events

    data = make_quota_ledger(tmp_path, lived)
    texts = ["bursar.io/tier notin (gold, tin)", "bursar.io/zone", "!bursar.io/old"]
    assert told("quota", "show", "chosen", data=data)["namespace_selector"] == texts
    (condition,) = told("quota", "show", "broken", data=data)["conditions"][:1]
    assert (condition["type"], condition["message"]) == ("Unusable", "spec.namespaceSelector: no")
    bursar("quota", "show", "chosen", "--data", data)
    assert "namespaces with" in capsys.readouterr().out


def test_show_tells_keys_holders_conditions_and_the_last_refusals(told):
    team = told("quota", "show", "team")

    (cpu,) = [one for one in team["keys"] if one["key"] == "limits.cpu"]
    assert cpu == {
        "key": "limits.cpu", "hard": 8_000, "limit": 8_000, "used": 8_000, "self_used": 8_000,
        "claimed": 0, "ungoverned": 3_000,
    }  # fmt: skip
    assert [one["workload"] for one in team["holders"]][1:] == ["Job ns/train", "Job ns/wild"]
    assert {one["type"]: one["status"] for one in team["conditions"]} == {
        "Overcommitted": "False", "Ungoverned": "True", "Exhausted": "False",
    }  # fmt: skip
    assert [(r["workload"], r["reason"]) for r in team["refusals"]] == [
        ("Job ns/big", "over-quota")
    ]
    assert [(b["key"], b["left"], b["spent"]) for b in team["budgets"]] == [
        ("limits.cpu", 10 * HOUR, 20 * HOUR)
    ]
    assert told("quota", "show", "org")["children"] == ["labs", "team"]


def test_show_tells_changes_that_are_on_their_way(capsys, roomy):
    bursar("quota", "show", "team", "--data", roomy)

    assert "on their way    hard 12 of limits.cpu" in capsys.readouterr().out


def test_an_unknown_quota_is_answered_with_those_that_there_are(capsys, data):
    code = bursar("quota", "show", "tema", "--data", data)

    assert code == Exit.FAILED
    assert "there is no quota 'tema'; is it team?" in capsys.readouterr().err


def test_explain_adds_up_every_item_that_counts_against_a_quota(told):
    rows = [row for row in told("quota", "explain", "org") if row["key"] == "limits.cpu"]

    assert [(r["counts"], r["amount"]) for r in rows] == [
        ("quota labs", 6_000),
        ("quota team", 8_000),
        ("all together", 14_000),
    ]
    assert rows[-1]["why"] == "of 20: 6 left"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ns/train", "counts in quota team: its label biz.group.resource.quota=team"),
        ("train", "counts in quota team: its label biz.group.resource.quota=team"),
        (
            "lab/mapped",
            "counts in quota labs: the label of its namespace biz.group.resource.quota=labs",
        ),
        ("ns/nobodys", "held to no quota: neither it nor its namespace names one"),
        ("ns/below", "not charged itself: Job train is, which controls it"),
    ],
)
def test_explain_says_where_a_workload_counts_and_by_which_label(told, name, said):
    assert told("quota", "explain", name)[0]["why"] == said


def test_explain_says_what_is_there_and_was_never_admitted(told):
    why = {row["key"]: row["why"] for row in told("quota", "explain", "ns/wild")}

    assert why["limits.cpu"].endswith("it is there and was never admitted with that much")


def manifest(folder, *objects):
    path = folder / "m.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    return path


def test_check_finds_the_most_replicas_that_would_be_admitted(told, roomy, tmp_path):
    path = manifest(tmp_path, deployment("web", 5, 1))

    (row,) = told("quota", "check", path, code=Exit.NOT_ADMITTED, data=roomy)

    assert (row["admitted"], row["reason"]) == (False, "over-quota")
    assert (row["replicas_path"], row["replicas"], row["replicas_that_fit"]) == (
        "spec.replicas",
        5,
        3,
    )
    assert row["free"] == {"limits.cpu": 2_000}
    assert row["changes"][:2] == [
        "spec.replicas 5 -> 3",
        "wait until others give back 2 of limits.cpu",
    ]


def test_check_says_whether_the_tree_would_admit_a_larger_quota(told, tmp_path):
    path = manifest(tmp_path, deployment("web", 6, 1), deployment("huge", 7, 1))

    fits, too_much = told("quota", "check", path, code=Exit.NOT_ADMITTED)

    assert (fits["raise_hard_to"], fits["parent_has_room"]) == ({"limits.cpu": 14_000}, True)
    assert (too_much["raise_hard_to"], too_much["parent_has_room"]) == (
        {"limits.cpu": 15_000},
        False,
    )


async def spent():
    """Quota ``team`` without any budget left in the recorded month."""
    async with Cluster() as cluster:
        await cluster.see_quota(
            "team", {"limits.cpu": 8_000}, cash={"limits.cpu": 0}, budget=Budget("Month")
        )
        return cluster.transport.events


def test_check_proposes_a_credit_of_the_period_that_is_spent(told, tmp_path):
    """The ledger's newest observation may be in an earlier period than the clock."""
    data = make_quota_ledger(tmp_path, spent)
    path = manifest(tmp_path, deployment("web", 1, 1))

    (row,) = told("quota", "check", path, code=Exit.NOT_ADMITTED, data=data)
    (budget,) = told("budget", "list", "team", data=data)

    credit = next(change for change in row["changes"] if "budget credit" in change)
    words = shlex.split(credit)
    assert words[:6] == ["bursar", "budget", "credit", "team", "limits.cpu", "0.001"]
    period = words[words.index("--period") + 1]
    assert budget["start_at"] <= period < budget["end_at"]


def test_check_counts_the_objects_of_a_file_one_after_the_other(told, roomy, tmp_path):
    path = manifest(tmp_path, deployment("one", 2, 1), deployment("two", 2, 1))

    first, second = told("quota", "check", path, code=Exit.NOT_ADMITTED, data=roomy)

    assert (first["admitted"], second["admitted"], second["replicas_that_fit"]) == (True, False, 1)


def test_check_asks_for_what_an_object_that_is_there_wants_more(told, roomy, tmp_path):
    mine = {**deployment("train", 1, 5), "apiVersion": "batch/v1", "kind": "Job"}

    assert told("quota", "check", manifest(tmp_path, mine), data=roomy)[0]["reason"] == "fewer"


def test_check_reads_no_status_of_what_would_be_created(told, roomy, tmp_path):
    """A manifest that was read from a cluster says how its Job ended there. A create begins anew."""
    ended = {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 1}
    job = {**deployment("again", 1, 90), "apiVersion": "batch/v1", "kind": "Job", "status": ended}
    (row,) = told("quota", "check", manifest(tmp_path, job), code=Exit.NOT_ADMITTED, data=roomy)

    assert row["reason"] == "over-quota"


def test_check_records_nothing(told, data, tmp_path):
    before = told("why", "team"), told("get", "quotas")
    told("quota", "check", manifest(tmp_path, deployment("w", 1, 1, "labs")))

    assert before == (told("why", "team"), told("get", "quotas"))


def test_check_uses_the_mapping_of_the_namespace_and_leaves_others_alone(told, tmp_path):
    path = manifest(
        tmp_path,
        deployment("mapped", 1, 1, quota="", namespace="lab"),
        deployment("other", 1, 1, quota="team", namespace="lab"),
        deployment("free", 1, 99, quota=""),
        deployment("system", 1, 99, quota="team", namespace="kube-system"),
        deployment("ignored", 1, 99, quota="team", namespace="ignored"),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}},
    )

    found = told("quota", "check", path, code=Exit.NOT_ADMITTED)

    assert [(row["quota"], row["reason"]) for row in found] == [
        ("labs", "fits"),
        ("team", "quota-not-yours"),
        ("", "not-governed"),
        ("", "not-governed"),
        ("", "not-governed"),
        ("", "not-governed"),
    ]


def test_check_says_what_would_wait_in_the_queue_of_a_quota_that_holds(told, tmp_path):
    job = {**deployment("queued", 1, 9, "labs"), "apiVersion": "batch/v1", "kind": "Job"}
    path = manifest(tmp_path, job, deployment("refused", 1, 9, "labs"))

    held, refused = told("quota", "check", path, code=Exit.NOT_ADMITTED)

    assert (held["admitted"], held["reason"], held["free"]) == (True, "held", {"limits.cpu": 4_000})
    assert (refused["admitted"], refused["reason"]) == (False, "over-quota")


def test_check_tells_of_a_quota_the_largest_limits_that_its_parent_admits(told, tmp_path):
    new = {
        "apiVersion": "bursar.io/v1alpha1", "kind": "BizGroupResourceQuota",
        "metadata": {"name": "new"},
        "spec": {"parentBizGroup": "org", "hard": {"limits.cpu": "10", GPU: "0"}},
    }  # fmt: skip

    (row,) = told("quota", "check", manifest(tmp_path, new), code=Exit.NOT_ADMITTED)

    assert (row["reason"], row["largest_hard"]) == ("over-parent", {"limits.cpu": 6_000})


def test_check_reads_json_lists_and_stdin(capsys, data, tmp_path, monkeypatch):
    path = tmp_path / "list.json"
    items = [deployment("a", 1, 1, "labs"), deployment("b", 1, 1, "labs")]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    with path.open() as file:
        monkeypatch.setattr("sys.stdin", file)
        code = bursar("quota", "check", "-", "--data", data, "-o", "csv")

    assert (code, len(capsys.readouterr().out.splitlines())) == (0, 3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "not YAML or JSON"),
        ("", "there is no object in it"),
        ("kind: Job", "object 1 has no apiVersion and kind"),
        ("{apiVersion: v1, kind: Pod, spec: 3}", "spec of object 1 is no map"),
    ],
)
def test_check_refuses_what_is_no_manifest(capsys, data, tmp_path, text, said):
    path = tmp_path / "m.yaml"
    path.write_text(text)

    assert bursar("quota", "check", path, "--data", data) == Exit.USAGE
    assert said in capsys.readouterr().err


def test_check_of_an_unreadable_demand_names_the_field(told, tmp_path):
    path = manifest(tmp_path, deployment("web", -1, 1))

    (row,) = told("quota", "check", path, code=Exit.NOT_ADMITTED)

    assert row["reason"] == "demand-unreadable"
    assert "spec.replicas" in row["message"]


def test_why_tells_the_chain_from_the_request_to_the_release(told):
    steps = told("why", "ns/old")

    assert [(s["step"], s["reason"]) for s in steps] == [
        ("admitted", "fits"),
        ("seen", ""),
        ("gone", ""),
        ("released", "vanished"),
    ]
    assert [s["sequence"] for s in steps] == sorted(s["sequence"] for s in steps)
    assert "review review-2" in steps[0]["numbers"]
    assert steps[0]["based_on"] < steps[0]["sequence"]


def test_why_tells_the_numbers_of_a_refusal(told):
    (refused,) = told("why", "ns/big")

    assert (refused["step"], refused["reason"]) == ("refused", "over-quota")
    assert refused["numbers"].endswith("limits.cpu: 6 used + 9 asked > 8")


@pytest.mark.parametrize("by", ["id", "uid"])
def test_why_takes_a_decisions_id_and_a_uid(told, by):
    found = told("why", "ns/big")

    assert found == told("why", found[0]["id"] if by == "id" else "big")


async def namesakes():
    """``train`` was admitted and seen; when it was gone, one of its name was refused, which nobody ever saw."""
    async with Cluster() as cluster:
        await cluster.see_quota("team", {"limits.cpu": 8_000})
        await cluster.ask("train", 5)
        await cluster.see("train", 5)
        await cluster.lose("train")
        again = job("train", 9)
        again["metadata"]["uid"] = "train-2"
        await cluster.review(again)
        return cluster.transport.events


def test_why_ends_with_the_newest_decision_whatever_namesakes_there_were(told, tmp_path):
    steps = told("why", "ns/train", data=make_quota_ledger(tmp_path, namesakes))

    assert (steps[0]["step"], steps[0]["reason"]) == ("admitted", "fits")
    assert (steps[-1]["step"], steps[-1]["reason"]) == ("refused", "over-quota")


def test_why_of_a_quota_tells_what_was_said_of_it(told, roomy):
    steps = told("why", "team", data=roomy)

    assert [(s["step"], s["reason"]) for s in steps] == [
        ("seen", "seen"),
        ("admitted", "fits"),
        ("refused", "parent-immutable"),
    ]


def test_why_of_nothing_is_an_error(capsys, data):
    assert bursar("why", "ns/nothing", "--data", data) == Exit.FAILED
    assert (
        "there is no workload, pod, quota or decision 'ns/nothing'; there are"
        in capsys.readouterr().err
    )


def test_report_by_quota_says_what_was_spent_in_it(told):
    (row,) = told("report", "--by", "quota,workload", "--quota", "team")

    assert (row["quota"], row["workload"], row["core_hours"]) == ("team", "Pod/pod", 20.0)


def test_status_tells_what_was_never_admitted(told, capsys, data):
    found = told("status")

    assert found["quotas"]["ungoverned"] >= 1
    assert found["quotas"]["in"]
    assert bursar("status", "--data", data) == 0
    assert "were never admitted: " in capsys.readouterr().out
