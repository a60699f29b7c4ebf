"""AUTH: PLAIN and LOGIN, with and without initial response, and whose account it is from then on."""

from __future__ import annotations

import base64

import pytest

from tests.simulator.servers.smtp.house import (
    PLAIN,
    RAW,
    house,
    run,
)


def test_the_account_is_the_user_who_logged_in() -> None:
    """Any password will do; a user nobody named belongs to the default account; it lasts for the connection."""

    async def story() -> None:
        async with house(accounts=("shop",)) as home:
            for user in (b"shop", b"stranger"):
                client = await home.client()
                await client.hello()
                assert (await client.ask(b"AUTH LOGIN")) == b"334 VXNlcm5hbWU6\r\n"
                assert (await client.ask(base64.b64encode(user))) == b"334 UGFzc3dvcmQ6\r\n"
                assert (
                    await client.ask(base64.b64encode(b"pw"))
                ) == b"235 2.7.0 authentication succeeded\r\n"
                await client.send(RAW)
                await client.send(RAW)
            assert len(home.booked("shop")) == 2
            assert len(home.booked()) == 2

    run(story())


def test_the_account_is_that_of_the_user_who_came_with_the_command() -> None:
    """RFC 4954, section 4: LOGIN asks for the password only then."""

    async def story() -> None:
        async with house(accounts=("shop",)) as home:
            client = await home.client()
            await client.hello()
            assert (await client.ask(b"AUTH LOGIN " + base64.b64encode(b"shop"))) == b"334 UGFzc3dvcmQ6\r\n"
            assert (await client.ask(base64.b64encode(b"pw"))).startswith(b"235 2.7.0 ")
            await client.send(RAW)
            assert (len(home.booked()), len(home.booked("shop"))) == (0, 1)

    run(story())


def test_an_attempt_that_has_ended_does_not_move_to_the_account_of_a_later_login() -> None:
    async def story() -> None:
        async with house(accounts=("shop",)) as home:
            client = await home.client()
            await client.hello()
            await client.send(RAW)
            assert (await client.ask(PLAIN)).startswith(b"235 ")
            await client.send(RAW)
            assert (len(home.booked()), len(home.attempts())) == (1, 1)
            assert (len(home.booked("shop")), len(home.attempts("shop"))) == (1, 1)

    run(story())


@pytest.mark.parametrize(
    ("said", "code"),
    [
        pytest.param([b"AUTH"], b"501 5.5.4", id="no mechanism"),
        pytest.param([b"AUTH CRAM-MD5"], b"504 5.5.4", id="unknown mechanism"),
        pytest.param([b"auth plain AHNob3AAcHc="], b"235 2.7.0", id="lower case"),
        pytest.param([b"AUTH PLAIN", b"AHNob3AAcHc="], b"235 2.7.0", id="response after 334"),
        pytest.param([b"AUTH PLAIN", b"*"], b"501 5.7.0", id="given up"),
        pytest.param(
            [b"AUTH PLAIN " + base64.b64encode(b"\0j\xf6rg\0pw")], b"535 5.7.8", id="PLAIN, not UTF-8"
        ),
        pytest.param(
            [b"AUTH LOGIN " + base64.b64encode(b"j\xf6rg"), base64.b64encode(b"pw")],
            b"535 5.7.8",
            id="LOGIN, not UTF-8",
        ),
        pytest.param([b"AUTH PLAIN !!!"], b"501 5.5.2", id="not base64"),
        pytest.param([b"AUTH PLAIN c2hvcA=="], b"501 5.5.2", id="one part only"),
        pytest.param([b"AUTH PLAIN AAA="], b"535 5.7.8", id="no user"),
        pytest.param([b"AUTH LOGIN c2hvcA==", b"cHc="], b"235 2.7.0", id="LOGIN with its user at once"),
        pytest.param([b"AUTH LOGIN c2hvcA==", b"*"], b"501 5.7.0", id="LOGIN given up"),
        pytest.param([b"AUTH LOGIN !!!"], b"501 5.5.2", id="LOGIN, not base64"),
        pytest.param([b"AUTH LOGIN =", b"cHc="], b"535 5.7.8", id="LOGIN, no user"),
        pytest.param([b"AUTH PLAIN ="], b"501 5.5.2", id="empty initial response"),
        pytest.param([b"AUTH PLAIN", b"A" * 20_000], b"500 5.5.6", id="response too long"),
        pytest.param([b"AUTH PLAIN AHNob3AAcHc=", b"AUTH PLAIN AHNob3AAcHc="], b"503 5.5.1", id="twice"),
        pytest.param([b"MAIL FROM:<>", b"AUTH PLAIN AHNob3AAcHc="], b"503 5.5.1", id="within a transaction"),
        pytest.param([b"HELO x", b"AUTH PLAIN AHNob3AAcHc="], b"503 5.5.1", id="after HELO"),
    ],
)
def test_auth(said: list[bytes], code: bytes) -> None:
    async def story() -> None:
        async with house() as home:
            client = await home.client()
            await client.hello()
            for command in said:
                reply = await client.ask(command)
            assert reply.startswith(code)
            assert (await client.ask(b"NOOP")) == b"250 2.0.0 OK\r\n"

    run(story())


def test_a_response_that_ends_with_lf_is_none() -> None:
    async def story() -> None:
        async with house() as home:
            client = await home.client()
            await client.hello()
            assert (await client.ask(b"AUTH PLAIN")).startswith(b"334 ")
            await client.say(b"AHNob3AAcHc=\n")
            assert (await client.reply()).startswith(b"500 5.5.2 lines end with CRLF")
            assert (await client.ask(b"NOOP")).startswith(b"250 ")

    run(story())
