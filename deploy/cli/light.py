"""Commands with plain values, read without pydantic.

The library builds a pydantic adapter for each option, even for absent ones: a tenth of a second for each of our
commands. Here text, paths, choices and defaults are read as they are. The library's own reader handles the others,
with its messages. Numbers have messages of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer._coercion import RuntimeParam, build_runtime_param
from typer.core import TyperCommand

if TYPE_CHECKING:
    from typer._click import Context


class Light:
    """A command of the library, lightened."""

    def get_params(self, ctx: Context) -> list[Any]:
        """Its parameters, the one for help included."""
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in found:
            descriptor = getattr(parameter, "type_descriptor", None)
            if descriptor is not None and not isinstance(parameter._runtime_param, _Plain):
                parameter._runtime_param = _Plain(
                    annotation=descriptor.annotation,
                    parameter_info=descriptor.parameter_info,
                    descriptor=descriptor,
                    default=getattr(parameter, "default", None),
                )
        return found


class LightCommand(Light, TyperCommand):
    """A single command."""


@dataclass(frozen=True)
class _Plain(RuntimeParam):
    """Reads values without rules; the library's own reader handles the others, with its messages."""

    descriptor: Any = None
    default: Any = None

    def _coerce_value(self, value: Any, param: Any, ctx: Context) -> Any:
        wanted = self.annotation
        if isinstance(value, str) and not self.descriptor.is_choice:
            if wanted is str:
                return value
            if wanted is Path:
                return Path(value)
        if isinstance(value, str) and isinstance(wanted, type) and issubclass(wanted, Enum):
            for member in wanted:
                if member.value == value:
                    return member
        if isinstance(wanted, type) and isinstance(value, wanted) and value == self.default:
            return value
        if wanted == list[str] and isinstance(value, list | tuple):
            return list(value)
        if wanted in (int, float) and isinstance(value, str):
            self._check_number(value, param, ctx)
        return build_runtime_param(self.descriptor)._coerce_value(value, param, ctx)

    def _check_number(self, text: str, param: Any, ctx: Context) -> None:
        """Raises BadParameter, with the accepted numbers, for a text that the parameter does not accept."""
        low, high = self.parameter_info.min, self.parameter_info.max
        try:
            number = self.annotation(text)
            if (low is None or number >= low) and (high is None or number <= high):
                return
        except ValueError:
            pass
        raise typer.BadParameter(
            f"{text[:32]!r} is not {_range(self.annotation, low, high)}", ctx=ctx, param=param
        )


def _range(kind: type, low: float | None, high: float | None) -> str:
    """The accepted numbers, in words."""
    numbers = "a whole number" if kind is int else "a number"
    if low is not None and high is not None:
        return f"{numbers} from {low:,} to {high:,}"
    least = "" if low is None else f" of at least {low:,}"
    return numbers + (f" of at most {high:,}" if high is not None else least)
