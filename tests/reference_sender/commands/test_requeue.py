"""`requeue`: what is moved, and of everything else that was named, why it stays."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from reference_sender.commands import requeue
from reference_sender.life import FINAL, Docket, State
from reference_sender.outbox.schema import outgoing_email
from reference_sender.outbox.store import Store
from tests.reference_sender.commands.outboxes import Outbox


def states(outbox: Outbox) -> dict[str, str]:
    with outbox.store.engine.connect() as connection:
        rows = connection.execute(select(outgoing_email.c.dedupe_key, outgoing_email.c.state)).all()
    return {row.dedupe_key: row.state.value for row in rows}


def test_what_is_not_there_is_named(outbox: Outbox) -> None:
    outbox.bring("order-1", State.DEAD)
    for arguments, words in (
        (("--id", "999"), "there is no mail #999\n"),
        (("--id", "1", "--key", "order-2"), "there is no mail #1 of the event 'order-2'\n"),
        (("--key", "order-2"), "there is no mail of the event 'order-2'\n"),
        (("--state", "failed"), "no mail is failed\n"),
        (("--state", "failed", "--state", "unknown"), "no mail is failed or unknown\n"),
    ):
        done = outbox.call("requeue", *arguments)
        assert (done.exit_code, done.stdout) == (1, "0 mails to be sent again\n")
        assert done.stderr == f"reference-sender: {words}"
    assert states(outbox) == {"order-1": "dead"}


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (State.PENDING, "it is sent by itself"),
        (State.SENDING, "it is under way"),
        (State.ACCEPTED, "the provider has it; to send it once more, enqueue it under another key"),
        (State.EXPIRED, "it would have come too late"),
        (State.SUPPRESSED, "its recipient must not be written to"),
    ],
)
def test_what_cannot_be_sent_again_says_why(outbox: Outbox, state: State, words: str) -> None:
    if state in FINAL:
        outbox.bring("order-1", state)
    else:
        outbox.put("order-1")
        if state is State.SENDING:
            outbox.claim()
    for name in (("--id", "1"), ("--key", "order-1")):
        done = outbox.call("requeue", *name)
        assert (done.exit_code, done.stdout) == (1, "0 mails to be sent again\n")
        assert done.stderr.startswith(f"reference-sender: #1 is {state.value}: {words}")
        assert len(done.stderr.splitlines()) == 1
    assert states(outbox) == {"order-1": state.value}


def test_every_state_is_moved_or_has_a_reason() -> None:
    assert set(State) == {*requeue._AGAIN, *requeue._LEFT}


def test_of_those_that_are_named_each_one_counts(outbox: Outbox) -> None:
    """Moved as far as it goes, and whoever asked is told that it was not all."""
    outbox.bring("order-1", State.DEAD)
    outbox.bring("order-2", State.ACCEPTED, provider_id="m2")
    done = outbox.call("requeue", "--id", "1", "--id", "2", "--id", "1")
    assert (done.exit_code, done.stdout) == (1, "1 mail to be sent again\n")
    assert done.stderr.startswith("reference-sender: #2 is accepted: ")
    assert states(outbox) == {"order-1": "pending", "order-2": "accepted"}


def test_of_an_event_what_is_well_is_left_without_a_word(outbox: Outbox) -> None:
    outbox.bring("order-1", State.FAILED)
    done = outbox.call("requeue", "--key", "order-1")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "1 mail to be sent again\n", "")


def test_a_state_narrows_what_is_named(outbox: Outbox) -> None:
    outbox.bring("order-1", State.FAILED)
    done = outbox.call("requeue", "--id", "1", "--state", "dead")
    assert (done.exit_code, done.stderr) == (1, "reference-sender: #1 is failed: --state asks for dead\n")
    assert outbox.call("requeue", "--id", "1", "--state", "failed").exit_code == 0


def test_only_what_is_unknown_is_noted_as_accepted(outbox: Outbox) -> None:
    outbox.bring("order-1", State.DEAD)
    outbox.bring("order-2", State.UNKNOWN)
    done = outbox.call("requeue", "--id", "1", "--accepted", "m1")
    assert (done.exit_code, done.stdout) == (1, "0 mails noted as accepted\n")
    assert done.stderr == (
        "reference-sender: #1 is dead: only of an unknown mail can be noted that it was accepted\n"
    )
    refused = outbox.call("requeue", "--state", "dead", "--accepted", "m1")
    assert (refused.exit_code, "--accepted is for unknown mails" in refused.stderr) == (2, True)
    assert outbox.call("requeue", "--id", "2", "--accepted", "m2").stdout == "1 mail noted as accepted\n"
    assert states(outbox) == {"order-1": "dead", "order-2": "accepted"}


def test_who_was_slower_is_told(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    outbox.bring("order-1", State.DEAD)
    find = Store.find

    def found_before(self: Store, **which: object) -> list[Docket]:
        found = find(self, **which)  # type: ignore[arg-type] # the ids or the state of one case, passed on as they came
        monkeypatch.setattr(Store, "find", find)
        assert outbox.call("requeue", "--id", "1").exit_code == 0
        return found

    monkeypatch.setattr(Store, "find", found_before)
    done = outbox.call("requeue", "--id", "1")
    assert (done.exit_code, done.stdout) == (1, "0 mails to be sent again\n")
    assert done.stderr == "reference-sender: #1 was moved by somebody else just now; look again\n"


def test_many_are_not_told_one_by_one(outbox: Outbox) -> None:
    named = [word for number in range(1, 31) for word in ("--id", str(number))]
    said = outbox.call("requeue", *named).stderr.splitlines()
    assert (len(said), said[-1]) == (21, "reference-sender: … and 10 more")
