"""Faults of what comes after the yes: the fate of a mail (`simulator.provider.fate`), and events that are too early."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from simulator.provider.answer import Answer
from simulator.provider.fate import Destiny, Fate
from simulator.provider.faults.stages import Stages


@dataclass(frozen=True, slots=True, kw_only=True)
class DecideFate:
    """Say yes, and let this become of the mail to the recipients that the rule's `recipient` names (none: all).

    Later rules decide too, so that the answer may still go wrong. The sender hears of the fate by events.
    """

    name: ClassVar[str] = "fate"
    stages: ClassVar[Stages] = {"smtp": ("message",), "http": ("accept",)}
    fate: Fate
    after_s: float | None = None
    code: int | None = None
    enhanced: str | None = None
    text: str | None = None
    category: str | None = None
    suppresses: bool = True

    def answer(self) -> Answer | None:
        return None

    def destiny(self) -> Destiny:
        return Destiny(
            fate=self.fate,
            after_s=self.after_s,
            code=self.code,
            enhanced=self.enhanced,
            text=self.text,
            category=self.category,
            suppresses=self.suppresses,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TellBeforeTheAnswer:
    """Take the mail, tell its events to the webhook, and only then answer (`within_s` later at the latest).

    What becomes of the mail has then happened already, unless a rule of fate says when. Later rules decide too: the
    answer that comes last may still go wrong.
    """

    name: ClassVar[str] = "webhook_early"
    stages: ClassVar[Stages] = {"smtp": ("message",), "http": ("accept",)}
    within_s: float = 5.0

    def answer(self) -> Answer | None:
        return None
