"""An option is a value that the command line, the environment and a file of providers share."""

from __future__ import annotations

from reference_sender.option import Option, renamed


def test_an_option_says_nothing_but_its_names_unless_it_is_told_to() -> None:
    option = Option(name="lease_s", envvar="OUTBOX_LEASE_S", help="How long.")
    assert (option.kind, option.choices, option.default) == (str, (), None)


def test_a_name_is_replaced_where_it_is_a_word_of_its_own() -> None:
    names = {"OUTBOX_RATE": "--rate", "OUTBOX_RATE_PER_S": "--rate-per-s"}
    assert renamed("OUTBOX_RATE_PER_S (1) and OUTBOX_RATE; MY_OUTBOX_RATE", names) == (
        "--rate-per-s (1) and --rate; MY_OUTBOX_RATE"
    )
    assert renamed("OUTBOX_RATE", {}) == "OUTBOX_RATE"
