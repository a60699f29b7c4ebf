"""The page: what it shows of an account, and that nothing a sender wrote does anything on it."""

from __future__ import annotations

import html
import json
import re
from base64 import b64encode
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest

from simulator.client import ControlClient
from simulator.servers import pages as package
from simulator.servers.options import Address
from simulator.servers.pages import BASE
from simulator.servers.pages.pages import ASSETS
from tests.simulator.running import Running, Sender, ask, mail, raw_mail, request, running
from tests.simulator.servers.control.test_parts import RAW

FOLDER = Path(package.__file__).parent
EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'`{{7*7}}"


@pytest.fixture(scope="module")
def simulator() -> Iterator[Running]:
    with running() as service:
        yield service


@pytest.fixture
def control(simulator: Running) -> Iterator[ControlClient]:
    with simulator.control() as control:
        control.reset()
        yield control
        control.release()


@pytest.fixture
def web(simulator: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=simulator.service.ready["http"], trust_env=False) as client:
        yield client


def send(simulator: Running, to: str = "ada@example.com", **more: str) -> str:
    return str(ask(simulator, request(mail(to=[to], **more))).json["id"])


class Elements(HTMLParser):
    """Every start tag with its attributes, as a browser sees them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


# --- what it shows ----------------------------------------------------------------------------------


def test_the_page_shows_mails_verdict_plan_and_where_to_send(
    simulator: Running, control: ControlClient, web: httpx.Client
) -> None:
    """Whole, without any script."""
    control.set_plan({"rules": ["503 to bob@example.com"]})
    send(simulator, subject="Your order")
    page = web.get("/").text

    assert "Your order" in page
    assert "1 mail accepted, none of them twice" in page
    assert "<b>503 to bob@example.com</b> at HTTP" in page
    assert f"{simulator.service.ready['http']}/v1/emails" in page
    assert "greylist" in page


def applied(page: str) -> dict[str, object]:
    """Return what a page puts in force when somebody applies the rules as it shows them."""
    (rules_shown,) = [
        attributes for _, attributes in Elements(page).found if attributes.get("data-settings") is not None
    ]
    shown = re.search(r'<textarea id="lines"[^>]*>(.*?)</textarea>', page, re.DOTALL)
    assert shown is not None
    lines = html.unescape(shown[1])
    rules = [json.loads(line) if line.startswith("{") else line for line in lines.splitlines()]
    settings: dict[str, object] = json.loads(str(rules_shown["data-settings"]))
    return settings | {"rules": rules}


def test_what_the_page_puts_in_force_is_a_plan(
    simulator: Running, control: ControlClient, web: httpx.Client
) -> None:
    """The settings that it keeps, with the rules as it shows them to be edited; what is doubtful is said beside them."""
    several = {"fault": "slow", "delay_s": 1, "stage": ["mail", "rcpt"], "first": 0}
    with simulator.control("shop") as shop:
        shop.set_plan({"rules": ["421 at connect", several], "limits": {"per_day": 3}, "seed": 5})
        before = shop.plan()
        page = web.get("/", params={"account": "shop"}).text
        after = shop.set_plan(applied(page))
        shop.reset()

    assert after == before
    assert page.count("Mind: rule ") == 2
    assert "no sender has named itself" in page


def test_rules_take_the_place_of_a_recording(
    simulator: Running, control: ControlClient, web: httpx.Client
) -> None:
    """While it is struck again the page says so, and does not say that nothing goes wrong."""
    control.set_plan({"rules": ["503 once"]})
    assert ask(simulator, request(mail())).status == 503
    recording = control.replay()
    control.reset()
    control.set_plan(recording)
    assert ask(simulator, request(mail())).status == 503
    says = "A recording is struck again: 1 of 1 so far."
    page = web.get("/").text
    assert says in page
    assert "Nothing goes wrong" not in page
    assert says in web.get(f"{BASE}/part/rules").text

    control.set_plan(applied(page) | {"rules": ["429 once"]})
    assert control.plan()["replay"] is None
    assert ask(simulator, request(mail())).status == 429
    assert says not in web.get("/").text


def test_what_the_colours_of_mails_mean_is_said_too(
    simulator: Running, control: ControlClient, web: httpx.Client
) -> None:
    """For whoever cannot see them; and of each finding how many copies there are, and how many were promised."""
    control.add_rules({"fault": "fate", "fate": "hard_bounce", "recipient": "bad@example.com"})
    control.owe(
        [
            {"ref": "order-1", "recipient": "twice@example.com"},
            {"ref": "order-2", "recipient": "late@example.com"},
        ]
    )
    for name in ("good", "bad", "twice", "twice"):
        ask(simulator, request(mail(to=[f"{name}@example.com"], message_id=f"<{name}@example.org>")))
    page = web.get("/").text

    dots = re.findall(r'<span class="dot (\w+)" title="([^"]+)"></span>\s*<span class="who">(\w+)@', page)
    assert dots == [
        ("bad", "accepted 2 times", "twice"),
        ("bad", "accepted 2 times", "twice"),
        ("warn", "accepted; hard bounce", "bad"),
        ("good", "accepted", "good"),
    ]
    said = re.sub(r"<[^>]+>", "", page)
    assert "twice@example.com accepted too often order-1 2 copies, 1 promised" in said
    assert "late@example.com not accepted yet order-2 0 copies, 1 promised" in said
    assert "good@example.com accepted, but nobody promised it 1 copy, 0 promised" in said


def test_attempts_are_listed_by_how_they_went(
    simulator: Running, control: ControlClient, web: httpx.Client
) -> None:
    """Accepted and told, accepted and not told, refused, held."""
    control.set_plan(
        {
            "rules": [
                {"fault": "accept_then_hang_up", "recipient": "lost@example.com"},
                {"fault": "reply", "code": 503, "recipient": "bad@example.com"},
                {"fault": "hold", "recipient": "held@example.com"},
            ]
        }
    )
    for name in ("good", "lost", "bad"):
        ask(simulator, request(mail(to=[f"{name}@example.com"])))
    with Sender(simulator.http) as sender:
        sender.say(request(mail(to=["held@example.com"])))
        control.wait_for_attempts(state="held")
        page = web.get("/", params={"tab": "attempts"}).text
        control.release()

    tones = re.findall(r'<span class="dot (\w+)" title="[^"]+"></span>\s*<span class="who">(\w+)@', page)
    assert tones == [("held", "held"), ("bad", "bad"), ("lost", "lost"), ("good", "good")]
    assert "Release 1" in page


def test_a_mail_is_shown_with_its_story(
    simulator: Running, control: ControlClient, web: httpx.Client
) -> None:
    """What it says, what its HTML looks like, what is attached, how it came, what became of it."""
    id_ = str(ask(simulator, request(raw_mail(RAW, "ada@example.com"), key="k1")).json["id"])
    control.wait_for_attempts(state="closed")
    page = web.get("/", params={"mail": id_, "view": "html"}).text

    assert "Accepted, and the sender was told" in page
    (frame,) = [attributes for tag, attributes in Elements(page).found if tag == "iframe"]
    assert (frame["sandbox"], frame["src"]) == ("", f"/_simulator/v1/messages/{id_}/html?account=default")
    assert "xü.svg" in page
    assert re.search(r'id="view-html"[^>]*"tab-html">', page), (
        "the view that is asked for is the one that is shown"
    )
    assert "<b>accepted</b> ada@example.com" in page


def test_an_attempt_is_shown(simulator: Running, control: ControlClient, web: httpx.Client) -> None:
    """By its id; one that is not there shows the plan instead."""
    send(simulator)
    (attempt,) = control.wait_for_attempts(state="closed")

    assert attempt["peer"] in web.get("/", params={"tab": "attempts", "attempt": attempt["id"]}).text
    assert "What goes wrong" in web.get("/", params={"attempt": "att_999999"}).text
    assert "What goes wrong" in web.get("/", params={"mail": "msg_none", "attempt": "nonsense"}).text


def test_finding_narrows_the_lists(simulator: Running, control: ControlClient, web: httpx.Client) -> None:
    """Mails by any text, attempts by recipient."""
    send(simulator, "ada@example.com", subject="Red")
    send(simulator, "bob@example.com", subject="Green")

    assert "ada@example.com" not in web.get(f"{BASE}/part/list", params={"q": "gree"}).text
    attempts = web.get(f"{BASE}/part/list", params={"q": "ada@example.com", "tab": "attempts"}).text
    assert "bob@" not in attempts
    assert "ada@" in attempts
    assert "No mail has" in web.get(f"{BASE}/part/list", params={"q": "nothing"}).text


@pytest.mark.parametrize("part", ["list", "detail", "verdict", "clock", "held", "rules"])
def test_a_part_is_what_the_page_has_there(
    simulator: Running, control: ControlClient, web: httpx.Client, part: str
) -> None:
    """One template for both, so that they cannot differ."""
    control.set_plan({"rules": ["503 to bob@example.com"]})
    send(simulator)
    control.wait_for_attempts(state="closed")
    alone = web.get(f"{BASE}/part/{part}")

    assert alone.headers["x-mails"] == "1"
    without_clock = re.sub(r"[\d.:+T-]{8,32}", "", alone.text.strip())
    assert without_clock in re.sub(r"[\d.:+T-]{8,32}", "", web.get("/").text)


def test_accounts_do_not_meet(simulator: Running, control: ControlClient, web: httpx.Client) -> None:
    """One account's page shows nothing of another's."""
    send(simulator, subject="Secret")
    with simulator.control("shop & co") as shop:
        shop.make_account()
    page = web.get("/", params={"account": "shop & co"}).text

    assert "Secret" not in page
    assert "account=shop%20%26%20co" in page
    assert "Nothing accepted yet" in page


def test_the_page_of_no_account_says_which_there_are(
    simulator: Running, control: ControlClient, web: httpx.Client
) -> None:
    """A misspelt name makes none; nor do the parts that a page asks for whose account is gone."""
    answer = web.get("/", params={"account": "<b>defualt"})

    assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "there is no account &#39;&lt;b&gt;defualt&#39;; did you mean &#39;default&#39;?" in answer.text
    assert '<a href="/?account=default">default</a>' in answer.text
    assert web.get(f"{BASE}/part/list", params={"account": "<b>defualt"}).status_code == 404
    assert "<b>defualt" not in simulator.service.provider.accounts


# --- nothing that was sent does anything ------------------------------------------------------------


def test_everything_a_sender_wrote_is_text(
    simulator: Running, control: ControlClient, web: httpx.Client
) -> None:
    """Addresses, subject, Message-ID, key, header names, file names, bodies, names of rules and accounts."""
    with simulator.control(EVIL) as evil:
        evil.set_plan({"rules": [{"name": EVIL, "fault": "slow", "delay_s": 0}]})
        # Of addresses a quoted local part may be as evil.
        evil_address = '"{}"@example.com'.format(EVIL.replace('"', ""))
        evil.owe([{"ref": EVIL, "recipient": evil_address}])
    raw = (
        f"Subject: {EVIL}\r\nMessage-ID: <{EVIL}>\r\nX-Obligation: {EVIL}\r\nFrom: {EVIL}\r\n"
        f"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\n{EVIL}\r\n--b\r\n"
        f'Content-Disposition: attachment; filename="{EVIL.replace(chr(34), "")}"\r\n\r\nx\r\n--b--\r\n'
    ).encode()
    headers = {"Authorization": f"Bearer {EVIL}"}
    ask(simulator, request(raw_mail(raw, "ada@example.com"), headers=headers))
    with simulator.control(EVIL) as evil:
        (message,) = evil.messages()

    pages = [
        web.get("/", params={"account": EVIL, "mail": message["id"], "q": "", **more}).text
        for more in (
            {},
            {"tab": "attempts"},
            {"mail": ""},
            {"q": EVIL, "mail": EVIL},
            {"view": EVIL, "tab": EVIL},
        )
    ]
    for page in pages:
        elements = Elements(page).found
        assert [tag for tag, _ in elements if tag == "script"] == ["script"]
        assert [attributes for tag, attributes in elements if tag == "img"] == [
            {"src": f"{BASE}/icon.svg", "alt": "", "width": "26", "height": "26"}
        ]
        assert "49" not in re.findall(r"[`'\"](\d+)", page)
    assert "&lt;script&gt;" in pages[0]


def test_an_angle_bracket_hides_nothing(
    simulator: Running, control: ControlClient, web: httpx.Client
) -> None:
    """Nor does a mail without From and To, or a subject in no charset at all (smtp4dev#1937, mailpit#209, mailcatcher#201)."""
    raw = b"Subject: \xcf\xf0\xe8 1 <2\r\n\r\na < b and <c> & the rest\r\n"
    id_ = str(ask(simulator, request(raw_mail(raw, "ada@example.com"))).json["id"])
    page = web.get("/", params={"mail": id_}).text

    assert '<pre class="text">a &lt; b and &lt;c&gt; &amp; the rest' in page
    assert "\ufffd\ufffd\ufffd 1 &lt;2" in page


def test_no_script_or_style_is_within_the_page(
    simulator: Running, control: ControlClient, web: httpx.Client
) -> None:
    """So that the policy can forbid all that is."""
    id_ = str(ask(simulator, request(raw_mail(RAW, "ada@example.com"))).json["id"])
    for parameters in ({}, {"mail": id_}, {"tab": "attempts"}):
        for tag, attributes in Elements(web.get("/", params=parameters).text).found:
            assert not [name for name in attributes if name.startswith("on") or name == "style"], (
                tag,
                attributes,
            )
            assert tag != "style"
            assert (tag == "script") == ("src" in attributes and "page.js" in str(attributes["src"]))


def test_the_policy_allows_the_pages_own_files_only(web: httpx.Client) -> None:
    """Nothing from elsewhere, nothing inline, framed by nobody."""
    headers = web.get("/").headers
    policy = {each.split()[0]: each.split()[1:] for each in headers["content-security-policy"].split("; ")}

    assert policy["default-src"] == ["'none'"]
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == ["'self'"]
    assert policy["frame-ancestors"] == policy["base-uri"] == ["'none'"]
    assert "unsafe" not in headers["content-security-policy"]
    assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")


def test_nothing_on_the_page_comes_from_another_host() -> None:
    """It works without a network."""
    for file in FOLDER.iterdir():
        if file.suffix in (".html", ".css", ".js"):
            found = re.findall(r"(?:https?:)?//[\w.-]+\.\w+", file.read_text(encoding="utf-8"))
            assert found == [], file.name


# --- script, style, icon ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ASSETS)
def test_an_asset_is_sent_once(web: httpx.Client, name: str) -> None:
    """And asked for each time: half of a former page must not run with half of this one."""
    first = web.get(f"{BASE}/{name}")
    again = web.get(f"{BASE}/{name}", headers={"If-None-Match": first.headers["etag"]})

    assert (first.status_code, first.headers["content-type"]) == (200, ASSETS[name])
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("path", ["pages.py", "..%2f..%2fserve.py", "part/nothing", "macros.html", "%00"])
def test_nothing_else_is_given_away(web: httpx.Client, path: str) -> None:
    """No source, no file beside."""
    assert web.get(f"{BASE}/{path}").status_code == 404


def test_what_the_script_looks_for_is_on_the_page() -> None:
    """Every id, every deed, every part by its name: a script fails where nobody looks."""
    script = (FOLDER / "page.js").read_text(encoding="utf-8")
    markup = "".join((FOLDER / name).read_text(encoding="utf-8") for name in ("page.html", "macros.html"))
    ids = set(re.findall(r'\$\("#([\w-]+)', script)) - {"view-"}
    deeds = re.search(r"const deeds = \{(.*?)\n\};", script, re.DOTALL)
    parts = re.search(r"const elements = \{(.*?)\};", script)
    assert deeds is not None
    assert parts is not None

    assert ids - set(re.findall(r'id="([\w-]+)"', markup)) == set()
    done = set(re.findall(r"^  (\w+)[:,]", deeds[1], re.MULTILINE))
    assert done == set(re.findall(r'data-do="(\w+)"', markup))
    assert set(re.findall(r"(\w+):", parts[1])) == set(re.findall(r'data-part="(\w+)"', markup))


# --- whom it lets in --------------------------------------------------------------------------------


def test_people_give_the_token_to_their_browser() -> None:
    """As the password of Basic, because a browser asks for that; the page gives away nothing before."""
    with running(admin_token="s3cret", http=Address(host="0.0.0.0", port=0)) as simulator:
        url = f"http://127.0.0.1:{simulator.service.http_port}"
        with httpx.Client(base_url=url, trust_env=False) as web:
            stranger = web.get("/")
            assert stranger.status_code == 401
            assert "Basic" in stranger.headers["www-authenticate"]
            assert web.get("/", auth=("anybody", "s3cret")).status_code == 200
            assert web.get(f"{BASE}/page.js", auth=("", "s3cret")).status_code == 200
            for wrong in (("s3cret", ""), ("s3cret", "wrong")):
                assert web.get("/", auth=wrong).status_code == 401
            for given in (
                "Basic",
                "Basic !!!",
                f"Basic {b64encode(b's3cret').decode()}",
                "Digest s3cret",
                "s3cret",
            ):
                assert web.get("/", headers={"Authorization": given}).status_code == 401, given


def test_other_sites_neither_ask_nor_rebind(web: httpx.Client) -> None:
    """A link may lead here; a script, an image or a frame of another site gets nothing."""
    visit = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}

    assert web.get("/", headers=visit).status_code == 200
    assert (
        web.get("/", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}).status_code == 403
    )
    assert web.post("/_simulator/v1/reset", headers=visit).status_code == 403
    assert web.get("/", headers={"Host": "evil.example"}).status_code == 403
    assert (
        web.get("/", headers={"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}).status_code == 200
    )
