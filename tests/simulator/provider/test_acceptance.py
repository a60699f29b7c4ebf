"""What an acceptance says of itself: the fate of each recipient, its name, and what it weighs in memory."""

from __future__ import annotations

import pytest

from simulator.provider.acceptance import LIGHT_BYTES, LIGHT_RECIPIENTS, message_name, weight_of
from simulator.provider.fate import Destiny, Fate
from tests.simulator.provider.mails import ANN, BOB, acceptance


def test_whoever_no_rule_named_shares_the_fate_of_the_mail() -> None:
    bounce = Destiny(fate=Fate.HARD_BOUNCE, code=552)
    mail = acceptance(recipients=(ANN, BOB), fate=Fate.OPENED, destinies=((ANN, bounce),))

    assert mail.destiny_of(ANN.upper()) is bounce
    assert mail.destiny_of(BOB) == Destiny(fate=Fate.OPENED)


def test_names_follow_from_seed_account_and_number() -> None:
    names = {message_name(seed, account, n) for seed in (0, 1) for account in ("a", "b") for n in (1, 2)}

    assert len(names) == 8
    assert message_name(0, "a", 1) == message_name(0, "a", 1)


FEW, MANY = ("a@x",) * LIGHT_RECIPIENTS, ("a@x",) * (LIGHT_RECIPIENTS + 1)
HEAVY = LIGHT_BYTES + 1


@pytest.mark.parametrize(
    ("recipients", "size_bytes", "header_chars", "weight"),
    [
        # Whose header fields cannot be many is not looked into.
        (FEW, LIGHT_BYTES, HEAVY, 0),
        (FEW, HEAVY, LIGHT_BYTES, 0),
        (FEW, HEAVY, HEAVY, HEAVY),
        (MANY, 1, 10, 10 + 3 * len(MANY)),
        (MANY, HEAVY, HEAVY, HEAVY + 3 * len(MANY)),
    ],
)
def test_only_long_headers_and_many_recipients_weigh_anything(
    recipients: tuple[str, ...], size_bytes: int, header_chars: int, weight: int
) -> None:
    """In characters, names of header fields included."""
    headers = (("X-Much", "x" * (header_chars - 6)),)

    assert weight_of(acceptance(recipients=recipients, size_bytes=size_bytes, headers=headers)) == weight
