"""What a run does on the way to its first step."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tiny_runs import write_tiny

IMPORTS_SEEN = Path(__file__).parents[1] / "support" / "parts" / "imports_seen.py"


def test_the_collector_rests_while_torch_is_imported_and_works_in_training(tmp_path):
    """Of importing torch and torch._dynamo it would take a quarter, and find next to nothing."""
    config = write_tiny(tmp_path)
    words = ["run", config, "--set", f"components=['{IMPORTS_SEEN}']", "--set", "hooks.imports_seen={}"]
    command = [sys.executable, "-m", "pipeline", *map(str, words), "--runs-dir", str(tmp_path / "runs")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"torch": False, "torch._dynamo": False, "step": True}
