"""What EHLO offers, and which parameters of MAIL and RCPT stand behind it: nothing is taken that was not offered."""

from __future__ import annotations

import re
from functools import lru_cache

from simulator.dialects.smtp import lines
from simulator.provider.smtp import KEYWORDS, SmtpRules
from simulator.servers.smtp.syntax import MAIL_PARAMETERS, RCPT_PARAMETERS

#: The keyword that a parameter of MAIL or RCPT stands behind.
KEYWORD_OF = {
    "SIZE": "SIZE",
    "BODY": "8BITMIME",
    "SMTPUTF8": "SMTPUTF8",
    "AUTH": "AUTH",
    "RET": "DSN",
    "ENVID": "DSN",
    "NOTIFY": "DSN",
    "ORCPT": "DSN",
}

Parameters = dict[str, re.Pattern[str] | None]


@lru_cache(maxsize=256)
def offered(rules: SmtpRules, *, can_start_tls: bool, is_secure: bool) -> frozenset[str]:
    """Return the keywords that are offered."""
    keywords = {each for each in KEYWORDS if rules.offers(each)}
    if is_secure or not can_start_tls:
        # RFC 3207, section 4.2: not offered again once it is done.
        keywords.discard("STARTTLS")
    if rules.require_tls and not is_secure:
        # RFC 3207, section 6: no credentials over a line that anybody can read.
        keywords.discard("AUTH")
    return frozenset(keywords)


@lru_cache(maxsize=256)
def ehlo_reply(hostname: str, rules: SmtpRules, keywords: frozenset[str], size_limit_bytes: int) -> bytes:
    """Return the reply to EHLO."""
    size = size_limit_bytes if rules.size is None else rules.size
    said = {
        "SIZE": f"SIZE {size}" if size else "SIZE",
        "AUTH": f"AUTH {' '.join(rules.auth)}",
    }
    offers = (said.get(each, each) for each in KEYWORDS if each in keywords)
    return lines(250, None, "\n".join((hostname, *offers, *rules.offer)))


@lru_cache(maxsize=256)
def helo_reply(hostname: str) -> bytes:
    """Return the reply to HELO."""
    return lines(250, None, hostname)


@lru_cache(maxsize=256)
def mail_parameters(keywords: frozenset[str]) -> Parameters:
    """Return the parameters that MAIL takes."""
    return {key: form for key, form in MAIL_PARAMETERS.items() if KEYWORD_OF[key] in keywords}


@lru_cache(maxsize=256)
def rcpt_parameters(keywords: frozenset[str]) -> Parameters:
    """Return the parameters that RCPT takes."""
    return {key: form for key, form in RCPT_PARAMETERS.items() if KEYWORD_OF[key] in keywords}
