"""Namespaces selected by a quota by their labels: Kubernetes' LabelSelector, for labels present in every history.

The settings decide about other observed labels of namespaces. The history could not answer a selector with such a
label. ``NotIn`` or ``DoesNotExist`` would select every namespace without the published label. So it is refused. An
empty selector would select every namespace, also where its fields are misspelled: it is refused, too.

Source: docs/admission.md, "Namespaces of a quota"; Kubernetes API reference, LabelSelector.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from bus.kube.crds import rules
from bus.kube.kinds import NAME_LABEL, SELECTABLE

#: Most requirements of each form, and most values of one.
MOST_REQUIREMENTS = 16
MOST_VALUES = 64

_NAME = re.compile(rules.LABEL_NAME_PATTERN.strip("^$"))

Value = Annotated[str, Field(max_length=63, pattern=rules.LABEL_VALUE_PATTERN)]


class _Model(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, strict=True, frozen=True, extra="ignore")


def _checked(key: str) -> str:
    """A label key allowed in selectors of namespaces."""
    prefix, _, name = key.rpartition("/")
    is_known = key == NAME_LABEL or f"{prefix}/" in SELECTABLE
    if not is_known or len(name) > 63 or not _NAME.fullmatch(name):
        raise PydanticCustomError(
            "refused", "{message}", {"message": f"{key[:80]!r}: {rules.SELECTED_BY}"}
        )
    return key


class LabelRequirement(_Model):
    """What the label ``key`` of a namespace has to be."""

    model_config = ConfigDict(json_schema_extra=rules.of_requirement)

    key: str = Field(max_length=317, json_schema_extra=rules.of_selected_key)
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[Value] = Field(default=[], max_length=MOST_VALUES)

    @field_validator("key")
    @classmethod
    def _key(cls, key: str) -> str:
        return _checked(key)

    @model_validator(mode="after")
    def _has_values(self) -> Self:
        if bool(self.values) != (self.operator in {"In", "NotIn"}):
            raise PydanticCustomError("refused", "{message}", {"message": rules.VALUES_ARE})
        return self


class NamespaceSelector(_Model):
    """A namespace is selected that meets every requirement."""

    model_config = ConfigDict(json_schema_extra=rules.of_selector)

    match_labels: dict[str, Value] = Field(
        default={},
        max_length=MOST_REQUIREMENTS,
        description="Labels by key, each with the value that it has to have.",
        json_schema_extra=rules.of_selected_labels,
    )
    match_expressions: list[LabelRequirement] = Field(default=[], max_length=MOST_REQUIREMENTS)

    @field_validator("match_labels")
    @classmethod
    def _keys(cls, found: dict[str, str]) -> dict[str, str]:
        for key in found:
            _checked(key)
        return found

    @model_validator(mode="after")
    def _is_not_empty(self) -> Self:
        if not self.match_labels and not self.match_expressions:
            raise PydanticCustomError("refused", "{message}", {"message": rules.SELECTS_NOTHING})
        return self
