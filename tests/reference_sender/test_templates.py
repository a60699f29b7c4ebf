"""Templates: rendered once, strictly, and every mistake is one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reference_sender.message import InvalidMail
from reference_sender.templates import Templates, frozen


@pytest.fixture
def templates(tmp_path: Path) -> Templates:
    for name, part, words in (
        ("order", "subject.txt", "Your order\n{{ number }}\n"),
        ("order", "text.txt", "Thank you, {{ name }}.\n"),
        ("order", "html.html", "<p>Thank you, {{ name }}.</p>\n"),
        ("broken", "subject.txt", "Hi"),
        ("broken", "text.txt", "one\n{% if %}\n"),
        ("bare", "subject.txt", "Hi"),
        ("wrong", "subject.txt", "Hi"),
        ("wrong", "text.txt", "{{ 1 // number }}"),
        *((name, part, "Hi") for name in ("news", "noted") for part in ("subject.txt", "text.txt")),
        (
            "news",
            "headers.txt",
            "List-Unsubscribe: <https://example.org/u?{{ token }}>\n"
            "{% if one_click %}\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\n{% endif %}\n",
        ),
        ("noted", "headers.txt", "X-Kind: {{ kind }}\n\n{{ more }}\n"),
    ):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / part).write_text(words, encoding="utf-8")
    return Templates(tmp_path)


def render(templates: Templates, template: str, **parameters: Any) -> Any:
    return templates.mail(template, parameters, sender="shop@example.org", recipients=["ann@example.com"])


def test_a_template_becomes_a_mail(templates: Templates) -> None:
    mail = render(templates, "order", number=7, name="Ann & Bob")
    assert mail.subject == "Your order 7"
    assert mail.text == "Thank you, Ann & Bob.\n"
    assert mail.html == "<p>Thank you, Ann &amp; Bob.</p>\n"
    assert (mail.sender, mail.recipients) == ("shop@example.org", ("ann@example.com",))


def test_each_mail_has_the_headers_that_the_template_makes_for_it(templates: Templates) -> None:
    """RFC 8058: everybody has a link of his own to unsubscribe by."""
    assert dict(render(templates, "news", token="ann", one_click=True).headers) == {
        "List-Unsubscribe": "<https://example.org/u?ann>",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
    }
    assert list(render(templates, "news", token="bob", one_click=False).headers) == ["List-Unsubscribe"]
    given = templates.mail(
        "noted",
        {"kind": "a", "more": ""},
        sender="shop@example.org",
        recipients=["ann@example.com"],
        headers={"X-Kind": "b", "X-Other": "c"},
    )
    assert given.headers == {"X-Kind": "b", "X-Other": "c"}


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        (
            "noted",
            {"kind": "a", "more": "nothing"},
            r"line 3 of the template 'noted' \(headers.txt\) is no header",
        ),
        ("noted", {"kind": "a", "more": "x-kind: b"}, "line 3 .* gives the header 'x-kind' a second time"),
        (
            "noted",
            {"kind": "a", "more": "Bcc: eve@example.com"},
            "the header 'Bcc' is written by the sender itself",
        ),
        (
            "noted",
            {"kind": "a\nX-B: b", "more": ""},
            r"\(headers.txt\) cannot .* a parameter contains a line break",
        ),
        ("noted", {"kind": "a\r", "more": ""}, "a parameter contains a line break, which could smuggle in"),
        ("noted", {"kind": "a\x00", "more": ""}, "NUL"),
        ("noted", {"kind": "a"}, r"\(headers.txt\) needs a parameter that was not given: 'more'"),
        ("order", {"number": 7}, r"\(text.txt\) needs a parameter that was not given: 'name'"),
        ("order", {"number": "7", "name": "\x00"}, "NUL"),
        ("broken", {}, r"\(text.txt\) has a mistake in line 2"),
        ("bare", {}, "neither text nor html"),
        ("wrong", {"number": 0}, r"\(text.txt\) cannot be rendered: ZeroDivisionError"),
        (
            "../order",
            {},
            "there is no template '../order' in .*; there are: bare, broken, news, noted, order, wrong",
        ),
        ("offer", {}, "there is no template 'offer'"),
    ],
)
def test_a_mistake_is_one_sentence(
    templates: Templates, name: str, parameters: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidMail, match=words) as caught:
        render(templates, name, **parameters)
    assert "\n" not in str(caught.value)


def test_a_folder_that_is_not_there_has_no_templates(tmp_path: Path) -> None:
    assert Templates(tmp_path / "nowhere").names() == ()


def test_parameters_are_frozen_alike() -> None:
    assert frozen({"b": 1, "a": ["ö"]}) == frozen({"a": ["ö"], "b": 1}) == '{"a": ["ö"], "b": 1}'


@pytest.mark.parametrize("parameters", [{"at": object()}, {"x": float("nan")}])
def test_what_json_cannot_say_is_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(InvalidMail, match="must be JSON"):
        frozen(parameters)
