"""The judge is judged: hand-made histories with known verdicts."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from scenarios import checks
from scenarios.checks import Policy
from scenarios.history import History, Said, Try
from simulator.provider.batch import OF_ALL
from simulator.provider.obligations import Reported
from tests.scenarios.made import ANN, copy, history, owed, tried

BOB = "bob@example.com"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
LOST = tried(1, "hang", sent="nothing", took=True)
ACCEPTED, FAILED, UNKNOWN, PENDING = Reported.ACCEPTED, Reported.FAILED, Reported.UNKNOWN, Reported.PENDING

good = history((owed(state=ACCEPTED),), (copy(1),), (tried(1, took=True),))
no_findings: list[str] = []

#: Name -> history, policy, and the kinds of findings that must come out of the questions asked everywhere.
EVERYWHERE: dict[str, tuple[History, Policy, list[str]]] = {
    "one copy": (good, Policy.EXACTLY_ONCE, no_findings),
    "two copies": (history((owed(state=ACCEPTED),), (copy(1), copy(2))), Policy.EXACTLY_ONCE, ["duplicated"]),
    "two copies, two promised": (
        history((owed(state=ACCEPTED, copies=2),), (copy(1), copy(2))), Policy.EXACTLY_ONCE, no_findings
    ),
    "a doubt excuses no copy at most once": (
        history((owed(state=ACCEPTED),), (copy(1), copy(2)), (LOST, tried(2, took=True))),
        Policy.AT_MOST_ONCE,
        ["duplicated"],
    ),
    "a doubt excuses one copy at least once": (
        history((owed(state=ACCEPTED),), (copy(1), copy(2)), (LOST, tried(2, took=True))),
        Policy.AT_LEAST_ONCE,
        no_findings,
    ),
    "a doubt excuses no other bytes": (
        history((owed(state=ACCEPTED),), (copy(1), copy(2, sha256="bb")), (LOST, tried(2, took=True))),
        Policy.AT_LEAST_ONCE,
        ["identity changed"],
    ),
    "a doubt excuses only one copy": (
        history(
            (owed(state=ACCEPTED),),
            (copy(1), copy(2), copy(3)),
            (LOST, tried(2, took=True), tried(3, took=True)),
        ),
        Policy.AT_LEAST_ONCE,
        ["duplicated"],
    ),
    "no copy, called sent": (
        history((owed(state=ACCEPTED),)), Policy.EXACTLY_ONCE, ["lost", "misreported"]
    ),
    "no copy, still waiting": (history((owed(state=PENDING),)), Policy.EXACTLY_ONCE, ["stuck"]),
    "no copy, unknown to the sender": (history((owed(),)), Policy.EXACTLY_ONCE, ["lost"]),
    "one of two promised": (
        history((owed(state=ACCEPTED, copies=2),), (copy(1),)), Policy.EXACTLY_ONCE, ["lost", "misreported"]
    ),
    "a copy where nothing was promised": (history((), (copy(1),)), Policy.AT_MOST_ONCE, ["phantom"]),
    "no copy, parked": (history((owed(state=UNKNOWN),)), Policy.AT_MOST_ONCE, no_findings),
    "no copy, refused": (
        history((owed(state=FAILED),), (), (tried(1, "550 5.1.1 no"),)), Policy.EXACTLY_ONCE, no_findings
    ),
    "no copy, failed over a refusal that was said of several mails at once": (
        history((owed(state=FAILED),), (), (tried(1, f"422, {OF_ALL}"),)), Policy.EXACTLY_ONCE, ["lost"]
    ),
    "no copy, failed over a refusal of its own among others": (
        history((owed(state=FAILED),), (), (tried(1, f"422, {OF_ALL}"), tried(2, "422"))),
        Policy.EXACTLY_ONCE,
        no_findings,
    ),
    "no copy, failed without a refusal": (
        history((owed(state=FAILED),), (), (tried(1, "451 4.3.0 later"),)), Policy.EXACTLY_ONCE, ["lost"]
    ),
    "copy, called failed": (history((owed(state=FAILED),), (copy(1),)), Policy.EXACTLY_ONCE, ["misreported"]),
    "copy for a stranger": (
        history((owed(state=ACCEPTED),), (copy(1), copy(2, "eve@example.com", ref=None))),
        Policy.EXACTLY_ONCE,
        ["phantom"],
    ),
    "copy gone astray": (
        history((owed(state=ACCEPTED),), (copy(1), copy(2, "eve@example.com"))),
        Policy.EXACTLY_ONCE,
        ["misdirected"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EVERYWHERE)
def test_the_verdict_on_a_history_is_known(name: str) -> None:
    """What each history is accused of, and nothing else."""
    given, policy, expected = EVERYWHERE[name]

    assert expected == [finding.kind for finding in checks.everywhere(given, policy)]


def only(check: Callable[[History], list[checks.Finding]], given: History) -> str:
    """Return the kind of the only finding, or nothing."""
    found = check(given)
    assert len(found) <= 1
    return found[0].kind if found else ""


@pytest.mark.parametrize(
    ("state", "kind"), [(FAILED, "given up"), (UNKNOWN, "given up"), (ACCEPTED, ""), (PENDING, "")]
)
def test_a_mail_that_must_arrive_may_not_be_given_up(state: Reported, kind: str) -> None:
    """Parking is honest, and not enough where nothing was ever in doubt."""
    copies = (copy(1),) if state is ACCEPTED else ()

    assert only(partial(checks.given_up, recipients=[ANN]), history((owed(state=state),), copies)) == kind


@pytest.mark.parametrize(("state", "kind"), [(FAILED, ""), (Reported.DEAD, ""), (PENDING, "misreported")])
def test_a_refusal_is_reported(state: Reported, kind: str) -> None:
    """Failed, or in the dead letters: both are honest."""
    assert only(partial(checks.not_refused, recipients=[ANN]), history((owed(state=state),))) == kind


def test_who_cannot_be_asked_is_not_accused_of_silence() -> None:
    """Without a status only the ledger speaks."""
    silent = history((owed(),), (copy(1),), knows_states=False)

    assert checks.not_refused(silent, [ANN]) == []
    assert checks.not_said(silent, [ANN]) == []


@pytest.mark.parametrize(
    ("attempts", "refused", "kinds"),
    [
        ((tried(1, "550 5.1.1 no such mailbox"),), (), []),
        ((tried(1, "422"),), (), []),
        ((), (ANN.upper(),), []),
        ((), (), ["lost"]),
        ((tried(1, "451 4.3.0 later"),), (), ["lost"]),
        ((replace(tried(1, "550 5.1.1 no"), sent="nothing"),), (), ["lost"]),
    ],
)
def test_of_who_cannot_be_asked_a_refused_mail_is_not_called_lost(
    attempts: tuple[Try, ...], refused: tuple[str, ...], kinds: list[str]
) -> None:
    """Refused for good and told so in full, a mail has ended; whether it is reported so nobody can see."""
    given = replace(history((owed(),), (), attempts, knows_states=False), refused=refused)

    assert [each.kind for each in checks.everywhere(given, Policy.AT_MOST_ONCE)] == kinds
    # Who can be asked and says nothing has forgotten it.
    assert [
        each.kind for each in checks.everywhere(replace(given, knows_states=True), Policy.AT_MOST_ONCE)
    ] == ["lost"]


def test_a_mail_that_must_arrive_is_not_excused_by_a_refusal() -> None:
    """What the sender did to be refused is its own doing, also where it cannot be asked."""
    given = history((owed(),), (), (tried(1, "400"),), knows_states=False)

    assert only(partial(checks.given_up, recipients=[ANN]), given) == "given up"


def test_a_status_that_speaks_of_others_is_quoted() -> None:
    """The mistake is often in how addresses are written, so the finding names what was named."""
    given = history((owed(),), (copy(1),))
    given = replace(given, said=tuple(Said(key=n, recipient=n, state=ACCEPTED) for n in ("a", "b", "c", "d")))

    (finding,) = checks.not_said(given, [ANN])

    assert finding.sentence.endswith("reported as nothing; the status names 'a', 'b', 'c' and 1 more")
    (finding,) = checks.not_refused(replace(given, said=()), [ANN])
    assert finding.sentence.endswith("reported as nothing; the status names nobody")


def test_what_was_accepted_must_be_called_accepted() -> None:
    """Accepted, answered in full, and still unknown: the sender lost its own knowledge."""
    assert checks.not_said(good, [ANN]) == []
    assert [each.kind for each in checks.not_said(history((owed(state=UNKNOWN),), (copy(1),)), [ANN])] == [
        "misreported"
    ]


@pytest.mark.parametrize(
    ("state", "kind"), [(FAILED, "misreported"), (UNKNOWN, ""), (ACCEPTED, ""), (None, "")]
)
def test_a_mail_in_doubt_is_never_failed(state: Reported | None, kind: str) -> None:
    """A refusal after a doubt says nothing about the first attempt."""
    assert (
        only(partial(checks.reported_failed, recipient=ANN), history((owed(state=state),), (copy(1),)))
        == kind
    )


REFUSAL = tried(1, "550 5.1.1 no such mailbox")


@pytest.mark.parametrize(
    ("attempts", "kind"),
    [
        ((REFUSAL,), ""),
        ((tried(1, "451 4.3.0 later"), tried(2, "550 5.1.1 no")), ""),
        ((REFUSAL, tried(2, took=True)), "tried again"),
        ((tried(1, "400"), tried(2, "400")), "tried again"),
        ((tried(1, "503"), tried(2, "503")), ""),
        # A refusal that never reached the sender is none.
        ((replace(REFUSAL, sent="nothing"), tried(2, took=True)), ""),
        # "Refused", although it was taken: a lie of the provider, and no end for the sender.
        ((tried(1, "554 5.0.0", took=True), tried(2, took=True)), ""),
    ],
)
def test_nothing_is_tried_after_a_refusal_for_good(attempts: tuple[Try, ...], kind: str) -> None:
    """5yz, 400 and 422, told in full, are the end."""
    given = history((owed(),), (), attempts)

    assert only(partial(checks.again_after_refusal, recipients=[ANN]), given) == kind


def test_nothing_is_tried_after_a_yes() -> None:
    """A yes told in full is the end, one for each promised copy."""
    twice = (tried(1, took=True), tried(2, took=True))

    assert only(checks.again_after_acceptance, good) == ""
    assert only(checks.again_after_acceptance, history((owed(),), (), twice)) == "tried again"
    assert only(checks.again_after_acceptance, history((owed(copies=2),), (), twice)) == ""
    assert only(checks.again_after_acceptance, history((owed(),), (), (LOST, tried(2, took=True)))) == ""


def test_an_attempt_let_go_is_seen() -> None:
    """Asked to stop, a worker must wait for the answer of what it began."""
    ask = partial(checks.abandoned, recipient=ANN)

    assert only(ask, history((owed(),), (), (LOST, tried(2, took=True)))) == "abandoned"
    assert only(ask, good) == ""
    assert only(ask, history((owed(),))) == ""


def test_only_so_many_attempts_are_right() -> None:
    """For refusals of one of several recipients, where the answer of the attempt is about the others."""
    given = history((owed(),), (), (tried(1), tried(2)))

    assert only(partial(checks.tried_more_than, recipient=ANN, times=1), given) == "tried again"
    assert only(partial(checks.tried_more_than, recipient=ANN, times=2), given) == ""


@pytest.mark.parametrize(("second_s", "kind"), [(2.5, "too early"), (4.2, ""), (4.05, "")])
def test_retry_after_is_a_minimum(second_s: float, kind: str) -> None:
    """Counted from the end of the refusal (1.1 s), with a tenth of a second of grace."""
    given = history((owed(),), (), (tried(1, "429"), tried(2, begins_s=second_s)))

    assert only(partial(checks.too_early, recipient=ANN, wait_s=3.0), given) == kind


def test_identity_must_not_change() -> None:
    """Neither the Message-ID nor the key; an attempt that never got so far proves nothing."""
    ask = partial(checks.changed_identity, recipient=ANN)

    assert (
        ask(
            history(
                (owed(),),
                (),
                (tried(1, key="k"), tried(2, key="k"), replace(tried(3, message_id=None), stage="rcpt")),
            )
        )
        == []
    )
    assert (
        only(ask, history((owed(),), (), (tried(1), tried(2, message_id="<2@shop>")))) == "identity changed"
    )
    assert only(ask, history((owed(),), (), (tried(1, key="a"), tried(2, key="b")))) == "identity changed"


def test_identity_must_not_change_from_wire_to_wire() -> None:
    found = checks.changed_identity(
        history((owed(),), (), (HTTP(tried(1, key="k")), SMTP(tried(2, message_id="<2@shop>")))), ANN
    )

    assert [each.kind for each in found] == ["identity changed"]


SMTP, HTTP = partial(replace, dialect="smtp"), partial(replace, dialect="native", stage="accept")


@pytest.mark.parametrize(
    ("attempts", "keyed", "says"),
    [
        # Over SMTP the name must be there, as soon as there are two attempts to compare.
        ((SMTP(tried(1, message_id=None)), SMTP(tried(2, message_id=None))), False, "no Message-ID in 2 of 2"),
        ((SMTP(tried(1)), SMTP(tried(2, message_id=None))), False, "no Message-ID in 1 of 2"),
        ((SMTP(tried(1, message_id=None)),), False, ""),
        ((SMTP(tried(1)), SMTP(tried(2))), False, ""),
        # Broken off before the message: it could not name it.
        ((SMTP(tried(1)), SMTP(tried(2)), SMTP(tried(3, message_id=None), stage="data")), False, ""),
        ((SMTP(tried(1, message_id=None)), SMTP(tried(2, message_id=None), stage="rcpt")), False, ""),
        # Over HTTP the key must be there for who claims to send one; the Message-ID is the provider's to give.
        ((HTTP(tried(1)), HTTP(tried(2))), True, "no idempotency key in 2 of 2"),
        ((HTTP(tried(1)), HTTP(tried(2))), False, ""),
        ((HTTP(tried(1, key="k")), HTTP(tried(2))), False, "no idempotency key in 1 of 2"),
        ((HTTP(tried(1, key="k")), HTTP(tried(2, key="k"))), True, ""),
        ((HTTP(tried(1, key="k", message_id=None)), HTTP(tried(2, key="k", message_id=None))), True, ""),
        ((HTTP(tried(1, key="k")), HTTP(tried(2, key="k", message_id=None))), True, "no Message-ID in 1 of 2"),
        ((HTTP(tried(1, key="k")), HTTP(tried(2), stage="connect")), True, ""),
        # Gone over to a spare by the other wire: what is missing is asked of each wire by itself.
        ((HTTP(tried(1, key="k")), SMTP(tried(2))), True, ""),
        ((HTTP(tried(1, key="k", message_id=None)), SMTP(tried(2))), True, ""),
        ((HTTP(tried(1, key="k")), HTTP(tried(2)), SMTP(tried(3))), True, "no idempotency key in 1 of 2"),
        ((HTTP(tried(1, key="k")), SMTP(tried(2)), SMTP(tried(3, message_id=None))), True, "no Message-ID in 1 of 2"),
    ],
)  # fmt: skip
def test_who_has_no_identity_cannot_keep_it(attempts: tuple[Try, ...], keyed: bool, says: str) -> None:
    """Nothing to compare is no equality."""
    found = checks.changed_identity(history((owed(),), (), attempts), ANN, keyed=keyed)

    assert [each.sentence for each in found] == ([f"{says} attempts"] if says else [])


LOST_KEYED = tried(1, "hang", sent="nothing", took=True, key="k")


def test_bytes_must_not_change() -> None:
    """Seen in two copies, or in a key that was refused for another body."""
    ask = partial(checks.changed_bytes, recipient=ANN)

    assert ask(history((owed(),), (copy(1), copy(2)))) == []
    assert only(ask, history((owed(),), (copy(1), copy(2, sha256="bb")))) == "bytes differ"
    assert only(ask, history((owed(),), (), (LOST_KEYED, tried(2, "422", key="k")))) == "bytes differ"
    refused_by_rule = replace(tried(2, "422", key="k"), rules=("refused from now on",))
    assert ask(history((owed(),), (), (LOST_KEYED, refused_by_rule))) == []
    assert ask(history((owed(),), (), (tried(1, "422", key="k"),))) == []


def test_parked_mail_is_named() -> None:
    """It is no fault, and a person must hear of it."""
    assert checks.parked(history((owed(state=UNKNOWN), owed(BOB, state=ACCEPTED)))) == [ANN]


def test_a_finding_names_the_mail() -> None:
    """Recipient, copies, provider ids and attempts are there to look for."""
    (finding,) = checks.duplicated(history((owed(state=ACCEPTED),), (copy(1), copy(2))), Policy.EXACTLY_ONCE)

    assert finding.as_json() == {
        "kind": "duplicated",
        "ref": "order-1",
        "recipient": ANN,
        "sentence": "accepted 2 times, at most 1 is right",
        "copies": 2,
        "ids": ["msg_1", "msg_2"],
        "message_ids": ["<1@shop>"],
        "keys": [],
        "attempts": ["att_1", "att_2"],
    }


def test_a_yes_may_not_be_forgotten() -> None:
    """Told in full and alive ever since, a sender knows; killed in between, it may not."""
    forgotten = history((owed(state=UNKNOWN),), (copy(1),), (tried(1, took=True),))

    assert only(checks.yes_forgotten, forgotten) == "misreported"
    assert only(checks.yes_forgotten, replace(forgotten, crashes=1)) == ""
    assert only(checks.yes_forgotten, good) == ""
    assert only(checks.yes_forgotten, history((owed(state=UNKNOWN),), (copy(1),), (LOST,))) == ""


def test_every_promised_mail_is_spoken_of() -> None:
    """A mail that is in no list is looked after by nobody."""
    assert only(checks.unsaid, history((owed(),))) == "unsaid"
    assert only(checks.unsaid, history((owed(),), knows_states=False)) == ""
    assert only(checks.unsaid, good) == ""


@pytest.mark.parametrize(
    ("state", "reason", "kind"),
    [
        (UNKNOWN, " ", "parked without owner"),
        (Reported.DEAD, "", "parked without owner"),
        (UNKNOWN, "no answer after the last byte", ""),
        (UNKNOWN, None, ""),
        (ACCEPTED, "", ""),
    ],
)
def test_who_parks_says_why(state: Reported, reason: str | None, kind: str) -> None:
    """A person begins with a reason. A sender without a place for reasons is not accused."""
    given = history((owed(state=state),))
    given = replace(given, said=tuple(replace(each, reason=reason) for each in given.said))

    assert only(checks.parked_without_owner, given) == kind


def test_what_still_moves_after_the_calm_is_not_at_rest() -> None:
    """Whoever watched says so; the judge believes it."""
    assert only(checks.not_quiescent, replace(good, moving=True)) == "not quiescent"
    assert only(checks.not_quiescent, good) == ""


def test_what_still_moves_is_named() -> None:
    """By what the sender says of it; where it says nothing, by what it tried last."""
    attempt = Try(id="att_7", opened_at=BEGIN, recipients=("a",), answer="409 conflict", sent="complete")
    asked = History(
        attempts=(attempt,),
        said=(
            Said(key="a", recipient="a", state=Reported.SENDING),
            Said(key="b", recipient="b", state=ACCEPTED),
            Said(key="c", recipient="c", state=Reported.PENDING),
        ),
        moving=True,
    )
    assert [(each.recipient, each.sentence, each.attempts) for each in checks.not_quiescent(asked)] == [
        (
            "a",
            "things still moved when the calm was over: the sender says that it is sending, 1 attempts were made",
            ("att_7",),
        ),
        (
            "c",
            "things still moved when the calm was over: the sender says that it is pending, no attempt was made",
            (),
        ),
    ]
    (silent,) = checks.not_quiescent(replace(asked, said=()))
    assert silent.recipient == "a"
    assert "it was tried last" in silent.sentence


@pytest.mark.parametrize(("pause_s", "kind"), [(0.0, "too often"), (0.8, "too often"), (0.9, ""), (2.0, "")])
def test_a_loop_without_a_pause_is_seen(pause_s: float, kind: str) -> None:
    """Seven attempts within five seconds are no backoff, however it is drawn."""
    given = history(
        (owed(),), (), tuple(tried(n, "451 4.3.0 later", begins_s=n * pause_s) for n in range(1, 8))
    )

    assert only(partial(checks.too_often, recipient=ANN), given) == kind


@pytest.mark.parametrize(("crashes", "kind"), [(0, "too early"), (1, "")])
def test_an_attempt_may_know_the_wait_itself(crashes: int, kind: str) -> None:
    """Any refusal may name one. Killed after hearing it, a sender cannot know better."""
    given = history((owed(),), (), (replace(tried(1, "503"), retry_after_s=25.0), tried(2, begins_s=20.0)))

    assert only(partial(checks.too_early, recipient=ANN), replace(given, crashes=crashes)) == kind


@pytest.mark.parametrize(
    ("attempts", "crashes", "surely"),
    [
        ((), 0, True),
        ((tried(1, "451 4.3.0 later"), tried(2, "503")), 0, True),
        ((replace(tried(1, "hang", sent="nothing"), stage="data"),), 0, True),
        ((), 1, True),
        ((replace(tried(1, "hang", sent="nothing"), stage="rcpt"),), 1, True),
        ((replace(tried(1, "hang", sent="nothing"), stage="data"),), 1, False),
        ((tried(1, "451 4.3.0 later"),), 1, False),
        ((tried(1, "hang", sent="nothing"),), 0, False),
        ((tried(1, "500"),), 0, False),
        ((tried(1, "550 5.1.1 no"),), 0, False),
        ((tried(1, "302"),), 0, False),
        ((LOST,), 0, False),
    ],
)
def test_where_nothing_was_in_doubt_there_is_no_reason_to_park(
    attempts: tuple[Try, ...], crashes: int, surely: bool
) -> None:
    """Nothing had left, or the answer was in full, said "not now", and nobody was killed before storing it."""
    given = replace(history((owed(),), (), attempts), crashes=crashes)

    assert checks.never_in_doubt(given) == ([ANN] if surely else [])


def test_every_kind_of_finding_is_in_the_table() -> None:
    """A kind that is not there would have no sender that is caught by it."""
    tree = ast.parse(inspect.getsource(checks))
    used = {
        node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg == "kind" and isinstance(node.value, ast.Constant)
    } | {
        node.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "_about"
        and isinstance(node.args[0], ast.Constant)
    }

    assert used == set(checks.KINDS)


def test_who_hangs_up_before_the_mail_has_not_tried_again() -> None:
    """A worker that finds out between 354 and the first byte that the mail is no longer its own."""
    yes = tried(1, took=True)
    withdrawn = replace(tried(2, "no answer", sent="nothing"), stage="data")

    assert only(checks.again_after_acceptance, history((owed(),), (), (yes, withdrawn))) == ""
    assert (
        only(
            checks.again_after_acceptance, history((owed(),), (), (yes, replace(withdrawn, stage="message")))
        )
        == "tried again"
    )


@pytest.mark.parametrize("answer", ["250 2.0.0 OK", "550 5.1.1 no"])
def test_a_crash_may_swallow_one_answer_and_no_more(answer: str) -> None:
    """Heard and not stored is not heard: what comes after it is judged from the next answer on."""
    first, second, third = tried(1, answer), tried(3, answer), tried(4, answer)
    later = tried(2, "451 4.3.0 later")

    def found(*attempts: Try, crashes: int) -> list[str]:
        given = replace(history((owed(),), (), attempts), crashes=crashes)
        return [
            each.kind
            for each in (*checks.again_after_acceptance(given), *checks.again_after_refusal(given, [ANN]))
        ]

    assert found(first, later, second, crashes=0) == ["tried again"]
    assert found(first, later, second, crashes=1) == []
    assert found(first, later, second, third, crashes=1) == ["tried again"]


def test_who_looks_something_up_at_a_guarded_door_floods_nobody() -> None:
    """Five visits at once that nothing hindered and that handed nothing over; five that found nobody are a flood."""
    first = Try(id="att_0", opened_at=BEGIN, closed_at=BEGIN, rules=("down",), sent="nothing")
    visits = [
        Try(
            id=f"att_{number}",
            opened_at=BEGIN + timedelta(seconds=41),
            closed_at=BEGIN + timedelta(seconds=41),
            answer="normal",
            sent="nothing",
        )
        for number in range(1, 6)
    ]

    assert checks.flooded(History(attempts=(first, *visits))) == []
    turned_away = [replace(each, rules=("down",)) for each in visits]
    assert [each.kind for each in checks.flooded(History(attempts=(first, *turned_away)))] == ["flooded"]


def test_a_limit_is_not_a_provider_that_is_down() -> None:
    """Also where it is said with 421, which a service that is shutting down says as well (RFC 5321, section 4.2.3)."""

    def turned_away(by: str) -> History:
        attempts = [
            Try(
                id=f"att_{number}",
                opened_at=BEGIN + timedelta(seconds=41 * (number > 0)),
                closed_at=BEGIN + timedelta(seconds=41),
                answer="421 4.3.2 come back later",
                sent="complete",
                rules=(by,),
            )
            for number in range(6)
        ]
        return History(attempts=tuple(attempts))

    assert [each.kind for each in checks.flooded(turned_away("down"))] == ["flooded"]
    assert checks.flooded(turned_away("limit: pace")) == []
