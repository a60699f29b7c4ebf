"""An acceptance: the provider took responsibility for a mail. The only truth about "sent"."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from itertools import chain

from simulator.provider.answer import RefusedRecipient
from simulator.provider.fate import Destiny, Fate
from simulator.provider.message import Dsn, Form

#: Mails whose header fields are smaller than this, to fewer people, do not count.
LIGHT_BYTES, LIGHT_RECIPIENTS = 4_096, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """The provider took responsibility for one mail to these recipients."""

    id: str
    number: int
    account: str
    attempt: str
    dialect: str
    accepted_at: datetime
    sender: str
    recipients: tuple[str, ...]
    refused: tuple[RefusedRecipient, ...] = ()
    message_id: str | None
    key: str | None
    fingerprint: str
    subject: str
    size_bytes: int
    sha256: str
    obligation: str | None = None
    """Value of the mail's `X-Obligation` header: which promise the sender says it keeps."""
    fate: Fate = Fate.DELIVERED
    """What becomes of it; of those recipients that `destinies` names something else."""
    destinies: tuple[tuple[str, Destiny], ...] = ()
    """Recipients (as in `recipients`) whose fate a rule or an address decided."""

    headers: tuple[tuple[str, str], ...] = ()
    """The mail's header fields, unfolded, in their order."""
    form: Form = Form.MESSAGE
    """What `size_bytes` and `sha256` are of, and what the ledger keeps."""
    batch: str | None = None
    """The attempt that stands for the whole request, where one request brought several mails."""
    dsn: Dsn | None = None
    """SMTP: what the sender asked to be told about the delivery."""

    def destiny_of(self, recipient: str) -> Destiny:
        """Return what becomes of this mail to one of its recipients."""
        wanted = recipient.lower()
        for named, destiny in self.destinies:
            if named.lower() == wanted:
                return destiny
        return Destiny(fate=self.fate)


def weight_of(each: Acceptance) -> int:
    """Return how many characters of it are held in memory, roughly; 0: so few that it does not matter."""
    is_light = len(each.recipients) <= LIGHT_RECIPIENTS
    if is_light and each.size_bytes <= LIGHT_BYTES:
        return 0
    weight = sum(map(len, chain.from_iterable(each.headers)))
    if is_light:
        return weight if weight > LIGHT_BYTES else 0
    return weight + sum(map(len, each.recipients))


def message_name(seed: int, account: str, number: int) -> str:
    """Return the provider's id of the n-th acceptance of an account: the same for the same seed."""
    return "msg_" + hashlib.sha256(f"{seed}/{account}/{number}".encode()).hexdigest()[:20]
