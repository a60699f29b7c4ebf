"""The syntax of SMTP commands: paths and parameters, as RFC 5321, section 4.1.2, writes them.

Text in, text out; whatever is malformed is an `Objection` that carries the reply. No connection is known here.
"""

from __future__ import annotations

import ipaddress
import re

from simulator.dialects.smtp import lines

#: RFC 5321, section 4.5.3.1.1, and how `SmtpRules.max_local_part_bytes` begins.
LOCAL_PART_LIMIT_BYTES = 64
#: RFC 5321, section 4.5.3.1.2.
DOMAIN_LIMIT_BYTES = 255
#: What both make together with the @. Section 4.5.3.1.3 asks to take paths of 256, and allows to take longer ones.
MAILBOX_LIMIT_BYTES = 320
#: RFC 1035, section 2.3.4.
LABEL_LIMIT_BYTES = 63


def _or_beyond_ascii(some: str) -> str:
    """Return the set of these characters of ASCII (as between brackets) and of all others.

    Written as what it is not: a set with a range up to the end of Unicode takes `re` a hundredth of a second.
    """
    meant = re.compile(f"[{some}]")
    return f"[^{''.join(re.escape(chr(code)) for code in range(128) if not meant.match(chr(code)))}]"


_ATOM = _or_beyond_ascii(r"A-Za-z0-9!#$%&'*+/=?^_`{|}~\-") + "+"
_IN_QUOTES = _or_beyond_ascii(r" !#-\[\]-~")
_QUOTED = rf'"(?:{_IN_QUOTES}|\\[ -~])*"'
# An underscore is no letter of a host name, but container names have them and real servers take them.
_LETTER = _or_beyond_ascii("A-Za-z0-9_")
_INNER = _or_beyond_ascii(r"A-Za-z0-9_\-")
_LABEL = rf"{_LETTER}(?:{_INNER}*{_LETTER})?"
_DOMAIN = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[!-Z^-~]+\])"
_PATH = re.compile(
    # A source route must be understood and ignored (RFC 5321, section 4.1.1.3 and appendix C).
    rf"<(?:@{_DOMAIN}(?:,@{_DOMAIN})*:)?"
    rf"(?P<mailbox>(?P<local>{_ATOM}(?:\.{_ATOM})*|{_QUOTED})@(?P<domain>{_DOMAIN}))>(?= |\Z)"
)
_NULL_PATH = re.compile(r"<>(?= |\Z)")
_POSTMASTER = re.compile(r"<(?P<mailbox>postmaster)>(?= |\Z)", re.IGNORECASE)
_HOST = re.compile(rf"{_DOMAIN}\.?\Z")
_GENERAL_LITERAL = re.compile(r"[A-Za-z0-9-]*[A-Za-z0-9]:[!-Z^-~]+\Z")
_PARAMETER = re.compile(
    rf"(?P<key>[A-Za-z0-9][A-Za-z0-9\-]*)(?:=(?P<value>{_or_beyond_ascii('!-<>-~')}+))?\Z"
)
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_XCHAR = r"(?:[!-*,-<>-~]|\+[0-9A-F]{2})"
# RFC 3461, sections 4.2 and 4.4: of what can be written so, only what can be printed.
_PRINTED = r"(?:[!-*,-<>-~]|\+(?:[2-6][0-9A-F]|7[0-9A-E]))"
_HEXCHAR = re.compile(r"\+([0-9A-F]{2})")

#: Parameters of MAIL and what their values look like (None: there is no value).
MAIL_PARAMETERS: dict[str, re.Pattern[str] | None] = {
    "SIZE": re.compile(r"[0-9]{1,20}\Z"),
    "BODY": re.compile(r"(?:7BIT|8BITMIME)\Z", re.IGNORECASE),
    "SMTPUTF8": None,
    "AUTH": re.compile(rf"(?:<>|{_XCHAR}+)\Z"),
    "RET": re.compile(r"(?:FULL|HDRS)\Z", re.IGNORECASE),
    # RFC 3461, section 4.4: at most 100 characters.
    "ENVID": re.compile(rf"(?=.{{1,100}}\Z){_PRINTED}+\Z"),
}
#: The same of RCPT.
RCPT_PARAMETERS: dict[str, re.Pattern[str] | None] = {
    "NOTIFY": re.compile(
        r"(?:NEVER|(?:SUCCESS|FAILURE|DELAY)(?:,(?:SUCCESS|FAILURE|DELAY)){0,2})\Z", re.IGNORECASE
    ),
    # RFC 3461, section 4.2: at most 500 characters. UTF-8 is for the address type `utf-8` (RFC 6533, section 3).
    "ORCPT": re.compile(
        rf"(?=.{{1,500}}\Z)(?:[A-Za-z0-9\-]+;{_PRINTED}+|(?i:utf-8);(?:{_PRINTED}|[^\x00-\x7f\ud800-\udfff])+)\Z"
    ),
}


class Objection(Exception):
    """A command is not well-formed; carries the reply that says so."""

    def __init__(self, code: int, enhanced: str, text: str) -> None:
        super().__init__(text)
        self.reply = lines(code, enhanced, text)


