"""The settings of SMTP: what they offer."""

from __future__ import annotations

import pytest

from simulator.provider.smtp import KEYWORDS, SmtpRules


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_everything_is_offered_unless_it_is_hidden(keyword: str) -> None:
    assert SmtpRules().offers(keyword)
    assert not SmtpRules(hide=(keyword,)).offers(keyword)


def test_authentication_without_a_mechanism_is_none() -> None:
    assert not SmtpRules(auth=()).offers("AUTH")
