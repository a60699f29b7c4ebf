"""Every fault at every stage, and the attempts: judged on the bytes (or FIN, RST, silence) a sender sees, and on the ledger."""

from __future__ import annotations

import asyncio

import pytest

from simulator.dialects.smtp import GARBLED
from simulator.provider.fate import Fate
from simulator.provider.faults import (
    FAULTS,
    SMTP_STAGES,
    Drop,
    HangUpOnThem,
    HoldTheAnswer,
    RefuseRecipients,
    ReplyWith,
)
from simulator.provider.ledger import Attempt, AttemptState, Sent
from simulator.provider.rule import Pattern, Who
from tests.simulator.servers.smtp.house import (
    DEADLINE_S,
    KINDS,
    ORDER,
    RAW,
    RESUME,
    SCRIPT,
    Client,
    House,
    house,
    raws,
    rule,
    run,
    walk,
)

MATRIX = [
    pytest.param(name, stage, id=f"{name}-at-{stage}")
    for name, fault in KINDS.items()
    for stage in SMTP_STAGES
    if stage in fault.stages.get("smtp", ())
]


def test_the_matrix_is_whole() -> None:
    """The faults that it lacks exist at one stage only or on SMTP only, and have tests of their own."""
    on_both = {name for name, fault in FAULTS.items() if {"smtp", "http"} <= set(fault.stages)}
    # These two say true words oddly, which has no place in the matrix: see test_catalogue.
    on_both -= {"drip", "two_answers"}
    assert set(KINDS) == {name for name in on_both if len(FAULTS[name].stages["smtp"]) > 1}


@pytest.mark.parametrize(("name", "stage"), MATRIX)
def test_every_fault_at_every_stage(name: str, stage: str) -> None:
    """The sender sees what the fault is named for; the mail is booked if and only if it struck after booking."""
    asyncio.run(asyncio.wait_for(_strike(name, stage), DEADLINE_S))


@pytest.mark.parametrize("name", ["hang", "hang_up", "reset", "truncate", "hold"])
@pytest.mark.parametrize("stage", ["body", "reply"])
def test_the_faults_work_on_uvloop_too(name: str, stage: str) -> None:
    """Its transports are of another kind; speed and faults must not exclude each other."""
    uvloop = pytest.importorskip("uvloop")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(_strike(name, stage), DEADLINE_S))


async def _strike(name: str, stage: str) -> None:
    # After booking there is no stage at which a sender says something: it said the final dot.
    said_at = {"reply": "message", "idle": "rset"}.get(stage, stage)
    after_booking = stage in ("reply", "idle", "rset", "quit")
    copies = 1 if after_booking else 0
    async with house(rule(KINDS[name], stage), accounts=("shop",)) as home:
        client = await home.client()

        def everything() -> list[Attempt]:
            return home.attempts() + home.attempts("shop")

        await walk(client, "connect", said_at)
        said, code = SCRIPT[said_at]
        if stage != "idle":
            await client.say(said)

        async def go_on(start: str) -> None:
            """Go on to the end; the mail is booked exactly once then."""
            await walk(client, start, "quit")
            assert (await client.ask(b"QUIT")).startswith(b"221 ")
            assert await client.rest() == b""
            assert raws(home) == [RAW]

        match name:
            case "reply":
                assert await client.reply() == b"451 4.3.0 not now\r\n"
                assert len(home.booked("shop")) == copies
                if stage == "connect":
                    assert (await client.ask(b"NOOP")).startswith(b"503 ")
                    assert (await client.ask(b"QUIT")).startswith(b"221 ")
                    assert await client.rest() == b""
                elif stage == "quit":
                    assert await client.rest() == b""
                else:
                    await go_on("rset" if stage == "reply" else RESUME.get(stage, stage))
            case "slow":
                await home.clock.asleep.wait()
                assert client.is_in_silence()
                assert home.clock.slept == [3.0]
                home.clock.wake.set()
                await _finish(client, home, stage, said_at, code)
            case "hold":
                await home.moves.until(lambda: any(a.state is AttemptState.HELD for a in everything()))
                assert client.is_in_silence()
                assert len(home.booked("shop")) == copies
                assert home.holds.release("default") + home.holds.release("shop") == 1
                await _finish(client, home, stage, said_at, code)
            case "hang":
                await home.moves.until(lambda: any(f"hang at {stage}" in a.rules for a in everything()))
                if stage == "idle":
                    await client.say(said)
                assert client.is_in_silence()
                client.sock.close()
                await home.moves.until(lambda: all(a.state is AttemptState.CLOSED for a in everything()))
            case "hang_up":
                assert await client.rest() == b""
            case "reset":
                with pytest.raises(ConnectionResetError):
                    await client.rest()
            case "truncate":
                assert await client.rest() == (code or b"250")[:2]
            case "garble":
                assert await client.line() == GARBLED
                assert len(home.booked("shop")) == copies
                if stage == "body":
                    # The noise is all the answer this mail gets.
                    await client.say(SCRIPT["message"][0])
                    assert (await client.ask(b"NOOP")).startswith(b"250 ")
                    assert len(home.booked("shop")) == 0
                if stage == "quit":
                    assert await client.rest() == b""
                else:
                    await go_on("rset" if stage == "reply" else RESUME.get(stage, stage))
        if name in ("hang", "hang_up", "reset", "truncate"):
            assert len(home.booked("shop")) == copies
            await home.closed("shop")
            # Whoever comes next is served as if nothing had been.
            again = await home.client()
            await walk(again, "connect", "quit")
            assert len(home.booked("shop")) == copies + 1


