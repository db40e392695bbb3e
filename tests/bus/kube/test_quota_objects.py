"""Quota objects: what is read of them, and what is refused with the path of the field. Rows C1 to C15 of the catalogue,
as far as they concern an object alone.
"""

import json
import pathlib
import time

import pytest
import yaml

from bus.events import VOCABULARY
from bus.events.quotas import Budget, NamespaceRequirement, Queue, Serves
from bus.events.vocabulary import read
from bus.kube.crds import keys, quotas
from bus.kube.crds.manifests import manifest
from bus.kube.crds.schema import crds
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import Record
from bus.sources.quotas import PREFIX, ROOT, translate

ROOT_FOLDER = pathlib.Path(__file__).parents[3]
LONG = "1" * 10_240


def observed(spec, *, name="team", kind="BizGroupResourceQuota", **metadata):
    """The fact that a quota with this spec says."""
    meta = {"uid": "u", "name": name, "resourceVersion": "7", **metadata}
    raw = json.dumps({"metadata": meta, "spec": spec}).encode()
    event = translate(Record("ADDED", raw, 5, "c", "kube/quotas"), LabelPolicy(), kind=kind)

    return read(event, VOCABULARY)


def elastic(spec, *, labels=(), annotations=()):
    """The fact that an ElasticQuota says."""
    return observed(
        spec,
        kind="ElasticQuota",
        namespace="ns",
        labels={PREFIX + key: value for key, value in dict(labels).items()},
        annotations={PREFIX + key: value for key, value in dict(annotations).items()},
    )


def problem(spec, name="team"):
    """Why a spec cannot be used; the fact holds no amounts then."""
    fact = observed(spec, name=name)
    assert (fact.hard, fact.cash, fact.min, fact.max) == ({}, {}, {}, {})
    return fact.problem


def window(begin, end):
    return {"from": f"{begin}T00:00:00Z", "until": f"{end}T00:00:00Z"}


# What is read


def test_a_selector_of_namespaces_is_read_the_same_however_it_is_written():
    tier, zone = "bursar.io/tier", "app.kubernetes.io/part-of"
    expressions = [
        {"key": zone, "operator": "NotIn", "values": ["b", "a", "b"]},
        {"key": tier, "operator": "Exists"},
    ]
    one = {"matchLabels": {tier: "gold"}, "matchExpressions": expressions}
    in_gold = {"key": tier, "operator": "In", "values": ["gold"]}
    other = {"matchExpressions": [in_gold, *reversed(expressions), in_gold]}
    want = (
        NamespaceRequirement(zone, "NotIn", ("a", "b")),
        NamespaceRequirement(tier, "Exists"),
        NamespaceRequirement(tier, "In", ("gold",)),
    )

    for selector in (one, other):
        fact = observed({"namespaces": ["lab"], "namespaceSelector": selector})
        assert (fact.problem, fact.serves) == ("", Serves(("lab",), want))


def test_plain_typed_and_cash_keys_are_in_the_ledgers_measures():
    fact = observed(
        {
            "hard": {
                "limits.cpu": 10,
                "limits.cpu.A4": "1500m",
                "requests.memory": "64Gi",
                "limits.nvidia.com/gpu": "8",
                "cash/limits.cpu": "100",
                "cash/limits.cpu.A4": "0.5",
                "cash/limits.nvidia.com/gpu.A100": "2",
                "cash/requests.memory": "3",
            }
        }
    )

    assert fact.hard == {
        "limits.cpu": 10_000,
        "limits.cpu.A4": 1_500,
        "requests.memory": 64 * 2**30,
        "limits.nvidia.com/gpu": 8,
    }
    assert fact.cash == {
        "limits.cpu": 100 * 3_600_000,
        "limits.cpu.A4": 1_800_000,
        "limits.nvidia.com/gpu.A100": 2 * 3_600_000,
        "requests.memory": 3 * 1024 * 3_600,
    }
    assert (fact.problem, fact.notes) == ("", ())


def test_what_is_not_said_has_the_defaults():
    fact = observed({})

    assert (fact.parent, fact.tree, fact.lends, fact.is_parent) == ("", "", True, False)
    assert (fact.budget, fact.queue, fact.weight) == (Budget(), Queue(), None)
    assert (fact.budget.period, fact.budget.exhaustion) == ("Total", "DenyNew")


