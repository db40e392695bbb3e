"""Settings of devices."""

from __future__ import annotations

import re

from pydantic import BaseModel, ConfigDict, Field, field_validator

from bus.kube.watch.labels import Accelerator

#: Of a resource of Kubernetes with a domain.
_RESOURCE = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")  # fmt: skip
#: Most names.
MOST = 32


class AcceleratorSettings(BaseModel):
    """One resource that counts as cards."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: How many thousandths of a card each of it is: 10 where a card is given out in hundredths.
    gpu_milli: int = Field(1000, ge=1, le=1000)
    #: What such a card is called where no label of its node says it; empty = the part of the resource's name after the slash.
    model: str = Field("", pattern=r"^[A-Za-z0-9 ._-]{0,63}$")


class DeviceSettings(BaseModel):
    """What counts as a card besides what Bursar knows. See ``docs/devices.md``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: Resources of device plugins that count as cards, as in ``{"cambricon.com/mlu370": {"model": "MLU370"}}``: ``gpu_milli``
    #: thousandths of a card each (1000), of a ``model``. It holds for what is observed from then on.
    accelerators: dict[str, AcceleratorSettings] = Field({}, max_length=MOST)

    @field_validator("accelerators")
    @classmethod
    def _named(cls, found: dict[str, AcceleratorSettings]) -> dict[str, AcceleratorSettings]:
        for name in found:
            if not _RESOURCE.fullmatch(name):
                raise ValueError(
                    f"{name}: name a resource with its domain, as in cambricon.com/mlu370"
                )
            if name.startswith(("nvidia.com/", "volcano.sh/")) or name.endswith("/gpu"):
                raise ValueError(f"{name} counts as a card already")
        return found

    def policy(self) -> tuple[tuple[str, Accelerator], ...]:
        """For :class:`bus.kube.watch.labels.LabelPolicy`."""
        return tuple(
            (name, Accelerator(one.gpu_milli, one.model or name.partition("/")[2]))
            for name, one in sorted(self.accelerators.items())
        )
