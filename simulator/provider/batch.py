"""Several mails in one request: how many, whether all or none, and what is said of them."""

from __future__ import annotations

from dataclasses import dataclass

#: `each`: every mail is taken or refused on its own. `all_or_nothing`: one that is refused refuses all.
MODES = ("each", "all_or_nothing")
#: What the answer says: of `each` mail what became of it, of `accepted` ones their ids (and where the others were),
#: or `totals` only.
RESULTS = ("each", "accepted", "totals")

#: Behind the status in the words of an attempt: the answer said nothing of this mail, or the same of all at once.
UNTOLD = "no result for this mail"
OF_ALL = "of the whole request"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRules:
    """How an account's provider treats batches."""

    max_mails: int = 100
    mode: str = "each"
    """One of `MODES`."""
    results: str = "each"
    """One of `RESULTS`."""
    mixed_status: int = 200
    """The status when some mails were taken and some not."""
    none_status: int = 422
    """The status when none was taken, one by one."""
