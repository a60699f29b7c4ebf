"""Mails from templates: a name and parameters become a `Mail`, once, at enqueue.

A template is a folder with `subject.txt` and `text.txt` or `html.html` or both, and with `headers.txt` if its mails need
headers of their own, like `List-Unsubscribe` (RFC 8058); all in Jinja. What a mail says is frozen then: a retry next week
sends the bytes of today, whatever has become of the template meanwhile.
Must not hold: the outbox.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reference_sender.message import Attachment, InvalidMail, Mail

if TYPE_CHECKING:
    from jinja2 import Environment

PARTS = ("subject.txt", "text.txt", "html.html")
HEADERS = "headers.txt"


class BrokenTemplate(InvalidMail):
    """The template itself is of no use, whoever the mail is for: not there, not readable, not written as Jinja is."""


class Templates:
    """The templates in a folder, one folder each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def _jinja(self) -> Environment:
        # Late: a worker renders nothing, and most mails come without a template.
        from jinja2 import Environment, FileSystemLoader, StrictUndefined

        return Environment(
            loader=FileSystemLoader(self.folder),
            # A parameter that is missing must not become an empty place in somebody's invoice.
            undefined=StrictUndefined,
            autoescape=lambda name: name is not None and name.endswith(".html"),
            keep_trailing_newline=True,
        )

    @cached_property
    def _jinja_of_headers(self) -> Environment:
        return self._jinja.overlay(finalize=_one_line)

    def names(self) -> tuple[str, ...]:
        """Return the names of the templates there are."""
        if not self.folder.is_dir():
            return ()
        return tuple(sorted(each.name for each in self.folder.iterdir() if (each / PARTS[0]).is_file()))

    def mail(
        self,
        name: str,
        parameters: Mapping[str, Any],
        *,
        sender: str,
        recipients: Sequence[str],
        attachments: Sequence[Attachment] = (),
        headers: Mapping[str, str] | None = None,
    ) -> Mail:
        """Render a mail; a header that is given as well counts more than that of the template.

        Raises `InvalidMail` with one sentence: a parameter missing, a header that cannot be; `BrokenTemplate` for no such
        template and a mistake in it.
        """
        if name not in self.names():
            known = ", ".join(self.names()) or "none"
            raise BrokenTemplate(f"there is no template {name!r} in {self.folder}; there are: {known}")
        subject, text, html = (self._part(name, part, parameters) for part in PARTS)
        return Mail(
            sender=sender,
            recipients=tuple(recipients),
            subject=" ".join((subject or "").split()),
            text=text,
            html=html,
            attachments=tuple(attachments),
            headers={**self._headers(name, parameters), **(headers or {})},
        )

    def _headers(self, name: str, parameters: Mapping[str, Any]) -> dict[str, str]:
        """What `headers.txt` says, a header a line; lines that are empty once rendered say nothing."""
        found: dict[str, str] = {}
        words = self._part(name, HEADERS, parameters) or ""
        for number, line in enumerate(words.split("\n"), 1):
            if not line.strip():
                continue
            header, colon, value = line.partition(":")
            where = f"line {number} of the template {name!r} ({HEADERS})"
            if not colon:
                raise InvalidMail(f"{where} is no header; write it like 'List-Unsubscribe: <https://…>'")
            if header.strip().lower() in map(str.lower, found):
                raise InvalidMail(f"{where} gives the header {header.strip()!r} a second time")
            found[header.strip()] = value.strip()
        return found

    def _part(self, name: str, part: str, parameters: Mapping[str, Any]) -> str | None:
        if not (self.folder / name / part).is_file():
            return None
        from jinja2 import TemplateError, TemplateNotFound, TemplateSyntaxError, UndefinedError

        where = f"the template {name!r} ({part})"
        jinja = self._jinja_of_headers if part == HEADERS else self._jinja
        try:
            return jinja.get_template(f"{name}/{part}").render(**parameters)
        except InvalidMail as error:
            raise InvalidMail(f"{where} cannot be rendered: {error}") from error
        except UndefinedError as error:
            raise InvalidMail(f"{where} needs a parameter that was not given: {error.message}") from error
        except TemplateSyntaxError as error:
            raise BrokenTemplate(f"{where} has a mistake in line {error.lineno}: {error.message}") from error
        except (TemplateNotFound, UnicodeDecodeError, OSError) as error:
            raise BrokenTemplate(f"{where} cannot be read: {type(error).__name__}: {error}") from error
        except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError) as error:
            raise InvalidMail(f"{where} cannot be rendered: {type(error).__name__}: {error}") from error


def _one_line(value: object) -> object:
    """Refuse a parameter that would begin another header: only the template says which there are."""
    if "\n" in str(value) or "\r" in str(value):
        raise InvalidMail("a parameter contains a line break, which could smuggle in a header")
    return value


def frozen(parameters: Mapping[str, Any]) -> str:
    """Return parameters as JSON, the same for the same ones. Raises `InvalidMail` for what JSON cannot say."""
    try:
        return json.dumps(parameters, sort_keys=True, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidMail(
            f"the parameters of a template must be JSON (texts, numbers, lists): {error}"
        ) from error
