"""`python -m simulator` is `simulator`: where scripts are not on the path."""

from __future__ import annotations

import subprocess
import sys


def test_it_is_the_same_command_line() -> None:
    """Its help, and its exit code for what does not exist."""
    helped, wrong = (
        subprocess.run([sys.executable, "-m", "simulator", word], capture_output=True, text=True, check=False)
        for word in ("--help", "nothing")
    )

    assert helped.returncode == 0
    assert helped.stdout.startswith("Usage: ")
    assert wrong.returncode == 2
    assert "No such command 'nothing'" in wrong.stderr
