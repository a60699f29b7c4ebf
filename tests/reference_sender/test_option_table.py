"""The table of options: each has a name, a variable and a help of its own, and a default of its kind."""

from __future__ import annotations

from reference_sender.option_table import OF_ONE, OPTIONS


def test_names_and_variables_are_ones_own() -> None:
    assert len({o.envvar for o in OPTIONS}) == len({o.name for o in OPTIONS}) == len(OPTIONS)
    assert all(o.help for o in OPTIONS)


def test_a_default_is_of_the_kind_of_its_option() -> None:
    for option in OPTIONS:
        assert option.default is None or isinstance(option.default, option.kind)


def test_what_is_of_the_whole_sender_no_provider_has_for_itself() -> None:
    names = {option.name for option in OF_ONE}
    assert names < {option.name for option in OPTIONS}
    assert {"provider_url", "smtp_host", "rate_per_s"} <= names
    assert not names & {"database_url", "body_keys", "metrics", "alarm_url", "providers"}
