"""The public schema of ``BizGroupResourceQuota`` (``bursar.io/v1alpha1``, cluster scope): fields of people, and
fields of Bursar.

Each rule is checked at the earliest place. The API server checks shapes and the rules in
``x-kubernetes-validations`` (CEL), so `kubectl apply` of a bad quota shows the way out without any webhook; the
models below refuse the rest with the field's path (sizes in 64 bits, names of time zones, overlaps). They check all
of it again: an object may be older than a rule. Rules across several quotas (parent, sums) belong to the webhook.

Source: docs/quotas.md; docs/wrong-input.md C; Kubernetes API conventions.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from bus.clock import SECOND_US, parse_stamp
from bus.errors import QuantityError, TimestampError
from bus.kube.crds import keys, rules
from bus.kube.crds.keys import Quantity
from bus.kube.crds.selectors import NamespaceSelector

GROUP, VERSION, KIND, PLURAL = (
    "bursar.io",
    "v1alpha1",
    "BizGroupResourceQuota",
    "bizgroupresourcequotas",
)
API_VERSION = f"{GROUP}/{VERSION}"
PATH = f"/apis/{GROUP}/{VERSION}/{PLURAL}"

#: Most keys of one map, most windows of one budget.
MOST_KEYS = 64
MOST_WINDOWS = 120
#: Most namespaces of one quota.
MOST_NAMESPACES = 1_024
#: Explicit windows span at most ten years: amounts times ten years stay inside 64 bits.
LONGEST_BUDGET_SECONDS = 3_653 * 86_400
#: Most reported problems of one object.
MOST_PROBLEMS = 8

Amount = Annotated[Quantity, Field(json_schema_extra=rules.of_quantity)]
Quantities = Annotated[dict[str, Amount], Field(max_length=MOST_KEYS)]
Namespace = Annotated[str, Field(max_length=63, pattern=rules.LABEL_PATTERN)]
Texts = Annotated[dict[str, str], Field(json_schema_extra=rules.WHOLE)]
ResourceQuantities = Annotated[Quantities, Field(json_schema_extra=rules.of_resources)]


class _Model(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, strict=True, frozen=True, extra="ignore")


def _refused(message: str) -> PydanticCustomError:
    # Braces in foreign text would be taken for places to fill in.
    return PydanticCustomError("refused", "{message}", {"message": message})


def _check_amounts(found: dict[str, Quantity], *, is_key: Any, amount: Any, keys_are: str) -> None:
    for key, quantity in found.items():
        if not is_key(key):
            raise _refused(f"{key[:80]!r} is no key: {keys_are}")
        try:
            amount(key, quantity)
        except QuantityError as error:
            raise _refused(f"{key}: {str(quantity)[:32]!r}: {error.reason}") from None
    folded = {key.lower(): key for key in found}
    for key in found:
        if folded[key.lower()] != key:
            raise _refused(f"{key!r} and {folded[key.lower()]!r} differ by case only")


class ElasticField(_Model):
    """Shares of what the tree has: ``min`` is kept for it, up to ``max`` is lent by weight."""

    min: ResourceQuantities = Field(default={}, description="What it gets whatever others ask.")
    max: ResourceQuantities = Field(default={}, description="The most it gets.")
    shared_weight: ResourceQuantities | None = Field(
        default=None, description="Its part in what is left over; max where it is not given."
    )
    allow_lent_resource: bool = Field(
        default=True, description="What it does not ask for goes to others, its min too."
    )
    is_parent: bool = Field(default=False, description="Holds quotas, not workloads.")
    tree_id: str = Field(default="", alias="treeID", max_length=63, description="Tree it is in.")

    @field_validator("min", "max", "shared_weight")
    @classmethod
    def _amounts(cls, found: dict[str, Quantity] | None) -> dict[str, Quantity] | None:
        _check_amounts(
            found or {},
            is_key=keys.is_resource,
            amount=keys.resource_amount,
            keys_are=rules.RESOURCES_ARE,
        )
        return found

    @model_validator(mode="after")
    def _min_within_max(self) -> Self:
        for name, quantity in self.min.items():
            if name not in self.max:
                raise _refused(f"min has {name} and max has not")
            most = self.max[name]
            if keys.resource_amount(name, quantity)[0] > keys.resource_amount(name, most)[0]:
                raise _refused(f"min of {name} ({quantity}) is above max ({most})")
        return self


class Window(_Model):
    """A period of a budget, [from, until)."""

    from_: str = Field(alias="from", description="RFC 3339.", json_schema_extra=rules.STAMP)
    until: str = Field(description="RFC 3339.", json_schema_extra=rules.STAMP)

    @field_validator("from_", "until")
    @classmethod
    def _stamp(cls, text: str) -> str:
        try:
            if parse_stamp(text) % SECOND_US:
                raise _refused("whole seconds only")
        except TimestampError as error:
            raise _refused(f"{text[:40]!r}: {error.reason}") from None
        return text

    def seconds(self) -> tuple[int, int]:
        """[from, until) in seconds UTC."""
        return parse_stamp(self.from_) // SECOND_US, parse_stamp(self.until) // SECOND_US


class BudgetField(_Model):
    """When the amounts of ``cash/`` keys begin anew, and what happens when they are spent."""

    model_config = ConfigDict(json_schema_extra=rules.of_budget)

    period: Literal["Day", "Week", "Month", "Total"] | None = Field(
        default=None, description="Total never begins anew; taken where windows are not given."
    )
    time_zone: str = Field(
        default="UTC",
        max_length=64,
        pattern=rules.ZONE_PATTERN,
        description="IANA name; days, weeks (from Monday) and months begin there.",
    )
    windows: list[Window] = Field(
        default=[],
        max_length=MOST_WINDOWS,
        description="Instead of a period: in order, each beginning where the one before ends.",
        json_schema_extra=rules.of_windows,
    )
    exhaustion: Literal["Warn", "DenyNew", "GraceThenEvict"] = Field(
        default="DenyNew",
        description="Warn admits all the same; DenyNew refuses what asks for more and lets run what runs; "
        "GraceThenEvict also ends what runs after graceSeconds.",
    )
    grace_seconds: int = Field(default=3600, ge=0, le=31 * 86_400)

    @field_validator("time_zone")
    @classmethod
    def _zone(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (LookupError, ValueError, OSError):
            raise _refused(f"{name!r} is no IANA time zone") from None
        return name

    @field_validator("windows")
    @classmethod
    def _in_order(cls, windows: list[Window]) -> list[Window]:
        spans = [window.seconds() for window in windows]
        for number, (begin, end) in enumerate(spans):
            if end <= begin:
                raise _refused(f"[{number}] ends before it starts")
            if number and begin != spans[number - 1][1]:
                how = "overlaps" if begin < spans[number - 1][1] else "leaves a gap after"
                raise _refused(f"[{number}] {how} [{number - 1}]")
        if spans and spans[-1][1] - spans[0][0] > LONGEST_BUDGET_SECONDS:
            raise _refused("the windows span more than ten years")
        return windows

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if self.period is not None and self.windows:
            raise _refused("period and windows exclude each other")
        return self


class QueueField(_Model):
    """How workloads wait while the quota is full."""

    hold: bool = Field(
        default=False, description="Hold what can be suspended instead of refusing it."
    )
    order: Literal["Strict", "BackFill"] = Field(
        default="BackFill", description="Whether a later workload may pass one that does not fit."
    )
    max_head_delay_seconds: int = Field(
        default=0, ge=0, le=31 * 86_400, description="The longest that back-fill delays the head."
    )
    gang: bool = Field(
        default=False,
        description="What is held gets nodes for all its pods or for none, where its scheduler reads Koordinator's annotations.",
    )


class BizGroupQuotaSpec(_Model):
    """The limits of a business group: held amounts (hard), spending (cash) and shared capacity (elastic)."""

    parent_biz_group: str = Field(
        default="",
        max_length=63,
        description="The quota above; empty for a root. Cannot be changed.",
        json_schema_extra=rules.of_parent,
    )
    hard: Quantities = Field(
        default={},
        description="Limits by key: requests.<resource> or limits.<resource>, with .<TYPE> behind it for one model and "
        "cash/ before it for a budget in core-, card- or GiB-hours. A key that is absent is no limit.",
        json_schema_extra=rules.of_hard,
    )
    elastic: ElasticField | None = Field(default=None, json_schema_extra=rules.of_elastic)
    budget: BudgetField | None = None
    queue: QueueField | None = None
    namespaces: list[Namespace] = Field(
        default=[],
        max_length=MOST_NAMESPACES,
        description="The namespaces that it serves: workloads of others may not name it. Neither names nor a selector: those of "
        "the quota above, else every namespace that is not mapped to another quota.",
        json_schema_extra=rules.AS_SET,
    )
    namespace_selector: NamespaceSelector | None = Field(
        default=None,
        description="Serves the namespaces with these labels, too. Labels that may be named: kubernetes.io/metadata.name, and "
        "those below bursar.io/ and app.kubernetes.io/.",
    )
    unstated_limits: Literal["Refuse", "ChargeRequests"] = Field(
        default="Refuse",
        description="Containers that state no limit of a resource which a limits.<resource> key names: Refuse refuses their "
        "workload (must-specify); ChargeRequests charges what they request, and refuses what requests nothing either.",
    )

    @field_validator("parent_biz_group")
    @classmethod
    def _name(cls, name: str) -> str:
        if name and not rules.is_label(name):
            raise _refused(rules.NAMES_ARE)
        return name

    @field_validator("hard")
    @classmethod
    def _amounts(cls, found: dict[str, Quantity]) -> dict[str, Quantity]:
        _check_amounts(found, is_key=keys.is_key, amount=keys.key_amount, keys_are=rules.KEYS_ARE)
        return found


class QuotaCondition(_Model):
    """One aspect of the quota's state, as every Kubernetes object tells it."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str = ""
    message: str = ""
    last_transition_time: str = Field(json_schema_extra=rules.STAMP)
    observed_generation: int = 0


