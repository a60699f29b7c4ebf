"""Causes: why mail is dead, known by the sentences that its rows keep, and what each asks of a person.

The sentences are written where the decisions are made (`decision`, `classify`, `bars`, `strays`), with numbers in them;
so that a person sees which are the same, they are told apart here by their words.
Must not hold: how rows are counted (`outbox.depths`), how it is shown (`commands.status`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cause:
    """Why nobody sends a mail any more."""

    says: str
    todo: str


_TWO = Cause("another mail has its key", "find out whose key it is; enqueue it anew, under another")

#: Words of a sentence → what they mean. The first that is found counts: the last attempt of an old mail is no cause.
CAUSES: tuple[tuple[str, Cause], ...] = (
    ("purged or erased", Cause("what it said is gone", "enqueue it anew, under another key")),
    ("edited by hand", Cause("the row was edited by hand", "set it right, then requeue --id N")),
    (
        "not stored any more",
        Cause("an attachment is not stored any more", "enqueue it anew, under another key"),
    ),
    (
        "lost with its worker",
        Cause("its workers died with it", "find out what it does to them, then requeue --id N"),
    ),
    ("attempts spent", Cause("attempts are spent", "mend the cause, then requeue --state dead")),
    ("older than", Cause("it is too old", "still wanted? mend the cause, then requeue --state dead")),
    ("our key with other bytes", _TWO),
    ("a request with this key before", _TWO),
)

_TODO = "mend the cause, then requeue --id N"


def cause_of(sentence: str | None) -> Cause:
    """The cause that a row tells; a sentence that is in no table is its own."""
    for words, cause in CAUSES:
        if words in (sentence or ""):
            return cause
    return Cause(sentence or "nobody wrote down why", _TODO)


def counted(sentences: Mapping[str | None, int]) -> list[tuple[Cause, int]]:
    """How many mails have which cause, the most frequent first; of `sentences` with the number of rows that keep them."""
    found: Counter[Cause] = Counter()
    for sentence, count in sentences.items():
        found[cause_of(sentence)] += count
    return sorted(found.items(), key=lambda each: (-each[1], each[0].says))
