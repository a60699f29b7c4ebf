"""The log: one JSON object a line."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import IntegrityError, OperationalError

from reference_sender.clock import SystemClock
from reference_sender.log import Both, JsonLog, cause_of, name_of, quiet
from reference_sender.message import Mail
from reference_sender.outbox.store import enqueue
from reference_sender.wiring import Parts, build, options_from
from tests.reference_sender.samples import NOW, ManualClock
from tests.reference_sender.transports.wires import serving


def test_an_event_is_one_json_line_with_its_facts() -> None:
    stream = io.StringIO()
    JsonLog(stream, ManualClock())("decided", id=1, state="accepted", code=None)
    (line,) = stream.getvalue().splitlines()
    assert {"at": NOW.isoformat(), "event": "decided", "id": 1, "state": "accepted"} == json.loads(line)


def test_a_full_disk_is_no_trouble_of_whoever_says_something() -> None:
    """A worker whose log cannot be written goes on: an error out of it would end the loop."""

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    JsonLog(Full(), ManualClock())("claim_failed", failures=1)


def test_a_key_that_was_made_of_an_address_goes_without_it() -> None:
    assert name_of("order-1") == "order-1"
    assert name_of("campaign-318-user-ann@example.com") == "<address>"


def test_the_quiet_log_says_nothing() -> None:
    quiet("decided", id=1)


def test_several_may_listen() -> None:
    one, other = io.StringIO(), io.StringIO()
    Both(JsonLog(one, ManualClock()), JsonLog(other, ManualClock()))("decided", id=1)
    assert one.getvalue() == other.getvalue() != ""


def test_the_cause_is_what_the_driver_said_in_one_line() -> None:
    engine = create_engine("sqlite://")
    with engine.connect() as connection, pytest.raises(OperationalError) as caught:
        connection.execute(text("SELECT a FROM nowhere WHERE x = :body"), {"body": "Thank you"})
    engine.dispose()
    assert cause_of(caught.value) == "no such table: nowhere"


def test_the_cause_is_the_root_of_a_chain() -> None:
    outer = RuntimeError("something failed")
    outer.__cause__ = KeyError("why")
    assert cause_of(outer) == "'why'"
    assert cause_of(ConnectionError()) == "ConnectionError"


def test_a_cause_holds_no_address_and_nothing_of_a_row() -> None:
    """PostgreSQL names the row in the lines below the first."""
    said = "value of ann@example.com is wrong\nDETAIL: Failing row contains (1, <bob@example.com>, Thank you)"
    cause = cause_of(IntegrityError("INSERT …", {}, Exception(said)))
    assert cause == "value of <address> is wrong"
    assert len(cause_of(ValueError("x" * 5_000))) == 200


SECRETS = ("ann", "example.com", "Shop", "Dear", "4711", "s3cr3t", "k3y", "subject-line")


def test_a_whole_run_says_no_address_no_body_and_no_secret(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Accepted, refused, hung up on, in the words of a provider that repeats everything, and with a broken database."""
    answers = iter(
        (
            '200 OK\r\nContent-Length: 14\r\n\r\n{"id": "m1"}  ',
            "422 No\r\nContent-Length: 44\r\n\r\nann@example.com may not be written to: Dear ",
            "200 OK\r\nContent-Length: 99\r\n\r\n",
            "500 ann@example.com\r\nX-Ann: ann@example.com\r\nContent-Length: 0\r\n\r\n",
        )
    )
    said = io.StringIO()
    told: list[str] = []

    more = asyncio.Event()

    def heard(event: str, /, **_: object) -> None:
        told.append(event)
        more.set()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        lengths = [
            int(x.split(b":")[1]) for x in head.splitlines() if x.lower().startswith(b"content-length")
        ]
        await reader.readexactly(sum(lengths))
        answer = next(answers, "500 No\r\nContent-Length: 0\r\n\r\n")
        writer.write(b"HTTP/1.1 " + answer.encode())
        await writer.drain()

    async def steps() -> None:
        async with serving(script) as port:
            sender = build(
                options_from(
                    {
                        "database_url": f"sqlite:///{tmp_path / 'outbox.db'}",
                        "provider_url": f"http://127.0.0.1:{port}",
                        "provider_api_key": "k3y-s3cr3t",
                        "concurrency": 1,
                        "poll_s": 0.05,
                        "lookup": "none",
                        # Nothing is tried again: nobody may be in the middle of a mail when the database breaks.
                        "backoff_base_s": 600.0,
                        "backoff_cap_s": 600.0,
                    }
                ),
                Parts(log=Both(JsonLog(said, SystemClock()), heard)),
            )
            sender.store.create()

            def promise(number: int) -> None:
                mail = Mail(
                    sender="Shop <shop@example.org>",
                    recipients=(f"ann+{number}@example.com",),
                    subject="subject-line 4711",
                    text="Dear Ann 4711",
                )
                with sender.store.engine.begin() as connection:
                    enqueue(
                        connection, mail, key=f"order-{number}", template="t", parameters={"name": "Ann 4711"}
                    )

            for number in range(4):
                promise(number)
            stop = asyncio.Event()
            running = asyncio.create_task(sender.run(stop))

            async def until(event: str, count: int) -> None:
                async with asyncio.timeout(20):
                    while told.count(event) < count:
                        more.clear()
                        await more.wait()

            await until("decided", 4)
            with sender.store.engine.begin() as connection:
                connection.execute(
                    text(
                        "CREATE TRIGGER broken BEFORE UPDATE ON outgoing_email BEGIN "
                        "SELECT RAISE(ABORT, 'row of ann@example.com is locked'); END"
                    )
                )
            promise(4)
            await until("claim_failed", 1)
            stop.set()
            await running

    asyncio.run(steps())
    lines = [json.loads(line) for line in said.getvalue().splitlines()]
    assert {"decided", "claim_failed"} <= {line["event"] for line in lines}
    assert {"accepted", "failed", "pending"} <= {line.get("state") for line in lines}
    everything = said.getvalue() + "".join(capfd.readouterr()) + caplog.text
    assert [secret for secret in SECRETS if secret.lower() in everything.lower()] == []
    for line in lines:
        if line["event"] == "decided":
            assert line["key"].startswith("order-")
            assert {"id", "state", "message_id", "attempt"} <= line.keys()
