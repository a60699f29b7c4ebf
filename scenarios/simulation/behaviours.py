"""What a provider may do to one attempt: the columns of the matrix, as rules of the plan language.

Each behaviour hits one attempt of a script; the script's next attempt gets the next behaviour, and all later
ones a healthy provider. A refusal for good sticks to its mail, or a sender that tries again after it would go
unseen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from scenarios.simulation.profiles import BY_ID, HEARING, TIMES
from scenarios.simulation.storms import STORMS


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """One thing a provider does to one attempt."""

    name: str
    rule: Mapping[str, Any] = field(default_factory=dict)
    """Keys of a rule in the plan language; empty: nothing goes wrong."""
    refuses: bool = False
    """The mail is refused for good, then and ever after."""
    on_stop: bool = False
    """It only shows when a worker is asked to stop and says goodbye."""
    terms: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the plan besides its rules, in force for every attempt: limits, greylist, the ways of keys, webhooks.

    They stay when the faults end, as a provider's terms do.
    """
    shows_as: str = ""
    """What the attempts it meets say in `rules` where that is not its own rule: `greylist`, `limit: pace`."""
    shape: str = "one mail"
    """The shape in which it shows: a limit of one mail is met by the second."""
    profiles: tuple[str, ...] = ()
    """The only profiles in which a sender can come to a good end with it; empty: all of its wire."""
    hook: str = ""
    """How the endpoint takes the webhooks that its terms announce, see `scenarios.simulation.hooks`."""
    on: str = ""
    """The wire whose first attempt it hits, where that is not the profile's own: what the provider that stands in does."""
    is_brief: bool = False
    """It is wrong for longer than a sender is told that it may be: only where whoever asks first asks early."""

    says_yes_early: bool = False
    """It says that it took the mail before it has. One that dies in between leaves nothing by which anybody could know."""
    is_told: bool = False
    """It is no matter of attempts: it happens on the way of an event. How it is played says `scenarios.simulation.intake`."""

    needs_bytes: bool = False
    """It cannot be played at the model level, which knows no requests that wait for each other, and no webhooks."""

    @property
    def is_asked(self) -> bool:
        """Whether it is no matter of attempts either: it strikes who asks what became of a mail."""
        return self.rule.get("stage") == LOOK_UP

    def as_rule(self, wire: str, **when: Any) -> dict[str, Any]:
        """Return its rule in the plan language, for a profile of this wire; `when`: which attempt of that wire it hits.

        What strikes a look-up says itself how often.
        """
        if self.on:
            when = {"times": 1}
        elif self.is_asked:
            when = {}
        return {"name": self.name, "dialect": self.on or wire, **when, **self.rule}

    def has_struck(self, fired: Iterable[str]) -> bool:
        """Tell from the names of the rules that struck in a cell (`2: 503`) whether this did."""
        if self.shows_as:
            return self.shows_as in fired
        return not self.rule or self.name in {each.partition(": ")[2] for each in fired}


def _hit(name: str, fault: str, stage: str, **more: Any) -> Behaviour:
    return Behaviour(name=name, rule={"fault": fault, "stage": stage, **more})


def _refusal(name: str, stage: str, code: int, **more: Any) -> Behaviour:
    rule = {"fault": "reply", "stage": stage, "code": code, "sticks": "mail", **more}
    return Behaviour(name=name, rule=rule, refuses=True)


def _terms(
    name: str,
    fault: Mapping[str, Any] | None = None,
    *,
    shows_as: str = "",
    shape: str = "one mail",
    hook: str = "",
    profiles: tuple[str, ...] = (),
    needs_bytes: bool = False,
    **terms: Any,
) -> Behaviour:
    """Other terms, and perhaps a fault besides that makes them tell."""
    return Behaviour(
        name=name,
        rule=fault or {},
        terms=terms,
        shows_as=shows_as,
        shape=shape,
        hook=hook,
        profiles=profiles,
        needs_bytes=needs_bytes or bool(hook),
    )


def _pace(name: str, **limit: Any) -> Behaviour:
    """A limit on throughput that the second of two mails meets."""
    terms = [{"name": "pace", **limit}]
    return _terms(name, shows_as="limit: pace", shape=TWO_MAILS, limit=terms)