def test_elastic_budget_and_queue_are_read():
    fact = observed(
        {
            "parentBizGroup": "dept",
            "elastic": {
                "min": {"cpu": "2"},
                "max": {"cpu": "4", "nvidia.com/gpu": "8"},
                "sharedWeight": {"cpu": 1},
                "allowLentResource": False,
                "isParent": True,
                "treeID": "t",
            },
            "budget": {"period": "Month", "timeZone": "Asia/Shanghai", "exhaustion": "Warn"},
            "queue": {"hold": True, "order": "Strict", "maxHeadDelaySeconds": 60},
        }
    )

    assert (fact.parent, fact.min, fact.max, fact.weight) == (
        "dept",
        {"cpu": 2_000},
        {"cpu": 4_000, "nvidia.com/gpu": 8},
        {"cpu": 1_000},
    )
    assert (fact.lends, fact.is_parent, fact.tree) == (False, True, "t")
    assert fact.budget == Budget("Month", "Asia/Shanghai", (), "Warn", 0)
    assert fact.queue == Queue(True, "Strict", 60)


def test_windows_are_seconds_and_a_grace_is_kept_for_eviction_only():
    budget = {"windows": [window("1970-01-02", "1970-01-03"), window("1970-01-03", "1970-01-05")]}
    evict = {**budget, "exhaustion": "GraceThenEvict", "graceSeconds": 60}

    assert observed({"budget": budget}).budget == Budget(
        "Windows", windows=((86_400, 172_800), (172_800, 345_600))
    )
    assert observed({"budget": evict}).budget.grace_seconds == 60


def test_a_deleted_quota_says_which_it_was():
    raw = json.dumps({"metadata": {"uid": "u", "name": "a", "resourceVersion": "9"}}).encode()
    event = translate(
        Record("DELETED", raw, 5, "c", "s"), LabelPolicy(), kind="BizGroupResourceQuota"
    )

    assert (event.type, event.key, event.id) == ("quota.vanished", "u", "quota.vanished/u/9")


# Koordinator's


def test_labels_and_annotations_of_koordinator_are_read():
    fact = elastic(
        {"min": {"cpu": "1", "memory": "1Gi"}, "max": {"cpu": "2", "memory": "2Gi"}},
        labels={"parent": "dept", "is-parent": "true", "allow-lent-resource": "false",
                "tree-id": "t", "is-root": "true", "allow-force-update": "true"},
        annotations={"shared-weight": '{"cpu":"3"}', "namespaces": '["a","b"]',
                     "max-strict-check-resource-keys": '["cpu"]'},
    )  # fmt: skip

    assert (fact.namespace, fact.parent, fact.tree) == ("ns", "dept", "t")
    assert (fact.is_parent, fact.lends, fact.tree_root, fact.force_update) == (
        True,
        False,
        True,
        True,
    )
    assert (fact.min, fact.max, fact.weight) == (
        {"cpu": 1_000, "memory": 2**30},
        {"cpu": 2_000, "memory": 2**31},
        {"cpu": 3_000},
    )
    assert (fact.namespaces, fact.strict_max_keys) == (("a", "b"), ("cpu",))


def test_the_root_quota_is_no_parent_and_lending_is_the_default():
    said, silent = elastic({}, labels={"parent": ROOT}), elastic({})

    assert [(f.parent, f.lends, f.problem) for f in (said, silent)] == [("", True, "")] * 2


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cpu":"-1"}', '{"cpu":"0"}', '{"cpu":[]}'])
def test_an_illegal_or_zero_weight_counts_as_none_given(text):
    assert elastic({}, annotations={"shared-weight": text}).weight is None


@pytest.mark.parametrize(
    "text", ['"a"', '{"a":1}', "[1]", "[", json.dumps(["x"] * 2_000)], ids=lambda text: text[:9]
)
def test_an_unreadable_namespace_list_makes_the_quota_unusable(text):
    fact = elastic({"max": {"cpu": "1"}}, annotations={"namespaces": text})

    assert fact.problem.startswith(f"metadata.annotations[{PREFIX}namespaces]")
    assert fact.max == {}


