"""A local file that ranks 2 and 3 take a while to import, and a tracker that notes who opens it."""

from __future__ import annotations

import os
import time

from pipeline import Hook, register

if os.environ.get("RANK") in ("2", "3"):
    time.sleep(2)


@register("hook", "config_saver")
class ConfigSaver(Hook):
    """Keeps a copy of the config, and fails where there is one."""

    def on_run_start(self, run):
        with (run.folder / "kept.toml").open("x") as file:
            file.write((run.folder / "config.toml").read_text())


@register("hook", "tracker")
class Tracker(Hook):
    """Opens its tracker at the start, on rank 0."""

    def on_run_start(self, run):
        with (run.folder / "opened").open("a") as file:
            file.write(f"{os.environ['RANK']} {run.folder}\n")
