"""The running API does what its description says: schemathesis looks for an answer that is not described."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from simulator.dialects.native.openapi import document
from tests.simulator.running import running

#: What a mail may be is more than a schema can say; that sound ones are taken is tested elsewhere.
CONFIG = """
seed = 7
checks.positive_data_acceptance.enabled = false
"""


def test_schemathesis_finds_no_answer_that_is_not_described(tmp_path: Path) -> None:
    """No 5xx; every status, content type and body as described; nothing unsound is taken."""
    config, described = tmp_path / "schemathesis.toml", tmp_path / "native.json"
    config.write_text(CONFIG, encoding="utf-8")
    described.write_text(json.dumps(document("1")), encoding="utf-8")
    with running() as simulator:
        host, port = simulator.http
        command = [
            sys.executable,
            "-m",
            "schemathesis.cli",
            "--config-file",
            str(config),
            "run",
            str(described),
        ]
        command += ["--url", f"http://{host}:{port}", "--phases", "coverage"]
        # The other paths for single mails are the first one under other names, and a batch is mails again.
        for path in ("/send", "/v3/emails", "/v1/emails/batch"):
            command += ["--exclude-path", path]
        done = subprocess.run(
            [*command, "--warnings", "off", "--request-timeout", "20"],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": ""},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    assert done.returncode == 0, done.stdout + done.stderr
    (cases,) = re.findall(r"(\d+) generated", done.stdout)
    assert int(cases) > 100, "it has not looked at much"
