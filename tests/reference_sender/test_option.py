"""An option is a value that the command line, the environment and a file of providers share."""

from __future__ import annotations

from reference_sender.option import Option


def test_an_option_says_nothing_but_its_names_unless_it_is_told_to() -> None:
    option = Option(name="lease_s", envvar="OUTBOX_LEASE_S", help="How long.")
    assert (option.kind, option.choices, option.default) == (str, (), None)
