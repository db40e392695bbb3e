"""bizrq.json: business-group quotas, through keys, tree, decisions and the keeper's releases."""

from fractions import Fraction

from bus.events.admissions import (
    AdmissionReleased,
    Meter,
    QuotaDeclared,
    QuotaSpec,
    Release,
    TreeMetered,
)
from bus.kube.kinds import GOVERNED, asked
from projections.budgets.periods import Period
from projections.budgets.spend import SpendPiece, spend_of
from projections.quota_trees import Tree, TreeOverlay, charged, prefixes
from projections.quota_trees.shape import BUSINESS
from reactors.admission.deciding.decide import Request, adopt, decide
from reactors.admission.deciding.declare import Proposal, declare
from tests.cases.amounts import milli

DEPLOYMENT = next(kind for kind in GOVERNED if kind.kind == "Deployment")
NOW_US = 1_767_225_600_000_000


class World:
    """A tree that grows by decisions, each stored as it is made."""

    def __init__(self):
        self.tree = Tree("biz/root")

    def store(self, draft):
        draft.store(range(self.tree.sequence + 1, self.tree.sequence + 1 + len(draft.facts)))

    def observe(self, name, hard, parent="", cash=None):
        draft = TreeOverlay(self.tree)
        spec = QuotaSpec(hard=amounts(hard), cash=amounts(cash or {}))
        draft.add(
            QuotaDeclared(
                number=draft.number, quota=name, uid=name, kind=BUSINESS, parent=parent,
                stage="observed", verdict="adopted", reason="seen", spec=spec,
            ),
            NOW_US,
        )  # fmt: skip
        self.store(draft)

    def hold(self, quota, used):
        """Let something hold ``used``, whatever the limits say: it was there before."""
        node = self.tree.nodes[quota]
        for key, amount in amounts(used).items():
            node.self_used[key] = node.self_used.get(key, 0) + amount

    def ask(self, uid, demand, types=None):
        draft = TreeOverlay(self.tree)
        request = Request("g", uid, "Deployment", "ns", uid, demand, types or {})
        answer = decide(draft, request, NOW_US)
        draft.add(answer, NOW_US)
        self.store(draft)
        return answer

    def adopt(self, uid, demand, types):
        draft = TreeOverlay(self.tree)
        request = Request("g", uid, "Deployment", "ns", uid, demand, types)
        draft.add(adopt(draft, request, "ungoverned"), NOW_US)
        self.store(draft)

    def meter(self, quota, spent):
        draft = TreeOverlay(self.tree)
        meters = tuple(Meter(quota, key, milli(n), 0, 0) for key, n in spent.items())
        draft.add(TreeMetered(number=draft.number, meters=meters), NOW_US)
        self.store(draft)

    def see(self, uid, charge):
        """The keeper saw the object with this charge and gave the rest back."""
        draft = TreeOverlay(self.tree)
        draft.add(
            AdmissionReleased(number=draft.number, releases=(Release("g", uid, "shrunk", charge),)),
            NOW_US,
        )
        self.store(draft)

    def propose(self, **fields):
        draft = TreeOverlay(self.tree)
        answer = declare(draft, Proposal(**fields), NOW_US)
        draft.add(answer, NOW_US)
        self.store(draft)
        return answer


def amounts(quantities):
    return {key: milli(value) for key, value in quantities.items()}


def deployment(given):
    containers = [
        {"name": f"c{n}", "resources": {"limits": {key.partition(".")[2]: str(value)}}}
        for n, container in enumerate(given["containers"])
        for key, value in container.items()
    ]
    return {
        "metadata": {"name": "w", "namespace": "ns"},
        "spec": {
            "replicas": given["replicas"],
            "template": {"spec": {"containers": containers}},
        },
    }


def demand(given):
    """Through the kinds, and then all keys in thousandths, as the cases' memory and cards are cores."""
    found = asked(DEPLOYMENT, deployment(given)).demand
    return {key: n if key.endswith(".cpu") else n * 1000 for key, n in found.items()}


def admit_workload(given, expect):
    world = World()
    plain = {k: n for k, n in given["hard"].items() if not k.startswith("cash/")}
    cash = {k[5:]: n for k, n in given["hard"].items() if k.startswith("cash/")}
    world.observe("g", plain, cash=cash)
    used = {k: n for k, n in given["used"].items() if not k.startswith("cash/")}
    meters = {k[5:]: n for k, n in given["used"].items() if k.startswith("cash/")}
    world.meter("g", meters)
    if "old" in given:
        types = given["old"].get("types", given["types"])
        old = charged(demand(given["old"]), types)
        world.adopt("w", demand(given["old"]), types)
        used = {k: n - Fraction(old.get(k, 0), 1000) for k, n in used.items()}
    world.hold("g", used)
    answer = world.ask("w", demand(given), given["types"])
    assert (answer.verdict == "admitted") == expect["allow"]
    if expect["allow"]:
        # What it no longer asks for is held until it is seen.
        world.see("w", charged(demand(given), given["types"]))
    if "used" in expect:
        node = world.tree.nodes["g"]
        assert {k: node.used(k) for k in amounts(plain)} == amounts(
            {k: n for k, n in expect["used"].items() if not k.startswith("cash/")}
        )
    if "exceeded" in expect:
        assert [deficit.key for deficit in answer.deficits] == sorted(expect["exceeded"])