async def _finish(client: Client, home: House, stage: str, said_at: str, code: bytes | None) -> None:
    """Only late: the usual answer comes, and all that follows."""
    if code is not None:
        assert code == (await client.reply())[:3]
    if stage == "quit":
        assert await client.rest() == b""
    else:
        await walk(client, ORDER[ORDER.index(said_at) + 1], "quit")
    assert len(home.booked("shop")) == 1


def test_a_dropped_mail_is_accepted_and_booked_as_dropped() -> None:
    async def story() -> None:
        async with house(rule(Drop(), "message")) as home:
            client = await home.client()
            await client.hello()
            assert (await client.send(RAW)).startswith(b"250 2.0.0 ")
            assert [each.fate for each in home.booked()] == [Fate.DROPPED]

    run(story())


def test_a_refused_recipient_is_refused_alone() -> None:
    """The others get the mail; the refused one may be named again in a later mail."""

    async def story() -> None:
        refuse = rule(RefuseRecipients(), "rcpt", times=None, who=Who(recipient=Pattern("*@bad.example")))
        async with house(refuse) as home:
            client = await home.client()
            await client.hello()
            assert (await client.ask(b"MAIL FROM:<a@x.example>")).startswith(b"250 ")
            assert await client.ask(b"RCPT TO:<c@bad.example>") == b"550 5.1.1 no such mailbox\r\n"
            assert (await client.ask(b"RCPT TO:<b@y.example>")).startswith(b"250 ")
            assert (await client.ask(b"DATA")).startswith(b"354 ")
            assert (await client.ask(RAW + b".")).startswith(b"250 ")
            assert [each.recipients for each in home.booked()] == [("b@y.example",)]
            assert home.attempts()[0].answer.startswith("250 2.0.0")

    run(story())


def test_no_recipient_left_means_no_data() -> None:
    async def story() -> None:
        async with house(rule(RefuseRecipients(), "rcpt")) as home:
            client = await home.client()
            await client.hello()
            await client.ask(b"MAIL FROM:<a@x.example>")
            assert (await client.ask(b"RCPT TO:<c@bad.example>")).startswith(b"550 ")
            assert (await client.ask(b"DATA")).startswith(b"503 5.5.1 ")
            assert (await client.ask(b"NOOP")).startswith(b"250 ")

    run(story())


@pytest.mark.parametrize("stage", [s for s in SMTP_STAGES if s in ReplyWith.stages["smtp"]])
def test_421_closes_the_connection_at_every_stage(stage: str) -> None:
    """RFC 5321, section 4.2.3: it means that the channel is closed."""

    async def story() -> None:
        async with house(rule(ReplyWith(code=421), stage), accounts=("shop",)) as home:
            client = await home.client()
            said_at = "message" if stage == "reply" else stage
            await walk(client, "connect", said_at)
            await client.say(SCRIPT[said_at][0])
            enhanced = b"" if stage in ("connect", "ehlo") else b"4.3.2 "
            assert (
                await client.rest()
                == b"421 " + enhanced + b"service not available, closing the connection\r\n"
            )

    run(story())


