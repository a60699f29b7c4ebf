"""What is offered: every parameter of MAIL and RCPT stands behind a keyword, and TLS changes what there is."""

from __future__ import annotations

from simulator.provider.smtp import KEYWORDS, SmtpRules
from simulator.servers.smtp.offers import (
    KEYWORD_OF,
    ehlo_reply,
    mail_parameters,
    offered,
    rcpt_parameters,
)
from simulator.servers.smtp.syntax import MAIL_PARAMETERS, RCPT_PARAMETERS


def test_every_parameter_stands_behind_a_keyword_that_there_is() -> None:
    assert set(KEYWORD_OF) == {*MAIL_PARAMETERS, *RCPT_PARAMETERS}
    assert set(KEYWORD_OF.values()) <= set(KEYWORDS)
    assert mail_parameters(frozenset(KEYWORDS)) == MAIL_PARAMETERS
    assert rcpt_parameters(frozenset(KEYWORDS)) == RCPT_PARAMETERS
    assert mail_parameters(frozenset({"DSN"})).keys() == {"RET", "ENVID"}
    assert rcpt_parameters(frozenset()) == {}


def test_starttls_is_offered_where_it_can_be_had_and_only_once() -> None:
    rules = SmtpRules()

    assert "STARTTLS" not in offered(rules, can_start_tls=False, is_secure=False)
    assert "STARTTLS" in offered(rules, can_start_tls=True, is_secure=False)
    assert "STARTTLS" not in offered(rules, can_start_tls=True, is_secure=True)


def test_credentials_are_not_asked_for_before_tls_where_that_is_required() -> None:
    rules = SmtpRules(require_tls=True)

    assert "AUTH" not in offered(rules, can_start_tls=True, is_secure=False)
    assert "AUTH" in offered(rules, can_start_tls=True, is_secure=True)


def test_a_size_of_zero_is_said_without_a_number() -> None:
    """RFC 1870, section 4: then no limit is told."""
    reply = ehlo_reply("mx.example", SmtpRules(size=0), frozenset({"SIZE"}), 1_000)

    assert reply == b"250-mx.example\r\n250 SIZE\r\n"
