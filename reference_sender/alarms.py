"""Alarms by another way than the queue: a provider is shut, a mail is dead, the database is away – somebody is told.

What hears the log decides (`alarm_of`), a thread of its own carries it out, over a webhook or over SMTP of somebody
else's provider: never through the outbox, which may be what is broken. Loaded only where an alarm is configured.
Must not hold: rules of sending.
"""

from __future__ import annotations

import json
import queue
import smtplib
import ssl
import threading
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid
from typing import Any
from urllib.parse import unquote, urlsplit

from reference_sender.clock import Clock
from reference_sender.life import State
from reference_sender.log import Log, cause_of
from reference_sender.policy.breaker import Position

#: Whoever is told about the same thing this often is told no more for a while.
_PATIENCE_S = 10.0
_MOST_WAITING = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """What somebody should know."""

    about: str  # the same thing again is not told again for a while
    text: str  # one sentence, without addresses and bodies


Sink = Callable[[Alarm, Mapping[str, Any]], None]


def alarm_of(event: str, facts: Mapping[str, Any]) -> Alarm | None:
    """The alarm that a line of the log is worth, or None."""
    match event:
        case "breaker" if facts.get("position") in (Position.OPEN.value, Position.CLOSED.value):
            provider, reason = facts.get("provider"), facts.get("reason")
            if facts["position"] == Position.OPEN.value:
                return Alarm(
                    about=f"breaker {provider} open",
                    text=f"provider {provider} is shut: {reason}; mail waits",
                )
            return Alarm(about=f"breaker {provider} closed", text=f"provider {provider} is well again")
        case "decided" if facts.get("state") == State.DEAD.value:
            return Alarm(about="dead", text=f"mail {facts.get('id')} is dead: {facts.get('reason')}")
        case "claim_failed" if int(facts.get("failures") or 0) >= 3:
            return Alarm(about="claim_failed", text=f"nothing can be claimed: {facts.get('error')}")
    return None


class Alarms:
    """A log that passes on what is worth an alarm; goes along with the sender as a companion."""

    def __init__(self, sinks: Sequence[Sink], *, every_s: float, clock: Clock, log: Log) -> None:
        self._sinks = tuple(sinks)
        self._every_s = every_s
        self._clock = clock
        self._log = log
        self._told: dict[str, float] = {}
        self._waiting: queue.Queue[tuple[Alarm, dict[str, Any]] | None] = queue.Queue(_MOST_WAITING)
        self._thread = threading.Thread(target=self._carry_out, name="alarms", daemon=True)

    def __call__(self, event: str, /, **facts: object) -> None:
        """Hear a line of the log; never waits, never raises."""
        alarm = alarm_of(event, facts)
        if alarm is None:
            return
        now = self._clock.monotonic()
        last = self._told.get(alarm.about)
        if last is not None and now - last < self._every_s:
            return
        self._told[alarm.about] = now
        try:
            self._waiting.put_nowait((alarm, {"at": self._clock.now().isoformat(), **facts}))
        except queue.Full:
            self._log("alarm_failed", about=alarm.about, error="too many are waiting")

    def start(self) -> None:
        """Begin to tell."""
        self._thread.start()

    def close(self) -> None:
        """Tell what is waiting, but nobody waits long for it."""
        try:
            self._waiting.put_nowait(None)
        except queue.Full:
            return
        self._thread.join(_PATIENCE_S)

    def _carry_out(self) -> None:
        while (item := self._waiting.get()) is not None:
            alarm, facts = item
            for sink in self._sinks:
                try:
                    sink(alarm, facts)
                except Exception as error:
                    self._log(
                        "alarm_failed", about=alarm.about, error=type(error).__name__, cause=cause_of(error)
                    )


def to_webhook(url: str) -> Sink:
    """Tell by a POST with a JSON object: text, about, and the facts of the log; `text` is what chats show."""

    def tell(alarm: Alarm, facts: Mapping[str, Any]) -> None:
        body = json.dumps({"text": alarm.text, "about": alarm.about, "facts": dict(facts)}, default=str)
        request = urllib.request.Request(  # http and https only, checked when it was set
            url, body.encode(), {"Content-Type": "application/json", "User-Agent": "reference-sender"}
        )
        with urllib.request.urlopen(request, timeout=_PATIENCE_S) as answer:  # the same
            answer.read(1)

    return tell


def to_smtp(url: str, *, sender: str, recipients: Sequence[str], clock: Clock) -> Sink:
    """Tell by mail through the server of smtp:// or smtps://USER:PASSWORD@HOST:PORT, which no queue stands before."""
    parts = urlsplit(url)
    implicit = parts.scheme == "smtps"
    host, port = parts.hostname or "", parts.port or (465 if implicit else 587)

    def tell(alarm: Alarm, facts: Mapping[str, Any]) -> None:
        mail = EmailMessage()
        mail["From"], mail["To"] = sender, ", ".join(recipients)
        mail["Subject"] = f"[reference-sender] {alarm.about}"
        mail["Date"], mail["Message-ID"] = format_datetime(clock.now()), make_msgid(domain="reference-sender")
        lines = [alarm.text, "", *(f"{name}: {value}" for name, value in facts.items())]
        mail.set_content("\n".join(lines) + "\n")
        context = ssl.create_default_context()
        if implicit:
            line: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=_PATIENCE_S, context=context)
        else:
            line = smtplib.SMTP(host, port, timeout=_PATIENCE_S)
        with line:
            line.ehlo()
            if not implicit and line.has_extn("starttls"):
                line.starttls(context=context)
            if parts.username:
                line.login(unquote(parts.username), unquote(parts.password or ""))
            line.send_message(mail, sender, list(recipients))

    return tell