def _one_at_a_time(stage: str) -> Behaviour:
    """One connection (HTTP: request) at a time; the first mail is slow, so that the second meets it."""
    slow = {"fault": "slow", "stage": stage, "delay_s": 3.0}
    limit = [{"name": "at a time", "connections": 1}]
    return _terms("one at a time", slow, shows_as="limit: at a time", shape=TWO_MAILS, limit=limit)


def _told_first(wire: str) -> tuple[Behaviour, ...]:
    """Events are told before the answer, at an endpoint that takes them like this; once in a storm of all there is."""
    stage = "accept" if wire == "http" else "message"
    early = {"fault": "webhook_early", "stage": stage, "within_s": 3.0}
    storm = [
        {"fault": fault, "stage": "webhook", **more}
        for fault, more in (
            ("webhook_duplicate", {"delay_s": 1}),
            ("webhook_duplicate_new_id", {}),
            ("webhook_conflict", {}),
            ("webhook_unknown", {}),
            ("webhook_bad_signature", {"every": 3}),
        )
    ]
    return (
        *(
            _terms(f"told first, endpoint {how}", early, hook=how, webhooks={"url": HOOKS[how]})
            for how in HOOKS
            # A storm is taken by one that answers, too.
            if how != "answers"
        ),
        _terms(
            "told first, in a storm", early, hook="answers", webhooks={"url": HOOKS["answers"]}, rule=storm
        ),
    )


def _of_batches(behaviour: Behaviour) -> Behaviour:
    """Of a request with several mails: a single one never meets it, and without bytes there are no such requests."""
    return replace(behaviour, profiles=BATCHES, needs_bytes=True)


def _refusal_of_one(name: str, **batch: Any) -> Behaviour:
    """One mail of a request is refused for good, by a provider that speaks of its mails in this way."""
    fault = {"fault": "reply", "stage": "accept", "code": 422, "sticks": "mail"}
    return replace(_of_batches(_terms(name, fault, batch=batch)), refuses=True)


HEALTHY = Behaviour(name="ok")
#: The stage at which a provider is asked what became of a mail.
LOOK_UP = "lookup"

#: The seconds that a slow provider takes: past the sender's timeouts and its next try, and less than the time for
#: which it must count on a request being under way.
LATE_S = 35.0
#: How old what a look-up shows is at most, in seconds: as `lookup_lag_s` of the sender says.
STALE_S = float(TIMES["lookup_lag_s"])

TWO_MAILS = "two mails, two workers"
SEVERAL = "three recipients"

#: Where webhooks are told in the world, by how they are taken there.
HOOKS: dict[str, str] = {
    how: f"http://receiver:{9_000 + number}/"
    for number, how in enumerate(("answers", "refuses", "hangs", "is away"))
}

CLOSED = {"fault": "hang_up", "stage": "reply"}
TOLD_500 = {"fault": "reply", "stage": "reply", "code": 500}
NOT_TAKEN_503 = {"fault": "reply", "stage": "accept", "code": 503}
#: The profile in which several mails go in one request.
BATCHES = ("http-batches",)
#: Profiles whose provider forgets its keys soon or has none, and can be asked.
ASKED = ("http-keys-forgotten", "http-lookup-lagging")
LATE = {"fault": "slow", "stage": "accept", "delay_s": LATE_S}

