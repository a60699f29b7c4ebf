"""What every store promises, whatever it keeps records in. Each one's tests inherit from this."""

from __future__ import annotations

import random
from dataclasses import replace

from simulator.provider.acceptance import Acceptance
from simulator.provider.clock import ClockMoved
from simulator.provider.fate import Destiny, Fate
from simulator.provider.ledger import Booked, Tried, Wiped
from simulator.provider.message import LONG_NAME_CHARS
from simulator.provider.notes import Noted
from simulator.provider.provider import Record
from simulator.provider.retention import Retention
from simulator.provider.search import AttemptSearch, Search
from simulator.store import Store
from tests.simulator.store.records import OWED, RAW, at, booked, decided, tried

ADA, BOB, CÉ = "ada@example.com", "Bob@example.com", "cé@example.com"


class Crowd:
    """Some mails that differ in everything."""

    def __init__(self, seed: int, many: int) -> None:
        dice = random.Random(seed)
        self.mails = [self._mail(dice, number) for number in range(1, many + 1)]

    def _mail(self, dice: random.Random, number: int) -> Booked:
        to = tuple(dice.sample([ADA, BOB, CÉ], dice.randint(1, 3)))
        fate = dice.choice([Fate.DELIVERED, Fate.DELIVERED, Fate.DROPPED])
        fated = ((to[0], Destiny(fate=Fate.COMPLAINT)),) if dice.random() < 0.3 else ()
        subject = dice.choice(["Order 7", "order", "Ordnung", "Ä%_x", "", "a'b"])
        return booked(
            number,
            dice.choice(["default", "default", "shop"]),
            dice.choice([RAW, b"other", b""]),
            recipients=to,
            sender=dice.choice(["", "Shop@example.org", "shop@example.org"]),
            key=dice.choice([None, "k1", "K1", ""]),
            message_id=dice.choice([None, "<one@example.org>", "one@example.org", "<Two@example.org>"]),
            subject=subject,
            accepted_at=at(dice.choice([number, number, number - 3])),
            headers=(
                ("Subject", subject),
                (dice.choice(["X-Shop", "x-shop", "Shop"]), dice.choice(["A b", "b"])),
            ),
            fate=fate,
            destinies=fated,
        )

    def of(self, account: str) -> list[Acceptance]:
        return [each.acceptance for each in self.mails if each.acceptance.account == account]


SEARCHES = [
    Search(),
    Search(to="ADA@example.com"),
    Search(to="CÉ@example.com"),
    Search(to="nobody@example.com"),
    Search(sender="SHOP@example.org"),
    Search(sender=""),
    Search(subject="ORD"),
    Search(subject="ä%_"),
    Search(subject="%"),
    Search(subject="'"),
    Search(header=("x-SHOP", "B")),
    Search(header=("Shop", "")),
    Search(header=("Subject", "b")),
    Search(key="k1"),
    Search(key=""),
    Search(message_id="one@example.org"),
    Search(message_id="<Two@example.org>"),
    Search(since=at(5)),
    Search(until=at(9)),
    Search(since=at(4), until=at(12)),
    Search(since=at(900)),
    Search(fate="delivered"),
    Search(fate="dropped"),
    Search(fate="complaint"),
    Search(q="cé@"),
    Search(q="two@"),
    Search(q="k1"),
    Search(to=ADA, key="k1", subject="o", fate="complaint"),
    Search(q="a", since=at(3), header=("subject", "o")),
]