def test_koordinators_unlimited_maximum_is_cut_to_64_bits():
    most = str((2**63 - 1) // 5)

    assert elastic({"max": {"cpu": most, "memory": most}}).max == {
        "cpu": 2**63 - 1,
        "memory": 2**63 - 1,
    }


@pytest.mark.parametrize(
    "spec", [{"max": {"cpu": "-1"}}, {"min": {"cpu": "x"}}, {"max": 7}, {"max": {"cpu": None}}, 7]
)
def test_an_elastic_quota_that_cannot_be_read_is_said_with_its_problem(spec):
    fact = elastic(spec, labels={"parent": "dept"})

    assert (fact.problem.startswith("spec"), fact.parent, fact.max) == (True, "dept", {})


# docs/wrong-input.md C


@pytest.mark.parametrize("text", ["-1", "-0", "NaN", "Infinity", "-5m", -1], ids=str)
def test_c1_negative_amounts_and_no_numbers_are_refused(text):
    assert problem({"hard": {"limits.cpu": text}}).startswith("spec.hard: limits.cpu: ")


@pytest.mark.parametrize("text", ["1e3000000", LONG, "1e-999999"], ids=lambda text: text[:9])
def test_c2_monstrous_numbers_are_refused_in_a_millisecond(text):
    quotas.understood("warm", {"hard": {"limits.cpu": "x"}})
    begin = time.perf_counter()
    found = quotas.understood("team", {"hard": {"limits.cpu": text}})

    assert time.perf_counter() - begin < 0.01
    assert found[0] is None


@pytest.mark.parametrize("text", ["１２", "١٢", "1_000", " 1", "1\n", "+1", "5."], ids=ascii)
def test_c3_digits_and_spellings_beyond_the_grammar_are_refused(text):
    assert "limits.cpu" in problem({"hard": {"limits.cpu": text}})


@pytest.mark.parametrize(
    ("text", "amount"), [("12e3", 12_000), ("12E3", 12_000), ("12Ei", None), ("12E", None),
                         ("9223372036854775", 9223372036854775), ("9223372036854775808m", None)]
)  # fmt: skip
def test_c4_exa_and_exponents_are_told_apart_and_64_bits_are_the_limit(text, amount):
    spec = {"hard": {"limits.nvidia.com/gpu": text}}

    if amount is None:
        assert "2**63" in problem(spec)
    else:
        assert observed(spec).hard == {"limits.nvidia.com/gpu": amount}


def test_c4_an_amount_of_seconds_beyond_64_bits_is_refused():
    assert "64 bits" in problem({"hard": {"cash/limits.cpu": "9000T"}})


@pytest.mark.parametrize(
    ("key", "text", "amount"),
    [
        ("limits.cpu", "0.0000000001", 1),
        ("limits.cpu", "1n", 1),
        ("limits.nvidia.com/gpu", "500m", 1),
        ("requests.memory", "1.5", 2),
    ],
)
def test_c5_parts_of_a_unit_are_rounded_up_and_flagged(key, text, amount):
    fact = observed({"hard": {key: text}})

    assert (fact.hard, fact.notes) == ({key: amount}, (f"rounded_up:{key}",))


def test_c5_parts_of_a_unit_of_cash_are_rounded_up_and_flagged():
    fact = observed({"hard": {"cash/limits.cpu": "1n"}})

    assert (fact.cash, fact.notes) == ({"limits.cpu": 1}, ("rounded_up:cash/limits.cpu",))


def test_c7_a_quota_cannot_be_its_own_parent():
    assert problem({"parentBizGroup": "team"}).startswith("spec.parentBizGroup: ")


@pytest.mark.parametrize(
    "key",
    ["cpu", "limits.cpux", "limits.", "memory", "pods", "quota.cpu", "limits.cpu.", "limits.a/b/c",
     "cash/cpu", "cash/limits.ephemeral-storage", "cash/limits.rdma/hca", "Limits.cpu", "limits.CPU",
     "limits.cpu.A4 ", "limits.cpu\n", "", "limits.cpu." + "A" * 500],
    ids=lambda key: repr(key)[:20],
)  # fmt: skip
def test_c10_keys_that_name_no_resource_are_refused(key):
    assert "is no key" in problem({"hard": {key: "1"}})


def test_c10_models_that_differ_by_case_only_are_refused():
    said = problem({"hard": {"limits.nvidia.com/gpu.A100": 1, "limits.nvidia.com/gpu.a100": 1}})

    assert "differ by case only" in said


def test_c11_a_budget_of_zero_is_a_budget_and_a_negative_one_is_refused():
    assert observed({"hard": {"cash/limits.cpu": "0"}}).cash == {"limits.cpu": 0}
    assert "cash/limits.cpu" in problem({"hard": {"cash/limits.cpu": "-1"}})


def test_a_budget_in_bytes_is_refused_as_hours_are_plain_numbers():
    assert "plain number" in problem({"hard": {"cash/limits.memory": "64Gi"}})


@pytest.mark.parametrize(
    ("windows", "said"),
    [
        ([("2026-01-01", "2026-03-01"), ("2026-02-01", "2026-04-01")], "[1] overlaps [0]"),
        ([("2026-01-01", "2026-02-01"), ("2026-03-01", "2026-04-01")], "[1] leaves a gap"),
        ([("2026-02-01", "2026-01-01")], "[0] ends before it starts"),
        ([("2026-02-01", "2026-02-01")], "[0] ends before it starts"),
        ([("2026-01-01", "3026-01-01")], "more than ten years"),
    ],
)
def test_c12_windows_that_make_no_calendar_are_refused(windows, said):
    found = problem({"budget": {"windows": [window(*one) for one in windows]}})

    assert found.startswith("spec.budget.windows: ")
    assert said in found


@pytest.mark.parametrize(
    ("budget", "path"),
    [
        ({"windows": [{"from": "x", "until": "2026-01-01T00:00:00Z"}]}, "spec.budget.windows[0][from]"),
        ({"windows": [{"from": "2026-01-01T00:00:00.5Z", "until": "2026-01-02T00:00:00Z"}]},
         "spec.budget.windows[0][from]"),
        ({"windows": [{"until": "2026-01-01T00:00:00Z"}]}, "spec.budget.windows[0][from]"),
        ({"windows": [window("2026-01-01", "2026-02-01")] * 121}, "spec.budget.windows"),
        ({"windows": [window("2026-01-01", "2026-02-01")], "period": "Day"}, "spec.budget"),
        ({"period": "Year"}, "spec.budget.period"),
        ({"timeZone": "Mars/Olympus"}, "spec.budget.timeZone"),
        ({"timeZone": "../../etc/passwd"}, "spec.budget.timeZone"),
        ({"graceSeconds": -1}, "spec.budget.graceSeconds"),
        ({"graceSeconds": True}, "spec.budget.graceSeconds"),
    ],
    ids=lambda part: str(part)[:40],
)  # fmt: skip
def test_c12_a_wrong_budget_is_told_by_the_fields_path(budget, path):
    assert path.replace("[from]", ".from") in problem({"budget": budget})


@pytest.mark.parametrize(
    "name",
    [
        "A",
        "a.b",
        "a_b",
        "-a",
        "a-",
        "",
        "🐙",
        "\u202eevil",
        "a\0",
        "a\n",
        "\ud800",
        "x" * 64,
        "x" * 300,
    ],
    ids=lambda name: ascii(name)[:20],
)
def test_c13_names_are_labels_of_rfc_1123(name):
    spec, (told,) = quotas.understood(name, {"hard": {"limits.cpu": 1}})

    assert (spec, told.startswith("metadata.name: ")) == (None, True)


def test_c13_a_quota_with_another_name_is_said_with_its_problem():
    assert problem({"hard": {"limits.cpu": 1}}, name="a.b").startswith("metadata.name: ")


@pytest.mark.parametrize("parent", ["A", "a.b", "x" * 64, 7, None])
def test_c13_so_is_the_parents_name(parent):
    assert problem({"parentBizGroup": parent}).startswith("spec.parentBizGroup: ")


@pytest.mark.parametrize(
    ("selector", "said"),
    [
        ({"matchLabels": {"team": "a"}}, "spec.namespaceSelector.matchLabels: 'team': namespaces are selected by labels that"),
        ({"matchLabels": {"example.com/tier": "a"}}, "give the namespaces such a label, or name them in spec.namespaces"),
        ({"matchLabels": {"bursar.io/": "a"}}, "namespaces are selected by labels"),
        ({"matchLabels": {"bursar.io/a/b": "a"}}, "namespaces are selected by labels"),
        ({"matchLabels": {"bursar.io/tier": "a b"}}, "spec.namespaceSelector.matchLabels[bursar.io/tier]"),
        ({"matchExpressions": [{"key": "team", "operator": "Exists"}]}, "spec.namespaceSelector.matchExpressions[0].key"),
        ({"matchExpressions": [{"key": "bursar.io/a", "operator": "In"}]}, "In and NotIn need values"),
        ({"matchExpressions": [{"key": "bursar.io/a", "operator": "Exists", "values": ["a"]}]}, "DoesNotExist take none"),
        ({"matchExpressions": [{"key": "bursar.io/a", "operator": "Gt", "values": ["1"]}]}, "operator"),
        ({}, "a selector without requirements would select every namespace"),
        ({"matchLabel": {"bursar.io/tier": "a"}}, "a selector without requirements would select every namespace"),
        ({"matchLabels": {f"bursar.io/{n}": "" for n in range(17)}}, "at most 16"),
    ],
)  # fmt: skip
def test_a_selector_that_no_history_can_answer_is_refused(selector, said):
    assert said in problem({"namespaceSelector": selector})


def test_c15_fields_that_nobody_knows_are_left_out():
    assert observed({"hard": {"limits.cpu": 1}, "soft": {"limits.cpu": 2}}) == observed(
        {"hard": {"limits.cpu": 1}}
    )


@pytest.mark.parametrize("spec", [None, 7, [], "x", {"hard": 7}, {"hard": {"limits.cpu": 1.5}}])
def test_an_object_of_another_shape_is_kept_and_shown(spec):
    assert problem(spec).startswith("spec")


def test_an_unusable_quota_keeps_its_place_in_the_tree():
    assert observed({"parentBizGroup": "dept", "hard": {"x": 1}}).parent == "dept"


def test_a_problem_is_bounded_however_much_is_wrong():
    wrong = {f"limits.{'x' * 390}{number}": LONG for number in range(60)}

    assert len(problem({"hard": wrong, "elastic": {"min": wrong, "max": wrong}})) < 4_000


@pytest.mark.parametrize(
    ("elastic", "said"),
    [
        ({"min": {"cpu": 1}}, "min has cpu and max has not"),
        ({"min": {"cpu": "2Ki"}, "max": {"cpu": "2k"}}, "min of cpu (2Ki) is above max (2k)"),
        ({"max": {"CPU": 1}}, "is no key"),
        ({"sharedWeight": {"cpu": -1}}, "sharedWeight"),
    ],
)
def test_wrong_shares_are_told(elastic, said):
    assert said in problem({"elastic": elastic})


# Texts and manifests


@pytest.mark.parametrize(
    ("key", "amount", "text"),
    [
        ("limits.cpu", 10_000, "10"),
        ("limits.cpu.A4", 1_500, "1500m"),
        ("requests.memory", 64 * 2**30, "64Gi"),
        ("requests.memory", 1_500, "1500"),
        ("requests.memory", 0, "0"),
        ("limits.nvidia.com/gpu", 8, "8"),
        ("limits.nvidia.com/gpu-memory", 1024, "1024"),
        ("cash/limits.cpu", 3_600_000, "1"),
        ("cash/limits.cpu", -5_400_000, "-1.5"),
        ("cash/limits.nvidia.com/gpu", 1, "0"),
        ("cash/requests.memory", 3_686_400, "1"),
    ],
)
def test_amounts_are_told_as_people_write_them(key, amount, text):
    assert keys.key_text(key, amount) == text


def test_the_delivered_manifests_are_the_generated_ones():
    written = (ROOT_FOLDER / "deploy/manifests/crds/bursar.io.yaml").read_text()

    assert written == manifest()
    assert list(yaml.safe_load_all(written)) == crds()
