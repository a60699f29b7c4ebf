"""The table `[magic]`: whether addresses are magic, and at which domain."""

from __future__ import annotations

import re
from collections.abc import Mapping

from simulator.config.forms import read_flag, read_text
from simulator.config.place import Place, refuse_unknown, shown
from simulator.provider.magic import Magic

MAGIC_KEYS = ("on", "domain")


def read_magic(data: object, place: Place) -> Magic:
    """Read the table. Raise `PlanError`."""
    if not isinstance(data, Mapping):
        raise place.wrong(f"this must be a table of settings, not {shown(data)}")
    refuse_unknown(place, data, MAGIC_KEYS)
    usual = Magic()
    domain = read_text(place, "domain", data.get("domain", usual.domain)).lower()
    if not re.fullmatch(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", domain):
        raise place.wrong(f'"domain" is {shown(domain)}; it must be a domain, like "{usual.domain}"')
    return Magic(on=read_flag(place, "on", data.get("on", usual.on)), domain=domain)
