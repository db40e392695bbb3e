"""Settings of the API for questions: its address, and the limits of each answer.

Source: docs/operating.md.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class ApiSettings(BaseModel):
    """Questions over HTTPS, for `kubectl bursar`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: Whether ``bursar up`` answers them, too. ``bursar api`` always does.
    serves: bool = False
    #: Where questions are answered.
    host: str = "0.0.0.0"
    port: int = Field(9445, ge=0, le=65_535)
    #: Serving certificate and its key (PEM), kept by another program; None = Bursar's own.
    certificate: Path | None = None
    key: Path | None = None
    #: The service by which it is reached, and its namespace: Bursar's own certificate is for this name.
    service: str = "bursar-api"
    namespace: str = "bursar-system"
    #: How long an answer may take, of time and of CPU.
    seconds: float = Field(20.0, gt=0, le=600)
    #: Memory that an answer may take, and the largest answer.
    memory_mib: int = Field(1024, ge=128, le=65_536)
    answer_mib: int = Field(32, ge=1, le=1_024)
    #: Answers that are worked out at once.
    at_once: int = Field(2, ge=1, le=64)