HTTP: tuple[Behaviour, ...] = (
    HEALTHY,
    _hit("door hangs", "hang", "connect"),
    _hit("door closes", "hang_up", "connect"),
    _hit("door resets", "reset", "connect"),
    _hit("503", "reply", "accept", code=503),
    _hit("503 with retry-after", "reply", "accept", code=503, retry_after=25),
    _hit("429 with retry-after", "reply", "accept", code=429, retry_after=25),
    _hit("500", "reply", "accept", code=500),
    _hit("401", "reply", "request", code=401),
    _hit("302", "reply", "request", code=302),
    _hit("307 in a circle", "redirect", "request"),
    _refusal("400", "accept", 400),
    _refusal("422", "validate", 422),
    _hit("request hangs", "hang", "accept"),
    _hit("request closed", "hang_up", "accept"),
    _hit("request reset", "reset", "accept"),
    _hit("garbage, not taken", "garble", "accept"),
    _hit("200 with an error, not taken", "odd_body", "accept", shape="error"),
    _hit("taken late", "slow", "accept", delay_s=LATE_S),
    _hit("taken, hangs", "hang", "reply"),
    _hit("taken, closed", "hang_up", "reply"),
    _hit("taken, reset", "reset", "reply"),
    _hit("taken, 500", "reply", "reply", code=500),
    _hit("taken, 502", "reply", "reply", code=502),
    _hit("taken, a gateway gave up", "gateway", "reply"),
    _hit("taken, 200 without id", "odd_body", "reply", shape="no_id"),
    _hit("taken, garbage", "garble", "reply"),
    _hit("taken, truncated", "truncate", "reply"),
    _hit("taken, body hangs", "hang", "body"),
    _hit("taken, body closed", "hang_up", "body"),
    _hit("taken, body reset", "reset", "body"),
    _hit("taken, said late", "slow", "reply", delay_s=LATE_S),
    _hit("dropped", "accept_then_drop", "accept"),
    _hit("upload closed", "hang_up", "upload"),
    _hit("307 to itself", "redirect", "accept", code=307),
    _hit("gateway, not taken", "gateway", "accept", code=504),
    _hit("200 and an error, not taken", "odd_body", "accept", shape="error"),
    _hit("taken, gateway", "gateway", "reply", code=504),
    _hit("taken, 303", "redirect", "reply", code=303),
    _hit("taken, no id", "odd_body", "reply", shape="no_id"),
    _hit("taken, empty body", "odd_body", "reply", shape="empty"),
    _hit("taken, HTML", "odd_body", "reply", shape="html"),
    _hit("taken, damaged gzip", "gzip", "reply", flaw="cut"),
    _hit("taken, unfinished chunks", "chunked", "reply", chunks="unfinished"),
    _hit("taken, dripped", "drip", "reply", size_bytes=8, delay_s=1.0),
    _hit("taken, 103 first", "interim", "reply"),
    _hit("taken, a second answer", "two_answers", "reply"),
    _hit("429", "reply", "accept", code=429),
    _pace("one mail in 20 s", rate_per_s=0.05),
    _pace("one mail in 20 s, until a date", rate_per_s=0.05, retry_after="date"),
    _pace("one mail a minute", per_minute=1),
    _one_at_a_time("accept"),
    _terms("taken late, 409 until", LATE, idempotency={"in_flight": "retry_after", "in_flight_s": 20}),
    _terms(
        "taken late, the second waits",
        LATE,
        idempotency={"in_flight": "wait", "in_flight_s": 15},
        needs_bytes=True,
    ),
    # With a key that lives for a day and nobody to ask, no sender ever comes to know more than these say.
    _terms("taken, closed, then 409 done", CLOSED, idempotency={"finished": "conflict"}, profiles=ASKED),
    _terms(
        "taken, closed, replayed without id", CLOSED, idempotency={"finished": "without_id"}, profiles=ASKED
    ),
    _terms("taken, 500, replayed", TOLD_500, idempotency={"lied": "replay_error"}, profiles=ASKED),
    _terms("503, replayed", NOT_TAKEN_503, idempotency={"failed": "replay"}, profiles=ASKED),
    *_told_first("http"),
    *(
        _of_batches(_hit(name, "odd_results", "reply", listing=listing))
        for name, listing in (
            ("one result missing", "fewer"),
            ("one result twice", "twice"),
            ("results shuffled", "shuffled"),
            ("no results", "none"),
            ("totals instead of results", "totals"),
        )
    ),
    _refusal_of_one("one refused, only ids", results="accepted"),
    _refusal_of_one("one refused, 207", mixed_status=207),
    _refusal_of_one("one refused, so all are", mode="all_or_nothing"),
    _of_batches(_terms("one 503, so all are", NOT_TAKEN_503, batch={"mode": "all_or_nothing"})),
    _of_batches(_terms("taken, closed, only ids", CLOSED, batch={"results": "accepted"})),
)

