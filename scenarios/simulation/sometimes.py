"""What has to happen sometimes, and whether it happened in a world: a matrix in which it never does has not walked the hard paths."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from scenarios.history import History
from scenarios.simulation.profiles import Profile
from scenarios.simulation.world import World
from simulator.provider.obligations import Reported

#: What has to happen somewhere in a run of a profile, in any size: without it the hard paths were not walked.
SOMETIMES: Mapping[str, frozenset[str]] = {
    "http-keys": frozenset(
        {
            "an answer was lost",
            "a key was replayed",
            "a key was in flight",
            "recovered",
            "refused for good",
            "overtaken while frozen",
        }
    ),
    "http-keys-forgotten": frozenset(
        {
            "an answer was lost",
            "looked up and found",
            "looked up and not found",
            "recovered",
            "refused for good",
        }
    ),
    "http-lookup-lagging": frozenset(
        {
            "an answer was lost",
            "looked up and found",
            "looked up and not found",
            "recovered",
            "refused for good",
        }
    ),
    "smtp-at-most-once": frozenset(
        {
            "an answer was lost",
            "parked and accepted",
            "parked and not accepted",
            "refused for good",
            "overtaken while frozen",
        }
    ),
    "smtp-at-least-once": frozenset(
        {"an answer was lost", "a second copy", "recovered", "refused for good", "overtaken while frozen"}
    ),
    "http-limited": frozenset(
        {
            "a mail waited for the limit",
            "an answer was lost",
            "a key was replayed",
            "recovered",
            "refused for good",
        }
    ),
    "http-hearing": frozenset(
        {
            "an event was told again",
            "a request was not believed",
            "an event could not be read",
            "an event was of nobody's mail",
            "an address was suppressed",
        }
    ),
    "smtp-hearing": frozenset({"a doubt was settled by an event", "an address was suppressed"}),
    "http-batches": frozenset(
        {
            "several mails went together",
            "one of several was not taken",
            "an answer was lost",
            "a key was replayed",
            "recovered",
            "refused for good",
        }
    ),
    "http-with-spare": frozenset(
        {
            "the spare took a mail",
            "an answer was lost",
            "a key was replayed",
            "recovered",
            "parked and accepted",
            "parked and not accepted",
            "refused for good",
        }
    ),
}


def events_of(world: World, history: History, profile: Profile, *, overtaken: bool) -> frozenset[str]:
    """Say which of the things that must happen sometimes happened here."""
    events = set()
    if _has_waited(history, profile):
        events.add("a mail waited for the limit")
    if "batch" in profile.sender:
        events |= _of_batches(world)
    if profile.wire == "http" and any(each.accepted and each.dialect == "smtp" for each in history.attempts):
        events.add("the spare took a mail")
    if overtaken and any(len(history.tries_for(each.recipient)) > 1 for each in history.said):
        events.add("overtaken while frozen")
    for wired in world.network.seen:
        # Head and body may come in one piece or in two. The results of a batch are such a list, too.
        if b'{"data":[' in wired.data and "batch" not in profile.sender:
            events.add("looked up and " + ("not found" if b'{"data":[]' in wired.data else "found"))
    for each in history.attempts:
        if each.in_doubt:
            events.add("an answer was lost")
        if each.key and each.told_yes and not each.accepted:
            events.add("a key was replayed")
        if each.key and each.code == 409:
            events.add("a key was in flight")
    for said in history.said:
        copies = len(history.copies_for(said.recipient))
        if said.state is Reported.UNKNOWN:
            events.add(f"parked and {'accepted' if copies else 'not accepted'}")
        if said.state is Reported.ACCEPTED and any(
            each.in_doubt for each in history.tries_for(said.recipient)
        ):
            events.add("recovered")
        if said.state is Reported.FAILED:
            events.add("refused for good")
        if copies > 1:
            events.add("a second copy")
    return frozenset(events)


def _has_waited(history: History, profile: Profile) -> bool:
    """Tell whether more mails than the burst came one by one, as the sender's own limit lets them."""
    if "rate_per_s" not in profile.sender:
        return False
    rate, burst = float(profile.sender["rate_per_s"]), int(profile.sender["rate_burst"])
    tries = (history.tries_for(each.recipient) for each in history.obligations)
    begun = sorted(min(each.opened_at for each in mine) for mine in tries if mine)
    return len(begun) > burst and begun[burst] - begun[0] >= timedelta(seconds=1 / rate)


def _of_batches(world: World) -> set[str]:
    """Say what happened to requests with several mails."""
    requests: dict[str | None, list[bool]] = {}
    for attempt in (each for service in world.services for each in world.attempts_of(service)):
        requests.setdefault(attempt.batch, []).append(bool(attempt.accepted))
    several = [taken for batch, taken in requests.items() if batch is not None and len(taken) > 1]
    events = {"several mails went together"} if several else set()
    return events | (
        {"one of several was not taken"} if any(len(set(each)) > 1 for each in several) else set()
    )
