"""``pipeline report``: one file, opened in a real browser."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from tiny_runs import call, train, write_tiny

DEADLINE = 60.0  # seconds, on a loaded machine
EVIL = "<img src=x onerror=alert(1)>"

needs_browser = pytest.mark.skipif(
    shutil.which("chromium") is None or shutil.which("chromedriver") is None,
    reason="chromium and chromedriver are not installed (Debian: apt install chromium-driver)",
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three runs, the second a child of the first; the third has a name that is meant to break the page."""
    folder = tmp_path_factory.mktemp("report_command")
    config, runs = write_tiny(folder, '[train]\nlog_every = "1 step"\n'), folder / "runs"
    first = train(config, runs, "name=first")
    second = train(config, runs, "name=second", "optimizer.lr=0.2")
    third = train(config, runs, f"name={EVIL}", "optimizer.lr=0.3")
    with (third / "metrics.jsonl").open("a") as log:
        log.write(json.dumps({"step": 4, "epoch": 1, f"</script>{EVIL}": 1.0, "time": 1.0}) + "\n")
    record = json.loads((second / "run.json").read_text())
    record["parent"] = {"run": first.name, "checkpoint": None}
    (second / "run.json").write_text(json.dumps(record))
    return runs


@pytest.fixture
def report(runs, tmp_path):
    path = tmp_path / "report.html"
    result = call("report", "--runs-dir", runs, "-o", path)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.strip() == str(path)
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1200,1400"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    yield driver
    driver.quit()


def names(browser) -> list[str]:
    return browser.execute_script(
        "return [...document.querySelectorAll('#table tbody label')].map(l => l.textContent)"
    )


def painted(browser, metric="train/loss") -> int:
    """Pixels of a chart that are not the background: 0 means that no line was drawn."""
    return browser.execute_script(
        """const canvas = document.querySelector(`figure[data-metric="${arguments[0]}"] canvas`);
        const {width, height} = canvas;
        const pixels = canvas.getContext("2d").getImageData(0, 0, width, height).data;
        let count = 0;
        for (let i = 0; i < pixels.length; i += 4) {  // coloured: neither axes nor grid, which are grey
          const [red, green, blue, alpha] = pixels.slice(i, i + 4);
          if (alpha && Math.max(red, green, blue) - Math.min(red, green, blue) > 60) count++;
        }
        return count;""",
        metric,
    )


def wait_for(condition, what):
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@needs_browser
def test_the_page_shows_all_without_a_network_or_an_error(browser, report, runs):
    browser.get(report.as_uri())
    assert len(names(browser)) == 3
    figures = browser.execute_script(
        "return [...document.querySelectorAll('figure')].map(f => f.dataset.metric)"
    )
    assert {"train/loss", "lr", "eval/loss", "eval/accuracy", f"</script>{EVIL}"} == set(figures)
    wait_for(lambda: painted(browser) > 100, "no line was drawn")
    assert browser.get_log("browser") == []
    lineage = browser.find_element("id", "forest").text
    assert "optimizer.lr 0.1 -> 0.2" in lineage
    assert "torch" in browser.find_element("id", "environments").text
    link = browser.execute_script("return document.querySelector('#table a').href")
    assert link == (runs / names(browser)[0] / "config.toml").absolute().as_uri()


@needs_browser
def test_filter_switches_and_sorting(browser, report):
    browser.get(report.as_uri())
    wait_for(lambda: painted(browser) > 100, "no line was drawn")
    everything = painted(browser)
    browser.find_element("id", "filter").send_keys("second")
    assert [name.split("-")[0] for name in names(browser)] == ["second"]
    wait_for(lambda: 0 < painted(browser) < everything, "the filter reaches the curves")
    browser.find_element("id", "none").click()
    wait_for(lambda: painted(browser) == 0, "a run that is switched off has no line")
    browser.execute_script(
        "const f = document.getElementById('filter'); f.value = ''; f.dispatchEvent(new Event('input'))"
    )
    assert len(names(browser)) == 3
    heading = "[...document.querySelectorAll('#table th button')].find(b => b.textContent === 'optimizer.lr')"
    for _ in range(2):  # largest first at the second click
        browser.execute_script(f"{heading}.click()")
    assert names(browser)[1].startswith("second")
    assert browser.execute_script(f"return {heading}.parentElement.getAttribute('aria-sort')") == "descending"