SMTP: tuple[Behaviour, ...] = (
    HEALTHY,
    _hit("greeting hangs", "hang", "connect"),
    _hit("greeting closed", "hang_up", "connect"),
    _hit("greeting reset", "reset", "connect"),
    _hit("greeting 421", "reply", "connect", code=421),
    _hit("greeting garbage", "garble", "connect"),
    _hit("EHLO 421", "reply", "ehlo", code=421),
    _hit("EHLO reset", "reset", "ehlo"),
    _hit("EHLO 451", "reply", "ehlo", code=451),
    _hit("MAIL 451", "reply", "mail", code=451),
    _hit("MAIL closed", "hang_up", "mail"),
    _hit("RCPT 450", "reply", "rcpt", code=450),
    _refusal("RCPT 550", "rcpt", 550),
    _hit("RCPT hangs", "hang", "rcpt"),
    _hit("DATA 451", "reply", "data", code=451),
    _hit("DATA closed", "hang_up", "data"),
    _hit("body reset", "reset", "body"),
    _hit("body closed", "hang_up", "body"),
    _hit("dot 451", "reply", "message", code=451),
    _hit("dot 421", "reply", "message", code=421),
    _refusal("dot 554", "message", 554),
    _hit("dot hangs", "hang", "message"),
    _hit("dot closed", "hang_up", "message"),
    _hit("dot reset", "reset", "message"),
    _hit("dot garbage", "garble", "message"),
    _hit("taken late", "slow", "message", delay_s=LATE_S),
    _hit("taken, hangs", "hang", "reply"),
    _hit("taken, closed", "hang_up", "reply"),
    _hit("taken, reset", "reset", "reply"),
    _hit("taken, garbage", "garble", "reply"),
    _hit("taken, truncated", "truncate", "reply"),
    _hit("taken, said late", "slow", "reply", delay_s=LATE_S),
    Behaviour(name="QUIT hangs", rule={"fault": "hang", "stage": "quit"}, on_stop=True),
    Behaviour(name="QUIT reset", rule={"fault": "reset", "stage": "quit"}, on_stop=True),
    Behaviour(name="QUIT garbage", rule={"fault": "garble", "stage": "quit"}, on_stop=True),
    _hit("dropped", "accept_then_drop", "message"),
    _hit("EHLO 502, HELO works", "refuse_ehlo", "ehlo"),
    _hit("throttled, closing", "throttle", "mail", style="closing"),
    _hit("throttled, 454", "throttle", "data", style="ses"),
    _hit("throttled, 550 5.7.0", "throttle", "message", style="permanent"),
    _hit("body cut", "cut_body", "body", after_bytes=100),
    _hit("tarpit", "tarpit", "mail", delay_s=3.0),
    _hit("taken, 421 behind it", "accept_then_421", "reply"),
    _hit("taken, said twice", "two_answers", "reply"),
    _hit("taken, dripped", "drip", "reply", size_bytes=4, delay_s=1.0),
    _hit("taken, closed on the next command", "close_on_next", "idle"),
    replace(_hit("250 within the mail", "out_of_turn", "body"), says_yes_early=True),
    _pace("one mail in 20 s", rate_per_s=0.05),
    _pace("one mail in 20 s, untold", rate_per_s=0.05, retry_after="nothing"),
    _pace("one mail in 20 s, 421", rate_per_s=0.05, smtp=421),
    _pace("one mail a minute", per_minute=1),
    _pace("one mail in 20 s for a domain", rate_per_s=0.05, per="recipient_domain"),
    _one_at_a_time("message"),
    _terms("greylisted", shows_as="greylist", greylist={"delay_s": 20.0}),
    _terms("greylisted, untold", shows_as="greylist", greylist={"delay_s": 20.0, "tells": False}),
    _terms("greylisted for minutes", shows_as="greylist", greylist={"delay_s": 150.0, "code": 450}),
    *_told_first("smtp"),
)

# Not here: results that are always totals alone, from which nobody learns that one of two mails was refused;
# `failed = "refuse"` (the key is burnt, send another one), for a sender that holds on to its keys can only
# give up; `in_flight = "process"` and `lied = "release"`, with which the provider itself makes the second copy.

#: The profile in which SMTP stands in for HTTP.
WITH_A_SPARE = "http-with-spare"
#: What the main provider says first, so that the other one is asked at all.
_SHUT = {
    "name": "the main one is shut",
    "dialect": "http",
    "fault": "reply",
    "stage": "accept",
    "code": 503,
    "attempt": 1,
}

#: All that SMTP can do on the profile's terms, at the provider that stands in.
SPARE: tuple[Behaviour, ...] = tuple(
    replace(
        each,
        name=f"spare: {each.name}",
        on="smtp",
        terms={"rule": [_SHUT]},
        profiles=(WITH_A_SPARE,),
    )
    for each in SMTP
    if each.rule and not each.terms
)

