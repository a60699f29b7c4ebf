"""Notes: what rooms above the ledger must remember over a restart, without the store having to know what it is.

A note is a small text under a topic and a name. Whoever writes one owns the topic and alone can read its facts.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """Record: what is remembered of this name from now on. `facts` None: nothing any more."""

    account: str
    topic: str
    name: str
    facts: str | None
    """Usually JSON."""


@dataclass(slots=True)
class Notes:
    """The notes of one account."""

    _by_topic: dict[str, dict[str, str]] = field(default_factory=dict)

    def keep(self, note: Noted) -> None:
        """Take a note in, in place of a former one of its name."""
        topic = self._by_topic.setdefault(note.topic, {})
        if note.facts is None:
            topic.pop(note.name, None)
        else:
            topic[note.name] = note.facts

    def get(self, topic: str, name: str) -> str | None:
        return self._by_topic.get(topic, {}).get(name)

    def all(self, topic: str) -> dict[str, str]:
        """Return the notes under a topic by name; a copy, so that they may be changed meanwhile."""
        return dict(self._by_topic.get(topic, {}))

    def forget(self, topic: str) -> None:
        """Let go of a topic whose owner has taken its notes up and keeps them in mind itself."""
        self._by_topic.pop(topic, None)