class Shown(_Model):
    """The columns of `kubectl get`, as short text."""

    used: str = ""
    hard: str = ""
    budget_left: str = ""


class QuotaStatus(_Model):
    """What Bursar's ledger knows of the quota. Written by Bursar only."""

    hard: Texts = Field(
        default={}, description="The limits in force; of cash/ keys the hours of this period."
    )
    used: Texts = Field(
        default={},
        description="Held by it and granted to its children; of cash/ keys the hours that are spent.",
    )
    self_used: Texts = Field(default={}, description="Held by its own workloads.")
    runtime: Texts = Field(default={}, description="The elastic share it has now.")
    budget_left: Texts = Field(default={}, description="Hours left in this period.")
    exhausts_at: str = Field(
        default="",
        description="When the first budget was spent, or will be if what runs goes on; empty: never.",
    )
    forecast: Texts = Field(
        default={},
        description="By key, when a budget (cash/) will be used up or a limit reached, by the changes between past days: the "
        "likely day, the days by which it is so in one and in nine of ten futures, and how far such forecasts were off. Worked "
        "out once an hour.",
    )
    shown: Shown = Shown()
    conditions: list[QuotaCondition] = Field(default=[], json_schema_extra=rules.BY_TYPE)
    last_reconcile_time: str = Field(default="", description="The ledger's moment of this status.")
    observed_sequence: int = Field(default=0, description="The history up to which it was folded.")