#: The profile in which whoever does not know asks, and has no other way to know.
LOOKS = "http-lookup-lagging"
#: What became of the first mail, so that somebody asks: how its answer got lost, by what the name of a column begins with.
LOST: dict[str, dict[str, Any]] = {
    "taken": {"fault": "hang_up", "stage": "reply"},
    "not taken": {"fault": "hang", "stage": "accept"},
    "taken late": LATE,
}


def _asked(
    lost: str,
    name: str,
    fault: str,
    *,
    shape: str = "one mail",
    body: str | None = None,
    is_brief: bool = False,
    **more: Any,
) -> Behaviour:
    """The answer to the first mail is lost, and whoever asks for it meets this; `body`: the shape of an odd one."""
    first = {"name": f"lost: {lost}", "dialect": "http", "attempt": 1, **LOST[lost]}
    return Behaviour(
        name=f"{lost}, asked: {name}",
        rule={"fault": fault, "stage": LOOK_UP, **({} if body is None else {"shape": body}), **more},
        terms={"rule": [first]},
        profiles=(LOOKS,),
        shape=shape,
        is_brief=is_brief,
    )


#: What can go wrong at a look-up. Who hears nothing asks again; it is wrong twice, so that once is not overlooked: a line that
#: breaks is dialled again by the sender's library at once, and whoever is not found by key is asked for by Message-ID. What
#: is shown is as old as the sender was told that it may be.
LOOKED_UP: tuple[Behaviour, ...] = (
    _asked("taken", "503", "reply", code=503, times=2),
    _asked("taken", "said late", "slow", delay_s=LATE_S, times=2),
    _asked("taken", "hangs", "hang", times=2),
    _asked("taken", "closed", "hang_up", times=4),
    _asked("taken", "reset", "reset", times=4),
    _asked("taken", "garbage", "garble", times=2),
    _asked("taken", "truncated", "truncate", times=2),
    _asked("taken", "redirected", "redirect", times=2),
    _asked("taken", "a gateway gave up", "gateway", times=2),
    _asked("taken", "empty body", "odd_body", body="empty", times=2),
    _asked("taken", "damaged gzip", "gzip", flaw="cut", times=2),
    _asked("taken", "unfinished chunks", "chunked", chunks="unfinished", times=2),
    # When it ends is not the same without bytes.
    replace(_asked("taken", "dripped", "drip", size_bytes=8, delay_s=1.0, times=2), needs_bytes=True),
    _asked("taken", "103 first", "interim", times=2),
    _asked("taken", "a second answer", "two_answers", times=2),
    _asked("taken", "missed", "lookup_misses", is_brief=True, times=2),
    _asked("taken late", "stale", "lookup_stale", age_s=STALE_S),
    _asked("taken", "unfiltered", "lookup_unfiltered", shape=SEVERAL),
    _asked("not taken", "503", "reply", code=503, times=2),
    _asked("not taken", "closed", "hang_up", times=4),
    _asked("not taken", "empty body", "odd_body", body="empty", times=2),
    _asked("not taken", "stale", "lookup_stale", age_s=STALE_S),
    _asked("not taken", "unfiltered", "lookup_unfiltered", shape=SEVERAL),
)

#: What happens to events, wherever they come from.
TOLD: tuple[Behaviour, ...] = tuple(
    Behaviour(
        name=storm.name,
        rule=storm.rules[0] if storm.rules else {},
        is_told=True,
        profiles=tuple(profile.id for profile in HEARING),
        needs_bytes=True,
        shape=HEARING[0].shape,
    )
    for storm in STORMS
)

BY_WIRE: dict[str, dict[str, Behaviour]] = {
    "http": {each.name: each for each in (*HTTP, *SPARE, *LOOKED_UP, *TOLD)},
    "smtp": {each.name: each for each in (*SMTP, *TOLD)},
}

#: Behaviours under which an attempt is under way for long: here a worker that is frozen meets its successor.
IN_FLIGHT = ("taken, said late", "taken late")


def columns(profile: str, wire: str, *, byteless: bool = False) -> tuple[str, ...]:
    """Return the names of the behaviours that are played in a profile of this wire. `byteless`: at the model level.

    A profile that is about terms has its own, and no others besides; in one that is about events only these go wrong.
    """
    has_own_terms = "limits" in BY_ID[profile].provider
    hears = BY_ID[profile].hears
    return tuple(
        name
        for name, each in BY_WIRE[wire].items()
        if (profile in each.profiles or not (each.profiles or hears))
        and not (byteless and each.needs_bytes)
        and not (has_own_terms and each.terms)
    )
