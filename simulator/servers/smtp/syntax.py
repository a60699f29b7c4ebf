"""The syntax of SMTP commands: paths and parameters, as RFC 5321, section 4.1.2, writes them.

Text in, text out; whatever is malformed is an `Objection` that carries the reply. No connection is known here.
"""

from __future__ import annotations

import re

from simulator.dialects.smtp import lines

#: Longest mailbox in octets: a path of 256 without its brackets (RFC 5321, section 4.5.3.1.3). The 64 octets
#: of a local part are not insisted on: return paths that carry a recipient are longer, and real servers take them.
MAILBOX_LIMIT_BYTES = 254

_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\-\u0080-\U0010ffff]+"
_QUOTED = r'"(?:[ !#-\[\]-~\u0080-\U0010ffff]|\\[ -~])*"'
# An underscore is no letter of a host name, but container names have them and real servers take them.
_LABEL = r"[A-Za-z0-9_\u0080-\U0010ffff](?:[A-Za-z0-9_\-\u0080-\U0010ffff]*[A-Za-z0-9_\u0080-\U0010ffff])?"
_DOMAIN = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[!-Z^-~]+\])"
_PATH = re.compile(
    # A source route must be understood and ignored (RFC 5321, section 4.1.1.3 and appendix C).
    rf"<(?:@{_DOMAIN}(?:,@{_DOMAIN})*:)?"
    rf"(?P<mailbox>(?:{_ATOM}(?:\.{_ATOM})*|{_QUOTED})@{_DOMAIN})>(?= |\Z)"
)
_NULL_PATH = re.compile(r"<>(?= |\Z)")
_POSTMASTER = re.compile(r"<(?P<mailbox>postmaster)>(?= |\Z)", re.IGNORECASE)
_PARAMETER = re.compile(r"(?P<key>[A-Za-z0-9][A-Za-z0-9\-]*)(?:=(?P<value>[!-<>-~\u0080-\U0010ffff]+))?\Z")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_XTEXT = re.compile(r"(?:[!-*,-<>-~]|\+[0-9A-F]{2})+\Z")

#: Parameters of MAIL and what their values look like (None: there is no value).
MAIL_PARAMETERS: dict[str, re.Pattern[str] | None] = {
    "SIZE": re.compile(r"[0-9]{1,20}\Z"),
    "BODY": re.compile(r"(?:7BIT|8BITMIME)\Z", re.IGNORECASE),
    "SMTPUTF8": None,
    "AUTH": re.compile(r"(?:<>|(?:[!-*,-<>-~]|\+[0-9A-F]{2})+)\Z"),
    "RET": re.compile(r"(?:FULL|HDRS)\Z", re.IGNORECASE),
    "ENVID": _XTEXT,
}
#: The same of RCPT. DSN is not announced, but senders that ask for it anyway need not fail here.
RCPT_PARAMETERS: dict[str, re.Pattern[str] | None] = {
    "NOTIFY": re.compile(
        r"(?:NEVER|(?:SUCCESS|FAILURE|DELAY)(?:,(?:SUCCESS|FAILURE|DELAY)){0,2})\Z", re.IGNORECASE
    ),
    "ORCPT": re.compile(r"[A-Za-z0-9\-]+;[!-<>-~\u0080-\U0010ffff]+\Z"),
}


class Objection(Exception):
    """A command is not well-formed; carries the reply that says so."""

    def __init__(self, code: int, enhanced: str, text: str) -> None:
        super().__init__(text)
        self.reply = lines(code, enhanced, text)


def read_path(arg: str, keyword: str) -> tuple[str, str]:
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
    found = _PATH.match(path) or (None if sending else _POSTMASTER.match(path))
    if found is None:
        raise Objection(501, enhanced, f"bad address syntax: {command}:<local-part@domain>")
    mailbox = found["mailbox"]
    if _SURROGATE.search(mailbox) is not None:
        raise Objection(501, enhanced, "the address is not UTF-8")
    if len(mailbox.encode()) > MAILBOX_LIMIT_BYTES:
        raise Objection(501, enhanced, f"an address has at most {MAILBOX_LIMIT_BYTES} octets")
    return mailbox, path[found.end() :]


def read_parameters(rest: str, known: dict[str, re.Pattern[str] | None]) -> dict[str, str]:
    """Read ` KEY=VALUE KEY` (RFC 5321, section 4.1.2). Raises `Objection` for unknown or malformed ones."""
    parameters: dict[str, str] = {}
    for word in rest.split():
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


def need_utf8(mailbox: str, allowed: bool) -> None:
    """RFC 6531, section 3.5: without SMTPUTF8 an address is ASCII."""
    if not allowed and not mailbox.isascii():
        raise Objection(553, "5.6.7", "an address that is not ASCII needs SMTPUTF8")