def read_path(
    arg: str, keyword: str, *, local_part_limit_bytes: int = LOCAL_PART_LIMIT_BYTES
) -> tuple[str, str]:
    """Split `FROM:<path> parameters` into mailbox and the rest. The null path gives an empty mailbox.

    RFC 5321, section 4.1.2, with two liberties that all real servers take: spaces after the colon, and an
    underscore in a domain. Raises `Objection` for everything else.
    """
    sending = keyword == "FROM:"
    enhanced, command = ("5.1.7", "MAIL FROM") if sending else ("5.1.3", "RCPT TO")
    if arg[: len(keyword)].upper() != keyword:
        raise Objection(501, "5.5.4", f"syntax: {command}:<address>")
    path = arg[len(keyword) :].lstrip(" ")
    if sending and (null := _NULL_PATH.match(path)) is not None:
        return "", path[null.end() :]
    if (found := _PATH.match(path)) is None:
        found = None if sending else _POSTMASTER.match(path)
        if found is None:
            raise Objection(501, enhanced, f"bad address syntax: {command}:<local-part@domain>")
        return found["mailbox"], path[found.end() :]
    mailbox, local, domain = found.group("mailbox", "local", "domain")
    # Whatever is shorter than the tightest limit needs no closer look.
    if len(mailbox) > LABEL_LIMIT_BYTES or not mailbox.isascii() or domain[0] == "[":
        _look_closely(mailbox, local, domain, local_part_limit_bytes, enhanced)
    elif len(local) > local_part_limit_bytes:
        raise Objection(501, enhanced, f"a local part has at most {local_part_limit_bytes} octets")
    return mailbox, path[found.end() :]


def _look_closely(mailbox: str, local: str, domain: str, local_limit_bytes: int, enhanced: str) -> None:
    if _SURROGATE.search(mailbox) is not None:
        raise Objection(501, enhanced, "the address is not UTF-8")
    for part, limit, what in (
        (local, local_limit_bytes, "a local part"),
        (domain, DOMAIN_LIMIT_BYTES, "a domain"),
        (mailbox, max(MAILBOX_LIMIT_BYTES, local_limit_bytes), "an address"),
    ):
        if len(part.encode()) > limit:
            raise Objection(501, enhanced, f"{what} has at most {limit} octets")
    if domain[0] == "[":
        if not is_literal(domain):
            raise Objection(501, enhanced, "bad address literal: [192.0.2.1] or [IPv6:2001:db8::1]")
    elif any(len(label.encode()) > LABEL_LIMIT_BYTES for label in domain.split(".")):
        raise Objection(501, enhanced, f"a label of a domain has at most {LABEL_LIMIT_BYTES} octets")


def is_literal(domain: str) -> bool:
    """Tell whether this is an address literal (RFC 5321, section 4.1.3)."""
    inner = domain[1:-1]
    try:
        if inner[:5].upper() == "IPV6:":
            return "%" not in inner and bool(ipaddress.IPv6Address(inner[5:]))
        if ":" not in inner:
            return bool(ipaddress.IPv4Address(inner))
    except ipaddress.AddressValueError:
        return False
    return _GENERAL_LITERAL.match(inner) is not None


def is_host(name: str) -> bool:
    """Tell whether this can follow EHLO or HELO: a domain or an address literal (RFC 5321, section 4.1.1.1).

    That the name is the sender's own is not asked: section 4.1.4 forbids to refuse mail for it.
    """
    return (
        len(name) <= DOMAIN_LIMIT_BYTES and _HOST.match(name) is not None and _SURROGATE.search(name) is None
    )


def read_parameters(rest: str, known: dict[str, re.Pattern[str] | None]) -> dict[str, str]:
    """Read ` KEY=VALUE KEY` (RFC 5321, section 4.1.2). Raises `Objection` for unknown or malformed ones."""
    parameters: dict[str, str] = {}
    for word in rest.split(" "):
        if not word:
            continue
        found = _PARAMETER.match(word)
        if found is None:
            raise Objection(501, "5.5.4", "bad parameter syntax: KEYWORD or KEYWORD=value")
        key, value = found["key"].upper(), found["value"]
        if key not in known:
            raise Objection(555, "5.5.4", f"parameter {key} is not known here")
        wanted = known[key]
        if key in parameters or (value is None) != (wanted is None):
            raise Objection(501, "5.5.4", f"bad use of parameter {key}")
        if wanted is not None and wanted.match(value) is None:
            raise Objection(501, "5.5.4", f"bad value of parameter {key}")
        parameters[key] = value or ""
    return parameters


def from_xtext(text: str) -> str:
    """Decode the xtext of RFC 3461, section 4."""
    if "+" not in text or not text.isascii():
        return text
    octets = _HEXCHAR.sub(lambda found: chr(int(found[1], 16)), text)
    return octets.encode("latin-1").decode("utf-8", "replace")


def need_utf8(mailbox: str, allowed: bool) -> None:
    """RFC 6531, section 3.5: without SMTPUTF8 an address is ASCII."""
    if not allowed and not mailbox.isascii():
        raise Objection(553, "5.6.7", "an address that is not ASCII needs SMTPUTF8")


def need_utf8_for_orcpt(orcpt: str, allowed: bool) -> None:
    """RFC 6533, section 3: `utf-8-addr-unitext` is for mail with SMTPUTF8, `utf-8-addr-xtext` (ASCII) for any."""
    if not allowed and not orcpt.isascii():
        raise Objection(
            501,
            "5.5.4",
            r"ORCPT beyond ASCII needs SMTPUTF8; without it: utf-8;\x{HEX} (RFC 6533, section 3)",
        )
