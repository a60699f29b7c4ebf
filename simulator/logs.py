"""What the simulator logs, and what it never does: no body, no subject, no credential, no address in full.

Text for people, one JSON object a line for machines. A line has a message and facts; the facts of an attempt are
those of the ledger, so that a line leads there. Every text is scrubbed on its way out, whoever logged it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

from simulator.provider.ledger import Attempt

FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")

#: An address in a text: what comes before the sign is cut after its first character.
_ADDRESS = re.compile(r"([^\s@<>\"'(),;:=]{1,256})@([^\s@<>\"'(),;:]{1,256})")
_BREAKS = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]")

log = logging.getLogger("simulator.attempts")


def begin(form: str = "text", level: str = "warning", stream: TextIO | None = None) -> None:
    """Log to `stream` (the standard error) from now on, in this form, from this level on. Other programs' at warning."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("simulator").setLevel(level.upper())


def scrubbed(text: str) -> str:
    """Return a text with every address cut and on one line: nobody may forge a second one."""
    return _BREAKS.sub(lambda found: repr(found[0])[1:-1], _ADDRESS.sub(_cut, text))


def _cut(found: re.Match[str]) -> str:
    return f"{found[1][:1]}…@{found[2]}"


def ended(attempt: Attempt, *, hides_account: bool = False) -> None:
    """Log that an attempt is over. `hides_account`: its name is what a sender gave, perhaps a real credential."""
    if not log.isEnabledFor(logging.INFO):
        return
    took_s = 0.0 if attempt.closed_at is None else (attempt.closed_at - attempt.opened_at).total_seconds()
    facts: dict[str, Any] = {
        "attempt": attempt.id,
        "account": pseudonym(attempt.account) if hides_account else attempt.account,
        "dialect": attempt.dialect,
        "connection": attempt.connection,
        "peer": attempt.peer,
        "stage": attempt.stage,
        "recipients": [scrubbed(each) for each in attempt.recipients[:10]],
        "recipients_count": len(attempt.recipients),
        "accepted_count": len(attempt.accepted),
        "answer": attempt.answer,
        "sent": attempt.sent.value,
        "rules": list(attempt.rules),
        "took_ms": round(took_s * 1000, 1),
    }
    log.info("attempt %s", "accepted" if attempt.accepted else "not accepted", extra={"facts": facts})


def pseudonym(name: str) -> str:
    """Return what stands for a name that must not be read: the same for the same name."""
    return "#" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]


class JsonLines(logging.Formatter):
    """One JSON object a line: `at`, `level`, `logger`, `message`, and the facts."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": scrubbed(record.getMessage()),
            **_scrubbed_facts(record),
        }
        if record.exc_info:
            line["trace"] = _ADDRESS.sub(_cut, self.formatException(record.exc_info))
        return json.dumps(line, default=str)


class TextLines(logging.Formatter):
    """Time, level and message, then the facts that say something, as `name=value`."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        facts = [
            f"{name}={_plain(value)}"
            for name, value in _scrubbed_facts(record).items()
            if value not in (None, "", [], 0)
        ]
        line = " ".join([at, f"{record.levelname:<7}", scrubbed(record.getMessage()), *facts])
        if record.exc_info:
            line += "\n" + _ADDRESS.sub(_cut, self.formatException(record.exc_info))
        return line


def _scrubbed_facts(record: logging.LogRecord) -> dict[str, Any]:
    facts: Mapping[str, Any] = getattr(record, "facts", {})
    return {name: _scrub(value) for name, value in facts.items()}


def _scrub(value: Any) -> Any:
    match value:
        case str():
            return scrubbed(value)
        case list():
            return [_scrub(each) for each in value]
        case _:
            return value


def _plain(value: Any) -> str:
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return json.dumps(text, ensure_ascii=False) if " " in text or not text else text
