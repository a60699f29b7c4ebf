"""`purge`, `erase`, `accesses`: what they say, and that each is logged before it happens."""

from __future__ import annotations

import base64
import json
from datetime import timedelta

from sqlalchemy import update

from reference_sender.life import State
from reference_sender.outbox.schema import outgoing_email
from tests.reference_sender.commands.outboxes import Outbox
from tests.reference_sender.samples import NOW


def test_a_purge_says_what_is_gone_and_a_second_one_that_nothing_is(outbox: Outbox) -> None:
    outbox.bring("order-1", State.ACCEPTED, age_s=86_400 * 200, provider_id="m1", answer="fine")
    outbox.bring("order-2", State.DEAD, age_s=86_400 * 20, answer="no")
    outbox.put("order-3", age_s=86_400 * 400)
    assert outbox.call("purge", "--batch", "1").stdout == "purged: 2 answers, 1 accepted\n"
    assert outbox.call("purge").stdout == "nothing is older than it may be\n"
    assert [s.key for s in outbox.store.standings()] == ["order-2", "order-3"]
    assert [a.action for a in outbox.store.accesses()] == ["purge", "purge"]


def test_a_purge_may_be_short_and_is_told_to_programs(outbox: Outbox) -> None:
    for number in range(3):
        outbox.bring(f"order-{number}", State.ACCEPTED, age_s=86_400 * 90, provider_id="m")
    done = outbox.call("purge", "--keep", "accepted=30", "--batch", "1", "--steps", "2", "--json")
    assert json.loads(done.stdout) == {"ok": True, "purged": {"accepted": 2}}


def test_a_period_that_is_none_is_refused_and_nothing_is_purged(outbox: Outbox) -> None:
    outbox.bring("order-1", State.ACCEPTED, age_s=86_400 * 200, provider_id="m1")
    done = outbox.call("purge", OUTBOX_KEEP="sending=1")
    assert (done.exit_code, done.stderr) == (
        2,
        "reference-sender: OUTBOX_KEEP names 'sending'; there are accepted, dead, expired, failed, suppressed, words, "
        "answers, events, attachments, lanes, accesses, as in accepted=183,answers=14\n",
    )
    assert len(outbox.store.standings()) == 1


def test_an_erasure_says_what_went_and_what_could_not(outbox: Outbox) -> None:
    outbox.bring("order-1", State.ACCEPTED, age_s=60, provider_id="m1")
    outbox.bring("order-2", State.UNKNOWN, age_s=50)
    outbox.put("order-3")
    done = outbox.call("erase", "Ann@example.com")
    assert done.exit_code == 1
    assert done.stdout == "2 mails erased (1 of them withheld), 0 events, 0 suppressions\n"
    assert "#2 cannot be erased yet" in done.stderr
    assert outbox.call("requeue", "--id", "2", "--accepted", "m2").exit_code == 0
    again = outbox.call("erase", "ann@example.com", "--json")
    assert (again.exit_code, json.loads(again.stdout)["mails"]) == (0, 1)
    assert {s.recipient for s in outbox.store.standings()} == {"erased"}
    assert all("ann@" not in (a.detail or "") for a in outbox.store.accesses())


def test_an_erasure_says_that_something_told_of_the_person_waits(outbox: Outbox) -> None:
    outbox.store.receive([("e1", b'{"to": "ann@example.com"}')], source="webhook", now=NOW)
    done = outbox.call("erase", "ann@example.com")
    assert (done.exit_code, done.stderr.startswith("reference-sender: 1 event cannot be erased yet: ")) == (
        1,
        True,
    )
    told = json.loads(outbox.call("erase", "ann@example.com", "--json").stdout)
    assert (told["ok"], told["events_left"]) == (False, 1)


def test_an_address_that_is_none_is_one_sentence(outbox: Outbox) -> None:
    done = outbox.call("erase", "ann")
    assert (done.exit_code, "is not an address" in done.stderr) == (2, True)
    assert outbox.store.accesses() == []