class Quota(_Model):
    """How much a business group may hold, spend and share: workloads that would exceed it are refused as a whole."""

    model_config = ConfigDict(json_schema_extra=rules.of_object)

    spec: BizGroupQuotaSpec
    status: QuotaStatus | None = None


def understood(name: str, spec: object) -> tuple[BizGroupQuotaSpec | None, tuple[str, ...]]:
    """The spec of the quota called ``name``, or None and the reasons: sentences with a field path first.

    ``spec`` is the object's, decoded. At most eight problems are reported.
    """
    found: BizGroupQuotaSpec | None = None
    problems = []
    if not rules.is_label(name):
        problems.append(f"metadata.name: {rules.NAMES_ARE}")
    try:
        found = BizGroupQuotaSpec.model_validate(spec)
    except ValidationError as error:
        problems += [f"{_path(one['loc'])}: {one['msg']}"[:400] for one in error.errors()]
    if found is not None and name and found.parent_biz_group == name:
        problems.append("spec.parentBizGroup: a quota cannot be its own parent")
    return (None if problems else found), tuple(dict.fromkeys(problems))[:MOST_PROBLEMS]


def _path(location: tuple[int | str, ...]) -> str:
    path = "spec"
    for part in location:
        # Alternatives of a union are no part of the object.
        if isinstance(part, int) or part not in _ALTERNATIVES:
            text = str(part)[:80]
            path += f".{text}" if text.isidentifier() else f"[{text}]"
    return path


_ALTERNATIVES = frozenset({"str", "int"})
