"""A run that is replayed comes to the same ledger, without dice, counts, windows of time or limits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from simulator.config import read_plan, recording_as_json
from simulator.provider.account import Setup
from simulator.provider.answer import Refused, Reply
from simulator.provider.faults import HangThere, ReplyWith
from simulator.provider.ledger import Attempt, Sent
from simulator.provider.limits import Limits
from simulator.provider.message import Submission
from simulator.provider.plan import Plan, Recorded
from simulator.provider.provider import Detail, Provider
from simulator.provider.replay import ReplayState, state_of
from simulator.provider.rule import Rule
from simulator.provider.strike import Hit
from tests.simulator.provider.mails import ANN, BOB, NOW, after, mail, send

# --- two runs ---------------------------------------------------------------------------------------


class Walk:
    """One attempt, a stage at a time, so that several can go on side by side."""

    def __init__(self, it: Provider, submission: Submission, now: datetime) -> None:
        self._it = it
        self._submission = submission
        self.attempt: Attempt = it.open(submission.dialect, "10.0.0.1:5", now)
        known = Detail(
            sender=submission.sender,
            recipients=submission.recipients,
            key=submission.key,
            message_id=submission.message_id,
            headers=submission.headers,
            fingerprint=submission.fingerprint,
        )
        if submission.dialect == "smtp":
            self._steps = [("connect", Detail()), ("mail", Detail(sender=submission.sender))]
            self._steps += [("rcpt", Detail(recipient=each)) for each in submission.recipients]
            self._steps += [("message", known)]
        else:
            self._steps = [("request", Detail(key=submission.key)), ("validate", known), ("accept", known)]
        self.over = False

    def go_on(self, now: datetime) -> None:
        if not self._steps:
            verdict = self._it.submit(self.attempt, self._submission, now)
            self._it.told(self.attempt, Sent.COMPLETE, now, answer=str(verdict.answer))
            self._end(now)
            return
        stage, detail = self._steps.pop(0)
        answer = self._it.step(self.attempt, stage, detail, now)
        if answer is not None:
            self._it.told(self.attempt, Sent.COMPLETE, now, answer=str(answer))
            self._end(now)

    def _end(self, now: datetime) -> None:
        self._it.close(self.attempt, now)
        self._it.gone(self.attempt.connection)
        self.over = True


MAILS = st.tuples(
    st.sampled_from(["smtp", "native"]),
    st.sampled_from([(BOB,), (ANN,), (BOB, ANN), ("429-once@magic.test",), ("bounce@magic.test", BOB)]),
    st.sampled_from([None, "k1", "k2"]),
)
#: Mails that are sent, and in which order their attempts go on.
STORIES = st.tuples(
    st.lists(MAILS, min_size=1, max_size=10), st.lists(st.integers(0, 9), max_size=80), st.floats(0.01, 2)
)
Story = tuple[list[tuple[str, tuple[str, ...], str | None]], list[int], float]

LINES = [
    "451 30%",
    "503 every other",
    "lose answers 40%",
    "421 at connect every 3rd",
    "503 at request 20%",
    "451 at rcpt once per recipient",
    "refuse ann@* with 450 50%",
    "bounce 50%",
    "slow 1 s 50%",
    "hang at accept attempt 2 per mail",
    "reset once for ever",
    "accept then reply 500 after 2 s for 5 s",
    "drop first 1 per mail",
]


def play(it: Provider, story: Story) -> list[str]:
    """Play a story; return everything that can be seen of it."""
    mails, order, pace_s = story
    waiting = list(mails)
    going: list[Walk] = []
    now_s = 0.0
    for pick in [*order, *([0] * 200)]:
        now_s += pace_s
        if waiting and len(going) < 3:
            dialect, recipients, key = waiting.pop(0)
            submission = mail(*recipients, dialect=dialect, key=key if dialect == "native" else None)
            going.append(Walk(it, submission, after(now_s)))
        if not going:
            continue
        walk = going[pick % len(going)]
        walk.go_on(after(now_s))
        if walk.over:
            going.remove(walk)
    account = it.accounts["default"]
    return [
        *account.ledger.dump(),
        *(str(each) for each in account.attempts.values()),
        *(str(each) for each in account.decisions),
    ]


def recording_of(it: Provider) -> dict[str, Any]:
    account = it.accounts["default"]
    saved = recording_as_json(account.setup, account.decisions, seed=it.seed)
    loaded: dict[str, Any] = json.loads(json.dumps(saved))
    return loaded


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(LINES), max_size=5), STORIES, st.sampled_from([None, 0.5, 3.0]), st.booleans()
)
@example(LINES[:5], ([("native", (BOB,), "k1")] * 6, [], 0.5), None, False)
def test_a_recorded_run_is_played_again_to_the_same_end(
    lines: list[str], story: Story, rate_per_s: float | None, greylists: bool
) -> None:
    """Ledger, attempts and decisions, byte for byte, whatever the dice and the clock would have said."""
    plan = {
        "seed": 7,
        "rules": lines,
        "limits": {"rate_per_s": rate_per_s, "burst": 2, "connections": 2},
        "greylist": {"delay_s": 3} if greylists else None,
    }
    first = Provider(seed=7, setup=read_plan(plan, "p"), now=NOW)
    seen = play(first, story)

    again = Provider(seed=7, setup=read_plan(recording_of(first), "r"), now=NOW)
    assert play(again, story) == seen
    state = again.accounts["default"].plan
    assert isinstance(state, ReplayState)
    assert state.struck == state.recorded == len(first.accounts["default"].decisions)
    # A recording of the replay is the recording.
    assert recording_of(again) == recording_of(first)


def test_neither_time_nor_the_pace_of_others_changes_a_replay() -> None:
    """What hit the second attempt of a mail hits the second attempt of that mail."""
    first = Provider(setup=read_plan({"rules": ["503 every other"]}, "p"), now=NOW)
    for to in (BOB, ANN, BOB, ANN, BOB):
        send(first, mail(to, dialect="native"))
    struck = [(each.mail, each.nth) for each in first.accounts["default"].decisions]
    assert struck == [(f"to:{ANN}", 1), (f"to:{ANN}", 2)]

    again = Provider(setup=read_plan(recording_of(first), "r"), now=NOW)
    answers = [
        send(again, mail(to, dialect="native"), after(9000))[1] for to in (ANN, ANN, ANN, BOB, BOB, BOB)
    ]
    assert [answer is None for answer in answers] == [True, True, False, False, False, False]


def test_a_restart_in_the_middle_of_a_run_leaves_its_recording_whole() -> None:
    """What comes after it is counted on, so that no two moments have the same name."""
    setup = read_plan({"seed": 7, "rules": ["503 every other", "lose answers every 3rd"]}, "p")
    first = Provider(seed=7, setup=setup, now=NOW)
    for _ in range(3):
        send(first, mail(dialect="native"))
    later = Provider(seed=7, setup=setup, now=NOW)
    later.restore(first.records(), NOW)
    for _ in range(4):
        send(later, mail(dialect="native"))
    places = [(each.stage, each.mail, each.nth) for each in later.accounts["default"].decisions]
    assert places == [("accept", f"to:{BOB}", 2), ("accept", f"to:{BOB}", 5), ("accept", f"to:{BOB}", 7)]

    again = Provider(seed=7, setup=read_plan(recording_of(later), "r"), now=NOW)
    for _ in range(7):
        send(again, mail(dialect="native"))
    assert list(again.accounts["default"].ledger.dump()) == list(later.accounts["default"].ledger.dump())


# --- the state by itself ----------------------------------------------------------------------------


def recorded(**facts: Any) -> Recorded:
    usual: dict[str, Any] = {
        "wire": "http",
        "stage": "accept",
        "mail": f"to:{BOB}",
        "nth": 1,
        "hits": (Hit(rule="r", fault=ReplyWith(code=503)),),
    }
    return Recorded(**(usual | facts))


def replaying(*recordings: Recorded, rules: Sequence[Rule] = ()) -> Provider:
    return Provider(setup=Setup(plan=Plan(rules=tuple(rules), recorded=recordings)), now=NOW)


def test_a_plan_without_a_recording_is_no_replay() -> None:
    assert not state_of(Plan(), NOW).replays
    assert state_of(Plan(recorded=()), NOW).replays


def test_rules_that_are_added_come_after_what_was_recorded() -> None:
    hang = Rule(name="h", fault=HangThere(), stages=frozenset({("http", "accept")}))
    it = replaying(recorded())
    it.add_rules("default", [hang], NOW)
    attempts = [send(it, mail(dialect="native"))[0] for _ in range(2)]

    assert [attempt.rules for attempt in attempts] == [("r",), ("h",)]
    assert it.accounts["default"].plan.plan.recorded == (recorded(),)


def test_a_replay_is_healed_like_any_plan() -> None:
    it = replaying(recorded())
    it.heal("default", NOW)
    _, verdict = send(it, mail(dialect="native"))

    assert verdict is not None
    assert not it.accounts["default"].plan.replays


def test_it_knows_where_it_will_strike() -> None:
    state = state_of(Plan(recorded=(recorded(stage="connect", mail=""),)), NOW)

    assert state.stands_at("http", "connect")
    assert not state.stands_at("smtp", "connect")
    assert not state.is_blind("http", "connect")
    assert state.is_blind("smtp", "connect")


def test_what_a_limit_said_is_said_again_without_the_limit() -> None:
    first = Provider(setup=Setup(limits=Limits(per_day=1)), now=NOW)
    send(first, mail(dialect="native"))
    send(first, mail(dialect="native"))
    (decision,) = first.accounts["default"].decisions
    assert (decision.rules, decision.stage, decision.answer) == (
        ("limit: account",),
        "booking",
        "refused: quota_exceeded",
    )

    again = Provider(setup=read_plan(recording_of(first), "r"), now=NOW)
    assert again.accounts["default"].limiter.limits == ()
    _, second = [send(again, mail(dialect="native"), after(100_000))[1] for _ in range(2)]
    assert second is not None
    assert isinstance(second.answer, Refused)
    assert second.answer.detail == "the quota of mails is used up"


@pytest.mark.parametrize("nth", [1, 2])
def test_a_stage_without_a_mail_is_known_by_its_order(nth: int) -> None:
    it = replaying(recorded(wire="smtp", stage="connect", mail="", nth=nth))
    answers = [it.step(it.open("smtp", "p", NOW), "connect", Detail(), NOW) for _ in range(3)]

    assert [answer == Reply(code=503) for answer in answers] == [nth == number for number in (1, 2, 3)]


def test_what_hit_an_event_hits_it_again() -> None:
    """The second bounce of a mailbox was never told; it is not told again."""

    def told(it: Provider) -> list[bool]:
        for _ in range(3):
            send(it, mail("bounce@magic.test", dialect="native"))
        log = it.accounts["default"].aftermath.events
        log.advance(after(10_000))
        bounces = [event for _, event in log.since(0) if event.type == "email.bounced"]
        return [it.tell(event, after(10_000))[0].lost for event in bounces]

    losing = {"fault": "webhook_lose", "event": "email.bounced", "skip": 1, "first": 1}
    first = Provider(setup=read_plan({"rules": [losing]}, "p"), now=NOW)
    lost = told(first)
    again = Provider(setup=read_plan(recording_of(first), "r"), now=NOW)

    assert lost == [False, True, False]
    assert told(again) == lost