@needs_browser
def test_hover_keyboard_smoothing_and_zoom(browser, report):
    from selenium.webdriver import ActionChains, Keys

    browser.get(report.as_uri())
    wait_for(lambda: painted(browser) > 100, "no line was drawn")
    figure = browser.find_element("css selector", 'figure[data-metric="train/loss"]')
    assert "Last values: first-" in figure.get_attribute("aria-label")
    output = figure.find_element("css selector", "output")
    ActionChains(browser).move_to_element(figure.find_element("css selector", ".u-over")).perform()
    wait_for(lambda: re.search(r"step \d: first-\S+ \d", output.text), "hovering reads the values")
    browser.execute_script("arguments[0].focus()", figure)
    figure.send_keys(Keys.END)
    wait_for(lambda: output.text.startswith("step 4:"), "the keyboard reads the values")
    figure.send_keys(Keys.ARROW_LEFT)
    wait_for(lambda: output.text.startswith("step 3:"), "and goes from step to step")
    before = output.text
    browser.execute_script(
        "const s = document.getElementById('smoothing'); s.value = 0.9; s.dispatchEvent(new Event('input'))"
    )
    figure.send_keys(Keys.HOME)
    figure.send_keys(Keys.ARROW_RIGHT)
    figure.send_keys(Keys.ARROW_RIGHT)
    wait_for(lambda: output.text.startswith("step 3:") and output.text != before, "smoothing changes values")


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_in_the_dark(browser, report, scheme):
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 390, "height": 800, "deviceScaleFactor": 2, "mobile": True},
    )
    try:
        browser.get(report.as_uri())
        wait_for(lambda: painted(browser) > 100, "no line was drawn")
        ink, paper = browser.execute_script(
            "const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]"
        )
        brightness = [sum(map(int, re.findall(r"\d+", text)[:3])) for text in (ink, paper)]
        assert (brightness[0] > brightness[1]) is (scheme == "dark")
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_hostile_names_stay_text(report):
    text = report.read_text()
    assert EVIL not in text
    assert text.count("</script>") == 3
    assert "default-src 'none'" in text
    assert not re.search(r"(src|href)=[\"']?https?:", text), "nothing is loaded from elsewhere"


def test_only_the_runs_that_are_named(runs, tmp_path):
    path = tmp_path / "one.html"
    assert call("report", "second", "--runs-dir", runs, "-o", path).exit_code == 0
    assert '"runs":[["second-' in path.read_text()
    assert call("report", "nothing", "--runs-dir", runs, "-o", path).exit_code == 2


def test_a_broken_run_is_shown_as_such(runs, tmp_path):
    copy = tmp_path / "runs"
    shutil.copytree(runs, copy)
    first, second, *_ = sorted(copy.iterdir())
    (first / "run.json").write_text("{")
    (second / "metrics.jsonl").write_text("nonsense\n{}\n")
    path = tmp_path / "report.html"
    result = call("report", "--runs-dir", copy, "-o", path)
    assert result.exit_code == 0, result.stderr
    assert '"broken"' in path.read_text()


@pytest.mark.parametrize("place", ["missing/report.html", "runs"])
def test_a_file_that_cannot_be_written_is_said(runs, tmp_path, place):
    (tmp_path / "runs").mkdir()
    result = call("report", "--runs-dir", runs, "-o", tmp_path / place)
    assert result.exit_code == 2
    assert "report.html" in result.stderr or "is a directory" in result.stderr


def test_no_runs_no_page(tmp_path):
    result = call("report", "--runs-dir", tmp_path, "-o", tmp_path / "r.html")
    assert result.exit_code == 2
    assert "no runs in" in result.stderr
    assert not (tmp_path / "r.html").exists()


def ask(address, host=None) -> tuple[int, str]:
    """Status and content of an answer."""
    request = urllib.request.Request(address, headers={"Host": host} if host else {})
    try:
        with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, ""


def test_watching_serves_what_is_there_by_now_on_this_machine_alone(runs, tmp_path):
    copy = tmp_path / "runs"
    shutil.copytree(runs, copy)
    words = [sys.executable, "-m", "pipeline", "report", "--watch", "--runs-dir", str(copy)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as server:
        try:
            address = re.search(r"http://127\.0\.0\.1:\d+/", server.stderr.readline()).group()
            assert '"refresh":3.0' in ask(address)[1]
            (first, *_) = sorted(copy.iterdir())
            with (first / "metrics.jsonl").open("a") as log:
                log.write('{"step": 9, "epoch": 9, "train/loss": 7.25, "time": 1}\n')
            curves = json.loads(ask(f"{address}data.json")[1])["curves"]
            assert 7.25 in [value for values in curves["train/loss"]["y"] for value in values]
            assert ask(address, host="evil.example")[0] == 403
            assert ask(f"{address}run.json")[0] == 404
        finally:
            server.send_signal(signal.SIGINT)
            assert server.wait(timeout=DEADLINE) == 0
