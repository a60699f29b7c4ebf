"""Faults of the look-up: it answers, and what it says is not what is in the ledger (`simulator.provider.lookup`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from simulator.provider.answer import Answer
from simulator.provider.faults.stages import Stages
from simulator.provider.lookup import View

_LOOKUP: Stages = {"http": ("lookup",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class FindNothing:
    """Say that the mail is not there (404, or an empty list) although it is."""

    name: ClassVar[str] = "lookup_misses"
    stages: ClassVar[Stages] = _LOOKUP

    def answer(self) -> Answer | None:
        return None

    def view(self) -> View:
        return View(hides=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class FindWhatWas:
    """Answer from an old copy: what was accepted in the last `age_s` seconds is not shown."""

    name: ClassVar[str] = "lookup_stale"
    stages: ClassVar[Stages] = _LOOKUP
    age_s: float

    def answer(self) -> Answer | None:
        return None

    def view(self) -> View:
        return View(age_s=self.age_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class FindEverything:
    """Ignore the filter: a look-up by key or Message-ID shows all mails of the account, this one or not."""

    name: ClassVar[str] = "lookup_unfiltered"
    stages: ClassVar[Stages] = _LOOKUP

    def answer(self) -> Answer | None:
        return None

    def view(self) -> View:
        return View(everything=True)