def test_a_yes_in_other_words_is_a_yes() -> None:
    """A rule may only reword: 251 at RCPT takes the recipient."""

    async def story() -> None:
        async with house(rule(ReplyWith(code=251), "rcpt")) as home:
            client = await home.client()
            await client.hello()
            await client.ask(b"MAIL FROM:<a@x.example>")
            assert (await client.ask(b"RCPT TO:<b@y.example>")).startswith(b"251 2.1.5 ")
            await client.ask(b"DATA")
            assert (await client.ask(RAW + b".")).startswith(b"250 ")
            assert [each.recipients for each in home.booked()] == [("b@y.example",)]

    run(story())


def test_rules_see_headers_before_the_body_is_whole() -> None:
    async def story() -> None:
        who = Who(headers=(("X-Kind", Pattern("bulk")),))
        async with house(rule(HangUpOnThem(), "body", who=who)) as home:
            client = await home.client()
            await client.hello()
            assert (await client.send(b"X-Kind: single\r\n\r\n")).startswith(b"250 ")
            for command in (b"MAIL FROM:<>", b"RCPT TO:<b@y.example>", b"DATA"):
                await client.ask(command)
            await client.say(b"X-Kind: bulk\r\n\r\nthe rest never comes")
            assert await client.rest() == b""
            assert len(home.booked()) == 1

    run(story())


def test_a_held_answer_survives_its_sender() -> None:
    """The harness kills the sender while the provider holds the answer; released, the mail is taken."""

    async def story() -> None:
        async with house(rule(HoldTheAnswer(), "message")) as home:
            client = await home.client()
            await client.hello()
            for command in (b"MAIL FROM:<>", b"RCPT TO:<b@y.example>", b"DATA"):
                await client.ask(command)
            await client.say(RAW + b".\r\n")
            await home.moves.until(lambda: home.attempts()[0].state is AttemptState.HELD)
            client.break_line()
            # When the next sender is served, the server has seen the broken line.
            await (await home.client()).hello()
            assert home.booked() == []
            home.holds.release("default")
            held = home.attempts()[0]
            await home.moves.until(lambda: held.state is AttemptState.CLOSED)
            assert len(home.booked()) == 1
            assert held.sent is Sent.NOTHING

    run(story())


def test_what_comes_in_during_a_wait_within_the_mail_is_not_forgotten() -> None:
    async def story() -> None:
        async with house(rule(HoldTheAnswer(), "body")) as home:
            client, other = await home.client(), await home.client()
            await other.hello()
            await client.hello()
            for command in (b"MAIL FROM:<>", b"RCPT TO:<b@y.example>", b"DATA"):
                await client.ask(command)
            await client.say(b"Subject: x\r\n\r\n")
            await home.moves.until(lambda: any(a.state is AttemptState.HELD for a in home.attempts()))
            await client.say(b"the rest\r\n.\r\n")
            # The server reads in order: when the other is answered, the rest has been read.
            await other.ask(b"NOOP")
            home.holds.release("default")
            assert (await client.reply()).startswith(b"250 ")
            assert raws(home) == [b"Subject: x\r\n\r\nthe rest\r\n"]

    run(story())


def test_each_transaction_is_an_attempt_of_the_same_connection() -> None:
    async def story() -> None:
        async with house() as home:
            client = await home.client()
            await client.hello()
            await client.send(RAW, to=b"one@y.example")
            await client.send(RAW, to=b"two@y.example")
            await client.ask(b"QUIT")
            first, second = home.attempts()
            assert first.connection == second.connection
            assert [first.recipients, second.recipients] == [("one@y.example",), ("two@y.example",)]
            assert [a.attempt for a in home.booked()] == [first.id, second.id]
            for attempt in (first, second):
                assert attempt.state is AttemptState.CLOSED
                assert attempt.stage == "reply"
                assert attempt.sent is Sent.COMPLETE
                assert attempt.answer.startswith("250 2.0.0 OK: queued as msg_")

    run(story())


def test_an_abandoned_transaction_is_an_attempt_without_answer() -> None:
    """RSET, a second EHLO and a lost connection each end the attempt; the next MAIL begins another."""

    async def story() -> None:
        async with house() as home:
            client = await home.client()
            await client.hello()
            for giving_up in (b"RSET", b"EHLO again.example"):
                await client.ask(b"MAIL FROM:<a@x.example>")
                assert (await client.ask(giving_up)).startswith(b"250")
            await client.ask(b"MAIL FROM:<a@x.example>")
            client.break_line()
            attempts = await home.closed()
            assert [a.answer.split(":")[0] for a in attempts] == ["no answer"] * 3
            assert {a.sent for a in attempts} == {Sent.NOTHING}
            assert home.booked() == []

    run(story())
