"""Every way an SMTP server misbehaves that people ask for: written as a plan, seen as raw bytes, judged on the ledger.

Each case is a dialogue and what the ledger holds in the end.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import pytest

from simulator.config import read_plan
from simulator.provider.answer import TlsAlert
from simulator.provider.faults import FAULTS
from simulator.servers.tls import Tls
from tests.simulator.servers.smtp.dialogues import (
    AUTH,
    DATA,
    EHLO,
    EOF,
    GREETED,
    MAIL,
    MESSAGE,
    NOOP,
    QUIT,
    RCPT,
    RST,
    SILENCE,
    TO_DATA,
    TO_RCPT,
    Case,
    case,
    heard,
)
from tests.simulator.servers.smtp.house import NOW, RAW, house, run
from tests.simulator.servers.smtp.test_stages import MATRIX


def reply(stage: str, code: int, **more: Any) -> dict[str, Any]:
    return {"fault": "reply", "stage": stage, "code": code} | more


CASES = [
    # --- the greeting ---
    case(
        "greeting: slow", {"fault": "slow", "stage": "connect", "delay_s": 290}, says=GREETED, waits=[290.0]
    ),
    case("greeting: 421", reply("connect", 421), says=[(b"", b"421 "), (b"", EOF)]),
    case(
        "greeting: 554",
        reply("connect", 554),
        says=[(b"", b"554 "), (EHLO, b"503 5.5.1"), (QUIT, b"221 "), (b"", EOF)],
    ),
    case("greeting: none", {"fault": "hang", "stage": "connect"}, says=[(b"", SILENCE)]),
    case("greeting: closed at once", {"fault": "hang_up", "stage": "connect"}, says=[(b"", EOF)]),
    case(
        "greeting: in three lines",
        reply("connect", 220, text="one\ntwo\nthree"),
        says=[(b"", b"220-one\r\n220-two\r\n220 three\r\n"), (EHLO, b"250-")],
    ),
    # --- EHLO ---
    case(
        "EHLO refused, HELO taken",
        {"fault": "refuse_ehlo"},
        says=[
            (b"", b"220 "),
            (EHLO, b"502 command not implemented"),
            (b"HELO c.example\r\n", b"250 mx.example\r\n"),
            (MAIL, b"250 "),
            (RCPT, b"250 "),
            (DATA, b"354 "),
            (MESSAGE, b"250 "),
        ],
        booked=1,
    ),
    case(
        "EHLO refused once",
        {"fault": "refuse_ehlo", "code": 500, "text": "what?", "times": "once"},
        says=[(b"", b"220 "), (b"HELO c.example\r\n", b"250 "), (EHLO, b"500 what?\r\n"), (EHLO, b"250-")],
    ),
    case("EHLO: 421", reply("ehlo", 421), says=[(b"", b"220 "), (EHLO, b"421 "), (b"", EOF)]),
    # --- AUTH ---
    *(
        case(
            f"AUTH: {code}",
            reply("auth", code),
            says=[*GREETED, (AUTH, f"{code} {enhanced}".encode()), (MAIL, b"250 ")],
        )
        for code, enhanced in ((454, "4.7.0"), (534, "5.7.9"), (535, "5.7.8"), (432, "4.7.12"))
    ),
    # --- MAIL and RCPT ---
    *(
        case(f"MAIL: {code}", reply("mail", code), says=[*GREETED, (MAIL, b"%d " % code), (RCPT, b"503 ")])
        for code in (450, 451, 452, 550, 553)
    ),
    *(
        case(
            f"RCPT: {code}",
            reply("rcpt", code),
            says=[*GREETED, (MAIL, b"250 "), (RCPT, b"%d " % code), (DATA, b"503 ")],
        )
        for code in (450, 452, 550, 551, 553)
    ),
    case(
        "RCPT: any code",
        reply("rcpt", 599),
        says=[*GREETED, (MAIL, b"250 "), (RCPT, b"599 5.0.0 refused for good")],
    ),
    case(
        "RCPT: some only",
        {
            "fault": "refuse_recipients",
            "recipients": "*@full.example",
            "code": 452,
            "enhanced": "4.2.2",
            "text": "full",
        },
        says=[
            *GREETED,
            (MAIL, b"250 "),
            (b"RCPT TO:<x@full.example>\r\n", b"452 4.2.2 full\r\n"),
            (RCPT, b"250 "),
            (DATA, b"354 "),
            (MESSAGE, b"250 "),
        ],
        booked=1,
    ),
    # --- DATA and the message ---
    case("DATA: refused", reply("data", 451), says=[*TO_RCPT, (DATA, b"451 "), (NOOP, b"250 ")]),
    case("DATA: 421", reply("data", 421), says=[*TO_RCPT, (DATA, b"421 "), (b"", EOF)]),
    *(
        case(
            f"message: {end} after 40 octets",
            {"fault": "cut_body", "after_bytes": 40, "end": end},
            says=[*TO_DATA, (RAW[:39], SILENCE), (RAW[39:45], heard)],
        )
        for end, heard in (("hang_up", EOF), ("reset", RST), ("hang", SILENCE))
    ),
    case(
        "message: cut, but shorter than that",
        {"fault": "cut_body", "after_bytes": 10_000},
        says=[*TO_DATA, (MESSAGE, EOF)],
    ),
    case(
        "chunk: cut",
        {"fault": "cut_body", "after_bytes": 40},
        says=[*TO_RCPT, (b"BDAT 39\r\n" + RAW[:39], b"250 "), (b"BDAT 99 LAST\r\nxx", EOF)],
    ),
    *(
        case(
            f"dot: {code}",
            reply("message", code),
            says=[*TO_DATA, (MESSAGE, b"%d " % code), *([(b"", EOF)] if code == 421 else [(NOOP, b"250 ")])],
        )
        for code in (421, 450, 451, 452, 550, 552, 554)
    ),
    case(
        "dot: no, but booked", {"fault": "accept_then_reply"}, says=[*TO_DATA, (MESSAGE, b"500 ")], booked=1
    ),
    # --- replies out of step ---
    case(
        "out of turn: within the message",
        {"fault": "out_of_turn", "stage": "body", "code": 552, "text": "too big already"},
        says=[
            *TO_DATA,
            (RAW, b"552 too big already\r\n"),
            (b".\r\n", b"250 2.0.0 OK: queued"),
            (NOOP, b"250 2.0.0 OK\r\n"),
        ],
        booked=1,
    ),
    case(
        "out of turn: after the mail",
        {"fault": "out_of_turn", "stage": "idle", "code": 451},
        says=[*TO_DATA, (MESSAGE, b"250 2.0.0 OK: queued"), (b"", b"451 "), (QUIT, b"221 ")],
        booked=1,
    ),
    case(
        "out of turn: 421 within the message ends it",
        {"fault": "out_of_turn", "stage": "body", "code": 421},
        says=[*TO_DATA, (RAW, b"421 "), (b"", EOF)],
    ),
    case(
        "two final replies",
        {"fault": "two_answers"},
        says=[
            *TO_DATA,
            (MESSAGE, b"250 2.0.0 OK: queued"),
            (b"", b"250 2.0.0 OK: queued"),
            (NOOP, b"250 2.0.0 OK\r\n"),
        ],
        booked=1,
    ),
    case(
        "two final replies: 250, then no",
        {"fault": "two_answers", "code": 554, "text": "no, rather not"},
        says=[*TO_DATA, (MESSAGE, b"250 "), (NOOP, b"554 no, rather not\r\n"), (b"", b"250 ")],
        booked=1,
    ),
    case(
        "250 then 421",
        {"fault": "accept_then_421"},
        says=[*TO_DATA, (MESSAGE, b"250 2.0.0 OK: queued"), (b"", b"421 4.3.2 "), (b"", EOF)],
        booked=1,
    ),
    *(
        case(
            f"two replies: {stage}",
            {"fault": "two_answers", "stage": stage, "code": 421, "text": "go"},
            says=[*before, (said, yes), (b"", b"421 go\r\n"), (b"", EOF)],
        )
        for stage, before, said, yes in (
            ("connect", [], b"", b"220 "),
            ("ehlo", GREETED[:1], EHLO, b"250-"),
            ("auth", GREETED, AUTH, b"235 "),
            ("mail", GREETED, MAIL, b"250 2.1.0"),
            ("rcpt", TO_RCPT[:-1], RCPT, b"250 2.1.5"),
            ("data", TO_RCPT, DATA, b"354 "),
            ("rset", GREETED, b"RSET\r\n", b"250 "),
            ("quit", GREETED, QUIT, b"221 "),
        )
    ),
    case(
        "two replies: the second 354 is taken for the answer to the mail",
        {"fault": "two_answers", "stage": "data"},
        says=[*TO_RCPT, (DATA, b"354 "), (MESSAGE, b"354 "), (NOOP, b"250 2.0.0 OK: queued")],
        booked=1,
    ),
    *(
        case(
            f"split: {stage}",
            {"fault": "drip", "stage": stage, "size_bytes": 5, "delay_s": 0.5},
            says=[*before, (said, yes), (QUIT, b"221 ")],
            waits=[0.5] * pauses,
            booked=1 if stage == "reply" else 0,
        )
        for stage, before, said, yes, pauses in (
            ("connect", [], b"", b"220 mx.example ESMTP ready\r\n", 5),
            ("ehlo", GREETED[:1], EHLO, b"250-mx.example\r\n", 20),
            ("auth", GREETED, AUTH, b"235 2.7.0 ", 4),
            ("mail", GREETED, MAIL, b"250 2.1.0 sender OK\r\n", 4),
            ("rcpt", TO_RCPT[:-1], RCPT, b"250 2.1.5 ", 4),
            ("rset", GREETED, b"RSET\r\n", b"250 ", 2),
            ("reply", TO_DATA, MESSAGE, b"250 2.0.0 OK: queued as msg_", 9),
        )
    ),
    case(
        "split: data",
        {"fault": "drip", "stage": "data", "size_bytes": 5, "delay_s": 0.5},
        says=[*TO_RCPT, (DATA, b"354 "), (MESSAGE, b"250 ")],
        waits=[0.5] * 4,
        booked=1,
    ),
    case(
        "split: quit",
        {"fault": "drip", "stage": "quit", "size_bytes": 5, "delay_s": 0.5},
        says=[*GREETED, (QUIT, b"221 2.0.0 bye\r\n"), (b"", EOF)],
        waits=[0.5] * 2,
    ),
    # --- slowness ---
    case(
        "tarpit: each reply just under a limit",
        {"fault": "tarpit", "delay_s": 299},
        says=[*TO_DATA, (MESSAGE, b"250 "), (QUIT, b"221 "), (b"", EOF)],
        waits=[299.0] * 7,
        booked=1,
    ),
    case(
        "tarpit: each line, from EHLO on",
        {"fault": "tarpit", "stage": "ehlo", "delay_s": 9, "each": "line"},
        says=[*GREETED, (NOOP, b"250 ")],
        waits=[9.0] * 11,
    ),
    case(
        "tarpit: each octet, from MAIL on",
        {"fault": "tarpit", "stage": "mail", "delay_s": 1, "each": "octet"},
        says=[*GREETED, (MAIL, b"250 2.1.0 sender OK\r\n")],
        waits=[1.0] * 21,
    ),
    *(
        case(
            f"tarpit: from {stage} on",
            {"fault": "tarpit", "stage": stage, "delay_s": 9},
            says=[*before, (said, yes), (NOOP if stage != "data" else MESSAGE, b"250 ")],
            waits=[9.0, 9.0],
            booked=1 if stage == "data" else 0,
        )
        for stage, before, said, yes in (
            ("auth", GREETED, AUTH, b"235 "),
            ("rcpt", TO_RCPT[:-1], RCPT, b"250 "),
            ("data", TO_RCPT, DATA, b"354 "),
        )
    ),
    # --- the end of a connection ---
    case(
        "QUIT: garbage",
        {"fault": "garble", "stage": "quit"},
        says=[*GREETED, (QUIT, b"\xff\xfe"), (b"", EOF)],
    ),
    case("QUIT: 5yz", reply("quit", 500), says=[*GREETED, (QUIT, b"500 "), (b"", EOF)]),
    case("QUIT: silence", {"fault": "hang", "stage": "quit"}, says=[*GREETED, (QUIT, SILENCE)]),
    case("QUIT: RST", {"fault": "reset", "stage": "quit"}, says=[*GREETED, (QUIT, RST)]),
    *(
        case(
            f"idle: {end} exactly when the next mail comes",
            {"fault": "close_on_next", "end": end},
            says=[*TO_DATA, (MESSAGE, b"250 "), (b"", SILENCE), (MAIL, heard)],
            booked=1,
        )
        for end, heard in (("hang_up", EOF), ("reset", RST), ("hang", SILENCE))
    ),
    case(
        "idle: 421 exactly when the next mail comes",
        {"fault": "close_on_next", "code": 421},
        says=[*TO_DATA, (MESSAGE, b"250 "), (b"", SILENCE), (MAIL, b"421 "), (b"", EOF)],
        booked=1,
    ),
    case(
        "idle: closed at once",
        {"fault": "hang_up", "stage": "idle"},
        says=[*TO_DATA, (MESSAGE, b"250 "), (b"", EOF)],
        booked=1,
    ),
    # --- throttling ---
    *(
        case(
            f"throttled: {style}",
            {"fault": "throttle", "style": style, "stage": stage},
            says=[*GREETED, *([(MAIL, b"250 ")] if stage == "rcpt" else []), (said, heard), *after],
        )
        for style, stage, said, heard, after in (
            ("generic", "mail", MAIL, b"451 4.7.0 too many messages", [(NOOP, b"250 ")]),
            ("closing", "mail", MAIL, b"421 4.7.0 too many messages", [(b"", EOF)]),
            (
                "permanent",
                "mail",
                MAIL,
                b"550 5.7.0 Requested action not taken: too many emails per second\r\n",
                [(NOOP, b"250 ")],
            ),
            ("ses", "mail", MAIL, b"454 Throttling failure: Maximum sending rate exceeded.\r\n", []),
            ("ses_quota", "mail", MAIL, b"454 Throttling failure: Daily message quota exceeded.\r\n", []),
            ("sendgrid", "rcpt", RCPT, b"452 Too many recipients received this hour (throttled)\r\n", []),
            (
                "sendgrid_credits",
                "auth",
                AUTH,
                b"451 Authentication failed: Maximum credits exceeded\r\n",
                [],
            ),
        )
    ),
    *(
        case(
            f"throttled at {stage}",
            {"fault": "throttle", "stage": stage},
            says=[*before, (said, b"451 4.7.0 too many messages"), *after],
        )
        for stage, before, said, after in (
            # RFC 5321, section 3.1: whoever is greeted like this may only leave.
            ("connect", [], b"", [(EHLO, b"503 "), (QUIT, b"221 ")]),
            ("data", TO_RCPT, DATA, [(NOOP, b"250 ")]),
            ("message", TO_DATA, MESSAGE, [(NOOP, b"250 ")]),
        )
    ),
    # --- what nobody sees on this wire ---
    *(
        case(f"{fault['fault']}: a yes like any other", fault, says=[*TO_DATA, (MESSAGE, b"250 ")], booked=1)
        for fault in (
            {"fault": "accept_then_drop"},
            {"fault": "fate", "fate": "hard_bounce"},
            {"fault": "webhook_early"},
        )
    ),
]


@pytest.mark.parametrize("it", CASES, ids=lambda it: it.id)
def test_what_a_sender_sees(it: Case) -> None:
    async def story() -> None:
        # Only the first connection is hit: the second one shows that the rest of the world goes on.
        rules = [rule if "times" in rule else rule | {"times": 9} for rule in it.rules]
        async with house(plan={"rule": rules}) as home:
            home.clock.wake.set()
            client = await home.client()
            for said, expected in it.says:
                if said:
                    await client.say(said)
                if expected == SILENCE and any(each.get("stage") == "connect" for each in it.rules):
                    await home.moves.until(lambda: any(each.rules for each in home.attempts()))
                    assert client.is_in_silence()
                else:
                    await heard(client, home, expected)
            assert len(home.booked()) == it.booked
            assert home.clock.slept[: len(it.waits)] == it.waits
            assert any(each.rules for each in home.attempts())
            client.sock.close()
            await home.closed()

    run(story())


# --- TLS --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("implicit", [False, True], ids=["STARTTLS", "TLS first"])
@pytest.mark.parametrize(("end", "expected"), [("hang_up", EOF), ("reset", RST), ("hang", SILENCE)])
def test_a_handshake_that_is_broken_off(end: str, expected: str, implicit: bool, tls: Tls) -> None:
    """The sender has been told to go ahead, has begun, and then there is nobody."""

    async def story() -> None:
        async with house(plan={"rule": [{"fault": "break_handshake", "end": end}]}, tls=tls) as home:
            client = await home.client(tls=implicit)
            if not implicit:
                await client.hello()
                assert (await client.ask(b"STARTTLS")).startswith(b"220 ")
            handshake = asyncio.ensure_future(client.secure(tls))
            if expected == SILENCE:
                await home.moves.until(lambda: any(each.rules for each in home.attempts()))
                other = await home.client(tls=implicit)
                other.sock.close()
                assert not handshake.done()
                handshake.cancel()
            else:
                with pytest.raises(EOFError if expected == EOF else ConnectionResetError):
                    await handshake
            client.sock.close()
            await home.closed()
            assert home.attempts()[0].answer == end.replace("_", " ")

    run(story())


@pytest.mark.parametrize("implicit", [False, True], ids=["STARTTLS", "TLS first"])
@pytest.mark.parametrize("alert", TlsAlert)
def test_a_handshake_that_is_refused(alert: TlsAlert, implicit: bool, tls: Tls) -> None:
    """In the words of TLS; whoever comes next is served."""

    async def story() -> None:
        rule = {"fault": "refuse_handshake", "alert": str(alert), "times": "once"}
        async with house(plan={"rule": [rule]}, tls=tls) as home:
            client = await home.client(tls=implicit)
            if not implicit:
                await client.hello()
                assert (await client.ask(b"STARTTLS")).startswith(b"220 ")
            with pytest.raises(ssl.SSLError, match=alert.name):
                await client.secure(tls)
            client.sock.close()
            await home.closed()
            assert home.attempts()[0].answer == f"TLS alert: {alert.replace('_', ' ')}"
            other = await home.client()
            await other.hello()
            assert (await other.send(RAW)).startswith(b"250 ")

    run(story())


@pytest.mark.parametrize("implicit", [False, True], ids=["STARTTLS", "TLS first"])
@pytest.mark.parametrize(
    ("problem", "says"),
    [
        ("expired", "certificate has expired"),
        ("not_yet_valid", "certificate is not yet valid"),
        ("wrong_host", "Hostname mismatch"),
        ("untrusted", "unable to get local issuer certificate"),
    ],
)
def test_a_bad_certificate(problem: str, says: str, implicit: bool, tls: Tls) -> None:
    """Whoever checks it leaves; whoever comes next is served with a good one."""

    async def story() -> None:
        rule = {"fault": "bad_certificate", "problem": problem, "times": "once"}
        async with house(plan={"rule": [rule]}, tls=tls) as home:
            for expected in (says, None):
                client = await home.client(tls=implicit)
                if not implicit:
                    await client.hello()
                    assert (await client.ask(b"STARTTLS")).startswith(b"220 ")
                if expected is not None:
                    with pytest.raises(ssl.SSLCertVerificationError, match=expected):
                        await client.secure(tls)
                    client.sock.close()
                else:
                    await client.secure(tls)
                    if implicit:
                        await client.hello()
                    else:
                        assert (await client.ask(b"EHLO c.example")).startswith(b"250-")
                    assert (await client.send(RAW)).startswith(b"250 ")

    run(story())


def test_starttls_refused_is_gone_on_without(tls: Tls) -> None:
    async def story() -> None:
        async with house(plan={"rule": [reply("starttls", 454, dialect="smtp")]}, tls=tls) as home:
            client = await home.client()
            await client.hello()
            assert (await client.ask(b"STARTTLS")).startswith(b"454 4.7.0 ")
            assert (await client.send(RAW)).startswith(b"250 ")

    run(story())


def cells_of(rules: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """Return fault and stage of each rule, whatever it calls them."""
    setup = read_plan({"rule": rules}, "a case")
    return {(each.fault.name, stage) for each in setup.plan.rules for _, stage in each.stages}


def test_every_fault_at_every_stage_is_in_a_catalogue() -> None:
    """A fault or a stage that is new has no case yet: write one, here or in the matrix of `test_dialogue.py`."""
    seen = set().union(*(cells_of(it.rules) for it in CASES))
    seen |= {(str(name), str(stage)) for name, stage in (param.values for param in MATRIX)}
    seen |= {
        (name, "starttls") for name in ("break_handshake", "bad_certificate", "refuse_handshake")
    }  # Above.

    assert {(name, stage) for name, fault in FAULTS.items() for stage in fault.stages.get("smtp", ())} == seen


def test_greylisting() -> None:
    """One recipient of two is known; the other one has to come again, and is told when."""

    async def story() -> None:
        async with house(plan={"greylist": {"delay_s": 60, "whitelist": ["*@known.example"]}}) as home:
            client = await home.client()
            await client.hello()
            for ahead_s, new in (
                (0, b"451 4.7.1 greylisted, please come back later; try again in 60 seconds\r\n"),
                (60, b"250 "),
            ):
                home.provider.advance("default", ahead_s, NOW)
                assert (await client.ask(b"MAIL FROM:<a@x.example>")).startswith(b"250 ")
                assert (await client.ask(b"RCPT TO:<b@known.example>")).startswith(b"250 ")
                assert (await client.ask(b"RCPT TO:<b@new.example>")).startswith(new)
                assert (await client.ask(b"DATA")).startswith(b"354 ")
                assert (await client.ask(RAW + b".")).startswith(b"250 ")
            assert [each.recipients for each in home.booked()] == [
                ("b@known.example",),
                ("b@known.example", "b@new.example"),
            ]

    run(story())
