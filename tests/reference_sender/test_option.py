"""An option is a value that the command line, the environment and a file of providers share."""

from __future__ import annotations

from reference_sender.wiring import OPTIONS


def test_names_and_variables_are_ones_own() -> None:
    assert len({option.name for option in OPTIONS}) == len(OPTIONS)
    assert len({option.envvar for option in OPTIONS}) == len(OPTIONS)


def test_a_default_is_of_the_kind_of_its_option() -> None:
    for option in OPTIONS:
        assert option.default is None or isinstance(option.default, option.kind)