def test_a_mail_without_its_words_is_not_sent_again(outbox: Outbox) -> None:
    number = outbox.bring("order-1", State.DEAD, age_s=60)
    outbox.call("erase", "ann@example.com")
    done = outbox.call("requeue", "--id", str(number))
    assert (done.exit_code, done.stderr) == (
        2,
        f"reference-sender: #{number} cannot be sent again: what they said is purged or erased; enqueue them anew under "
        "another key, or leave them out\n",
    )


def test_what_is_moved_by_hand_and_who_looked_at_the_list_is_logged(outbox: Outbox) -> None:
    number = outbox.bring("order-1", State.DEAD, age_s=60)
    assert outbox.call("requeue", "--id", str(number)).exit_code == 0
    assert outbox.call("suppress", "list", OUTBOX_OPERATOR="bob").exit_code == 0
    assert outbox.call("requeue", "--id", "77").exit_code == 1
    assert [(a.operator, a.action, a.email_id, a.detail) for a in outbox.store.accesses()] == [
        ("bob", "suppress list", None, None),
        ("anna", "requeue", number, "to be sent again"),
    ]


def test_the_log_is_shown_newest_first_and_by_mail_also_when_the_mail_is_gone(outbox: Outbox) -> None:
    outbox.put("order-1")
    outbox.call("trace", "order-1")
    outbox.clock.advance(1)
    outbox.call("status", "--json", OUTBOX_OPERATOR="bob")
    at = f"{NOW:%Y-%m-%d %H:%M:%S}"
    later = f"{NOW + timedelta(seconds=1):%Y-%m-%d %H:%M:%S}"
    lines = [f"{later} bob: status", f"{at} anna: trace #1"]
    assert outbox.call("accesses").stdout.splitlines() == lines
    assert outbox.call("accesses", "--by", "bob").stdout.splitlines() == lines[:1]
    assert outbox.call("accesses", "--by", "eve").stdout == "nobody has looked\n"
    assert outbox.call("accesses", "--mail", "order-1").stdout.splitlines() == lines[1:]
    with outbox.store.engine.begin() as connection:
        connection.execute(
            update(outgoing_email).values(state=State.ACCEPTED, updated_at=NOW - timedelta(days=999))
        )
    outbox.call("purge")
    assert outbox.call("accesses", "--mail", "#1").stdout.splitlines() == lines[1:]
    for none in ("#" + "9" * 23, "\N{SUPERSCRIPT TWO}"):
        # No number that a mail may have.
        assert outbox.call("accesses", "--mail", none).stdout == "nobody has looked\n"
    told = json.loads(outbox.call("accesses", "--mail", "#1", "--json").stdout)
    assert (told["operator"], told["id"]) == ("anna", 1)


def key(name: str) -> str:
    return f"{name}:{base64.b64encode(name.encode() * 32)[:43].decode()}="


def test_keys_are_rotated_by_hand_and_an_old_one_that_is_missing_is_told(outbox: Outbox) -> None:
    enqueue = ["enqueue", "--from", "s@example.org", "--to", "a@example.com", "--text", "Dear Ann", "--key"]
    assert outbox.call(*enqueue, "order-1", OUTBOX_BODY_KEYS=key("a")).exit_code == 0
    assert outbox.call(*enqueue, "order-2").exit_code == 0
    outbox.store.receive([("e1", b"{}")], source="webhook", now=NOW)
    both = outbox.call("reseal", OUTBOX_BODY_KEYS=f"{key('b')},{key('a')}")
    assert (both.exit_code, both.stdout) == (0, "2 mails, 0 attachments and 1 event sealed anew\n")
    done = outbox.call("reseal", OUTBOX_BODY_KEYS=key("c"))
    assert (done.exit_code, done.stderr) == (
        1,
        "reference-sender: 3 cannot be opened (like #1, #2, event 1); name their key in OUTBOX_BODY_KEYS, too, behind the newest\n",
    )
    assert outbox.call("reseal").stderr.startswith("reference-sender: OUTBOX_BODY_KEYS is not set")
    assert "is not base64" in outbox.call("status", OUTBOX_BODY_KEYS="a:b").stderr
