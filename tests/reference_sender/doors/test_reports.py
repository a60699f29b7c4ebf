"""The letterbox: a report is kept, or whoever brought it hears that it is not."""

from __future__ import annotations

import json

from reference_sender.doors.reports import Letterbox
from tests.reference_sender.doors.knocks import Shelf
from tests.reference_sender.events.test_reports import POSTFIX
from tests.reference_sender.samples import ManualClock


def test_each_recipient_of_a_report_is_an_event() -> None:
    shelf = Shelf()
    box = Letterbox(keeper=shelf, clock=ManualClock())
    assert box.put(POSTFIX)
    assert box.put(POSTFIX)
    assert [json.loads(raw)["data"]["recipient"] for _, raw in shelf.kept] == [
        "Gone@example.com",
        "full@example.com",
    ]
    assert shelf.sources == {"mail"}


def test_what_is_no_report_is_kept_too() -> None:
    shelf = Shelf()
    assert Letterbox(keeper=shelf, clock=ManualClock()).put(b"Subject: I am on holiday\n\nBye\n")
    assert [raw for _, raw in shelf.kept] == [b"Subject: I am on holiday\n\nBye\n"]


def test_while_the_database_is_away_it_is_to_be_brought_again() -> None:
    assert not Letterbox(keeper=Shelf(away=ConnectionError("away")), clock=ManualClock()).put(POSTFIX)