def concurrent(given, expect):
    world = World()
    world.observe("g", given["hard"])
    world.hold("g", given["used"])
    answers = [world.ask(f"w{n}", amounts(one)) for n, one in enumerate(given["requests"])]
    assert sum(a.verdict == "admitted" for a in answers) == expect["admitted_count"]
    node = world.tree.nodes["g"]
    assert {key: node.used(key) for key in given["hard"]} == amounts(expect["used"])


def create_group(given, expect):
    world = World()
    if given.get("name_exists"):
        world.observe("child", given.get("hard", {}))
    parent = given.get("parent")
    if parent:
        world.observe("parent", parent["hard"])
        world.hold("parent", parent["used"])
    spec = QuotaSpec(hard=amounts(given.get("hard", {})))
    name = "parent" if parent else ""
    answer = world.propose(operation="CREATE", name="child", uid="new", parent=name, spec=spec)
    check_group(world, answer, expect)


def update_group(given, expect):
    world = World()
    change, parent = given.get("change", {}), given.get("parent")
    old_hard = given.get("old_hard", given.get("hard", {}))
    if parent:
        world.observe("parent", parent["hard"])
    above = "parent" if parent else ""
    world.observe("child", old_hard, parent=above)
    if parent:
        rest = {k: n - old_hard.get(k, 0) for k, n in parent["used"].items()}
        world.hold("parent", rest)
    answer = world.propose(
        operation="UPDATE", name="child", uid="child", parent=change.get("parent", above),
        old_parent=above, spec=QuotaSpec(hard=amounts(given.get("hard", old_hard))),
    )  # fmt: skip
    check_group(world, answer, expect)


def delete_group(given, expect):
    world = World()
    world.observe("group", given.get("hard", {}))
    for n, child in enumerate(given.get("children", range(given.get("children_count", 0)))):
        hard = child.get("hard", {}) if isinstance(child, dict) else {}
        world.observe(f"child{n}", hard, parent="group")
    answer = world.propose(operation="DELETE", name="group", uid="group", parent="", spec=None)
    check_group(world, answer, expect)


def check_group(world, answer, expect):
    assert (answer.verdict == "admitted") == expect["allow"]
    if "exceeded" in expect:
        assert [deficit.key for deficit in answer.deficits] == sorted(expect["exceeded"])
    if "missing_keys" in expect:
        assert list(answer.keys) == sorted(expect["missing_keys"])
    if "error" in expect:
        assert answer.reason.replace("-", "_") == expect["error"]
    if "parent_used" in expect:
        node = world.tree.nodes["parent"]
        assert {k: node.used(k) for k in expect["parent_used"]} == amounts(expect["parent_used"])


def status(given, expect):
    world = World()
    world.observe("g", {})
    world.hold("g", given["self_used"])
    for n, hard in enumerate(given["children_hard"]):
        world.observe(f"child{n}", hard, parent="g")
    node = world.tree.nodes["g"]
    assert {key: node.used(key) for key in expect["used"]} == amounts(expect["used"])


def cash_step(given, expect):
    """What the ledger's intervals add to a budget between two moments: the article's controller step."""
    period = Period(seconds(given["last_reconcile_h"]), seconds(given["now_h"]))
    spent = sum(
        spend_of(
            SpendPiece(
                seconds(pod["scheduled_h"]),
                None if pod["ended_h"] is None else seconds(pod["ended_h"]),
                milli(pod["cores"]),
            ),
            period,
        ).at(seconds(given["now_h"]))
        for pod in given["pods"]
        if pod["scheduled_h"] is not None
    )
    assert spent == milli(expect["core_hours_added"]) * 3600


def charged_keys(given, expect):
    assert list(prefixes(given["key"])) == expect["keys"]


OPS = {
    check.__name__: check
    for check in (
        admit_workload, concurrent, create_group, update_group, delete_group, status, cash_step,
        charged_keys,
    )
}  # fmt: skip


def seconds(hours):
    """Whole seconds of a time in hours; the cases write thirds of an hour as decimals."""
    return round(Fraction(str(hours)) * 3600)


def check(case):
    OPS[case["given"]["op"]](case["given"], case["expect"])
