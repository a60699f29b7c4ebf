"""What can be an address at all: whatever comes over one of the wires, in whatever settings.

For whoever names a mailbox without sending to it: a condition of a rule, a promise. The wires themselves read more
closely (`servers.smtp.syntax`, `native.fields`); a test holds that whatever they take is an address here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product

from simulator.dialects.native.fields import ADDRESS

# Sets are written as what they are not: one with a range up to the end of Unicode takes `re` long.
_ATOM = r'[^\x00- "(),.:;<>@\[\\\]\x7f]+'
_QUOTED = r'"(?:[^\x00-\x1f"\\\x7f]|\\[ -~])*"'
_LETTER, _INNER = r"[^\x00-/:-@\[-^`{-\x7f]", r"[^\x00-,./:-@\[-^`{-\x7f]"
_LABEL = rf"{_LETTER}(?:{_INNER}*{_LETTER})?"
#: RFC 5321, section 4.1.2, with whatever is not ASCII (RFC 6531, section 3.3). The length of a local part is a setting.
_OVER_SMTP = re.compile(
    rf"(?:{_ATOM}(?:\.{_ATOM})*|{_QUOTED})@(?P<domain>{_LABEL}(?:\.{_LABEL})*|\[[!-Z^-~]+\])"
)
#: RFC 5321, section 4.5.3.1.2, and RFC 1035, section 2.3.4; of an address over HTTP, section 4.5.3.1.1 with the @.
_DOMAIN_LIMIT_BYTES, _LABEL_LIMIT_BYTES, _HTTP_LIMIT_CHARS = 255, 63, 320
_NO_CHARACTER = re.compile(r"[\0\ud800-\udfff]")

#: What stands for `*` and `?` where it is asked whether a wildcard leaves room for an address: nothing, some letters, a
#: part with the @ in it, the ends of a quoted local part and of an address literal.
_FILLINGS = ("", "a", "a@a", '"a', 'a"', '"a"@a', '"a"', 'a"@a', "a@[a:a", "[a:a", "a]")
_LETTERS = ("a", "@", ".", '"', "[", "]", ":")
#: Where there are more wildcards nobody looks.
_MOST_WILDCARDS = 4


def is_address(text: str) -> bool:
    """Tell whether this could be somebody's address."""
    if _NO_CHARACTER.search(text) is not None:
        return False
    if len(text) <= _HTTP_LIMIT_CHARS and ADDRESS.fullmatch(text) is not None:
        return True
    found = _OVER_SMTP.fullmatch(text)
    if found is None:
        return False
    domain = found["domain"]
    return len(domain.encode()) <= _DOMAIN_LIMIT_BYTES and (
        domain[0] == "[" or all(len(label.encode()) <= _LABEL_LIMIT_BYTES for label in domain.split("."))
    )


def can_send(text: str) -> bool:
    """Tell whether mail could come from here: an address, or the null sender (RFC 5321, section 4.5.5)."""
    return not text or is_address(text)


def can_receive(text: str) -> bool:
    """Tell whether mail could go here: an address, or `postmaster`, which has no domain (RFC 5321, section 4.1.1.3)."""
    return text.lower() == "postmaster" or is_address(text)


def leaves_room(pattern: str, can: Callable[[str], bool]) -> bool:
    """Tell whether a pattern with `*` and `?` matches anything for which `can` holds.

    Where that is not easily told (quotes, brackets, many wildcards) it does.
    """
    parts = re.split(r"([*?])", pattern)
    texts, wildcards = parts[::2], parts[1::2]
    if len(wildcards) > _MOST_WILDCARDS or set('"\\[') & set(pattern):
        return True
    choices = product(*(_FILLINGS if each == "*" else _LETTERS for each in wildcards))
    return any(can("".join(map("".join, zip(texts, (*chosen, ""), strict=True)))) for chosen in choices)