class StoreContract:
    """Subclasses give `store` and `bounded`."""

    def bounded(self, retention: Retention) -> Store:
        """Return a fresh store with this retention, by a clock that stands at `at(100)`."""
        raise NotImplementedError

    # --- look-ups -----------------------------------------------------------------------------------

    def test_bodies_are_given_back_byte_for_byte(self, store: Store) -> None:
        store.append([booked(1), booked(2, raw=b""), booked(1, "shop", b"\x00shop")])

        assert store.body("default", "msg_default_1") == RAW
        assert store.body("default", "msg_default_2") == b""
        assert store.body("shop", "msg_shop_1") == b"\x00shop"
        assert store.body("shop", "msg_default_1") is None
        assert store.body("nobody", "msg_default_1") is None

    def test_an_acceptance_is_found_by_its_names(self, store: Store) -> None:
        """Only in its own account, with everything that was known of it."""
        one, two = booked(1), booked(2, key="k2", message_id="two@example.org")
        store.append([one, two, booked(1, "shop")])
        store.messages("default")  # From here on the look-ups know it too.

        assert store.get("default", "msg_default_1") == one.acceptance
        assert store.get("shop", "msg_default_1") is None
        assert store.with_key("default", "order-1") == [one.acceptance]
        assert store.with_key("default", "Order-1") == []
        assert store.with_message_id("default", "<two@example.org>") == [two.acceptance]
        assert store.with_message_id("default", "m@example.org") == [one.acceptance]
        assert store.with_key("nobody", "order-1") == []

    def test_keys_come_in_pages(self, store: Store) -> None:
        """Each once, none without a key, none of another account."""
        keys = [None, "b", "a", "d", "b", "c"]
        mails = [booked(number, key=key) for number, key in enumerate(keys, 1)]
        store.append([*mails, booked(1, "shop", key="e")])
        store.messages("default")  # From here on they are known.

        assert store.keys("default") == ["a", "b", "c", "d"]
        assert store.keys("default", limit=3) == ["a", "b", "c"]
        assert store.keys("default", "c") == ["d"]
        assert store.keys("nobody") == []

    def test_copies_of_a_body_are_counted_per_account(self, store: Store) -> None:
        store.append([booked(1), booked(2), booked(3, raw=b"other"), booked(1, "shop")])
        same, other, none = booked(1).acceptance.sha256, booked(3, raw=b"other").acceptance.sha256, "0" * 64

        assert store.copies("default", [same, other, none]) == {same: 2, other: 1, none: 0}

    # --- searches -----------------------------------------------------------------------------------

    def test_a_search_finds_what_matches(self, store: Store) -> None:
        """`Search.matches` says what that is, for every store."""
        crowd = Crowd(seed=1, many=40)
        store.append(crowd.mails)

        for search in SEARCHES:
            for account in ("default", "shop"):
                wanted = [each for each in crowd.of(account) if search.matches(each)]
                assert list(store.messages(account, search).found) == wanted, search
        assert store.messages("nobody").found == ()

    def test_pages_follow_each_other_to_the_end(self, store: Store) -> None:
        """In both directions, and nothing twice, whatever is booked meanwhile."""
        crowd = Crowd(seed=2, many=30)
        store.append(crowd.mails)
        for newest_first in (False, True):
            for search in (Search(), Search(to=ADA), Search(q="o")):
                wanted = [each for each in crowd.of("default") if search.matches(each)]
                found: list[Acceptance] = []
                cursor = None
                for _ in range(31):
                    page = store.messages("default", search, after=cursor, limit=2, newest_first=newest_first)
                    found += page.found
                    cursor = page.cursor
                    if cursor is None:
                        break
                assert found == (wanted[::-1] if newest_first else wanted)

    def test_everything_can_be_read_through(self, store: Store) -> None:
        store.append([booked(number) for number in range(1, 1_204)])

        assert [each.number for each in store.acceptances("default")] == list(range(1, 1_204))
        assert list(store.acceptances("nobody")) == []

    def test_attempts_are_found_as_they_were_last(self, store: Store) -> None:
        """An attempt is written as it grows; its headers are not kept."""
        grown = tried(1, answer="normal", recipients=(), headers=(("Subject", "x"),))
        store.append([grown, tried(2, message_id="<m@example.org>", key="k"), tried(3, "shop")])
        grown.attempt.answer, grown.attempt.recipients = "451", (BOB,)
        store.append([Tried(attempt=grown.attempt)])

        assert store.attempts("default").found[0] == replace(grown.attempt, headers=())
        for search, numbers in (
            (AttemptSearch(), [1, 2]),
            (AttemptSearch(to="bob@EXAMPLE.com"), [1]),
            (AttemptSearch(answer="451"), [1]),
            (AttemptSearch(message_id="m@example.org"), [2]),
            (AttemptSearch(key="k", to=ADA), [2]),
            (AttemptSearch(key="K"), []),
            (AttemptSearch(rule="rule 1", state="closed", sent="partial"), [1, 2]),
        ):
            assert [each.number for each in store.attempts("default", search).found] == numbers, search
        newest = store.attempts("default", limit=1, newest_first=True)
        assert ([each.number for each in newest.found], newest.cursor) == ([2], 2)

    def test_decisions_come_in_their_order(self, store: Store) -> None:
        store.append([decided(1), decided(2, "shop"), decided(3)])

        page = store.decisions("default", limit=1)
        assert (page.found, page.cursor) == ((decided(1).decision,), 1)
        assert store.decisions("default", after=1).found == (decided(3).decision,)

    # --- writing ------------------------------------------------------------------------------------

    def test_records_may_be_appended_again(self, store: Store) -> None:
        """Who cannot know whether a write was kept asks twice, and nothing doubles."""
        for _ in range(2):
            store.append([booked(1), tried(1), decided(1), OWED])

        assert len(store.messages("default").found) == 1
        assert len(store.attempts("default").found) == 1
        assert len(store.decisions("default").found) == 1

    def test_what_is_known_of_a_mail_may_change(self, store: Store) -> None:
        """The same mail again, without its body: the facts are new, the body stays."""
        store.append([booked(1)])
        store.append([Booked(acceptance=replace(booked(1).acceptance, obligation="ref-2"), raw=b"")])

        (found,) = store.messages("default").found
        assert found.obligation == "ref-2"
        assert store.body("default", "msg_default_1") == RAW

    def test_wiping_takes_only_what_is_older_and_of_that_account(self, store: Store) -> None:
        records: list[Record] = [
            booked(1),
            booked(2, raw=b"2"),
            booked(1, "shop"),
            tried(1),
            decided(1),
            OWED,
        ]
        store.append(records)
        store.append([Wiped(account="default"), booked(1, raw=b"new"), tried(9)])

        assert [each.number for each in store.messages("default").found] == [1]
        assert store.body("default", "msg_default_1") == b"new"
        assert store.body("default", "msg_default_2") is None
        assert store.body("shop", "msg_shop_1") == RAW
        assert [each.number for each in store.attempts("default").found] == [9]
        assert store.decisions("default").found == ()

    def test_what_is_remembered_may_have_a_long_name(self, store: Store) -> None:
        """As long as that of a mail to many gets, in whatever letters; and it can be forgotten again."""
        names = ["rule 0/to:" + letter * LONG_NAME_CHARS for letter in "aü愛😀"]
        for facts in ("1,1", "2,1", None):
            store.append([Noted(account="default", topic="counts", name=each, facts=facts) for each in names])
        store.append([booked(1)])

        assert [each.number for each in store.messages("default").found] == [1]

    # --- retention ----------------------------------------------------------------------------------

    def kept(self, retention: Retention, records: list[Record]) -> list[tuple[str, int]]:
        """Return which mails are left, by account and number, when these were appended one by one."""
        store = self.bounded(retention)
        try:
            for record in records:
                store.append([record])
                store.messages("default")
            self.store_left = store
            return [
                (account, each.number)
                for account in ("default", "shop")
                for each in store.messages(account).found
            ]
        finally:
            store.close()

    def test_only_so_many_mails_are_kept(self) -> None:
        """The oldest of all accounts go first, the newest of an account never."""
        records: list[Record] = [booked(1, "shop"), *(booked(number) for number in range(1, 6))]

        assert self.kept(Retention(count=3), records) == [("default", 4), ("default", 5), ("shop", 1)]
        assert self.kept(Retention(count=0), records) == [("default", 5), ("shop", 1)]

    def test_only_so_many_bytes_are_kept(self) -> None:
        """What several mails share counts once, and is kept as long as one of them is."""
        one, two, three = b"1" * 60, b"2" * 60, b"3" * 60
        records: list[Record] = [
            booked(number, raw=raw) for number, raw in enumerate((one, two, one, two, three), 1)
        ]

        assert self.kept(Retention(bytes=180), records) == [("default", n) for n in range(1, 6)]
        assert self.kept(Retention(bytes=179), records) == [("default", 4), ("default", 5)]
        assert self.kept(Retention(bytes=1), records) == [("default", 5)]

    def test_what_is_older_than_so_long_goes(self) -> None:
        """By the clock of its account, which a test may have moved ahead."""
        records: list[Record] = [booked(number) for number in (10, 40, 50)]
        records += [booked(number, "shop") for number in (40, 60, 70)]

        assert self.kept(Retention(age_s=60), records) == [
            ("default", 40),
            ("default", 50),
            ("shop", 40),
            ("shop", 60),
            ("shop", 70),
        ]
        moved: list[Record] = [ClockMoved(account="shop", ahead_s=25.0)]
        assert self.kept(Retention(age_s=60), [*moved, *records])[2:] == [("shop", 70)]

    def test_attempts_and_decisions_go_too(self) -> None:
        """Ten times as many as mails are kept: refusals belong to the story."""
        store = self.bounded(Retention(count=1))
        for number in range(1, 21):
            store.append([tried(number), decided(number)])
            store.messages("default")
        assert [each.number for each in store.attempts("default").found] == list(range(11, 21))
        assert [each.number for each in store.decisions("default").found] == list(range(11, 21))
        store.close()

        store = self.bounded(Retention(age_s=88))
        store.append(
            [*(tried(number) for number in range(1, 21)), *(decided(number) for number in range(1, 21))]
        )
        store.messages("default")
        assert [each.number for each in store.attempts("default").found] == list(range(12, 21))
        assert [each.number for each in store.decisions("default").found] == list(range(12, 21))
        store.close()

    def test_names_go_with_the_mail(self) -> None:
        store = self.bounded(Retention(count=1))
        store.append([booked(1, key="k1"), booked(2, key="k2", raw=b"2")])
        store.messages("default")

        assert store.with_key("default", "k1") == []
        assert store.get("default", "msg_default_1") is None
        assert store.body("default", "msg_default_1") is None
        assert store.messages("default", Search(to=ADA)).found == (booked(2, key="k2", raw=b"2").acceptance,)
        store.close()
