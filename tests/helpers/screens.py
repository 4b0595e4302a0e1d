"""A browser that tells what it shows: Chromium, driven without a screen."""

import importlib.util
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MODULES = ("selenium", "nbformat", "nbclient", "nbconvert", "ipykernel", "graphviz")
PROGRAMS = ("chromium", "chromedriver", "dot")

# In the page: what is on it, as it is drawn.
_FUNCTIONS = """
const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
const known = {};
const solid = (colour) => known[colour] ??= (() => { // [r, g, b, a]
  canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data];
})();
const box = (e) => { const r = e.getBoundingClientRect();
  return {left: r.left, top: r.top, right: r.right, bottom: r.bottom,
          width: r.width, height: r.height}; };
const under = (e) => { // the background that an HTML element is drawn on
  for (; e; e = e.parentElement) {
    const c = solid(getComputedStyle(e).backgroundColor);
    if (c[3] === 255) return c;
  }
  return [255, 255, 255, 255];
};
const light = (c) => { const [r, g, b] = c.slice(0, 3).map((v) => v / 255).map(
  (v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const contrast = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
  return (x + 0.05) / (y + 0.05); };
"""


def missing() -> str:
    """What there is not of all that these tests need; empty if nothing is."""
    modules = [m for m in MODULES if importlib.util.find_spec(m) is None]
    programs = [p for p in PROGRAMS if shutil.which(p) is None]
    return ", ".join(modules + programs)


class Page:
    """A page that is being shown."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    def ask(self, script: str, *arguments: Any) -> Any:
        """What a piece of JavaScript returns, which has ``box``, ``under`` and ``contrast``."""
        return self._driver.execute_script(_FUNCTIONS + script, *arguments)

    def resize(self, width: int) -> None:
        """Show the page as on a screen of this width, which windows can't all have."""
        screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self._driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)

    def picture(self, path: Path) -> None:
        """Save what is to be seen, for people."""
        height = self.ask("return document.documentElement.scrollHeight")
        self._driver.set_window_size(1200, min(height + 200, 8000))
        self._driver.save_screenshot(str(path))


@contextmanager
def browser(profile: Path) -> Iterator[Any]:
    """A function that opens files.

    Parameters
    ----------
    profile : Path
        An empty folder, for what the browser keeps.
    """
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    # Nothing is looked up outside: pages are files, and what they name elsewhere stays unread.
    quiet = ("background-networking", "component-update", "sync", "quic", "gpu", "dev-shm-usage")
    switches: Sequence[str] = [
        "headless=new",
        "no-first-run",
        "host-resolver-rules=MAP * ~NOTFOUND",
        f"user-data-dir={profile}",
        *(f"disable-{name}" for name in quiet),
        # Chromium's own sandbox does not start for root.
        *(["no-sandbox"] if os.geteuid() == 0 else []),
    ]
    for switch in switches:
        options.add_argument(f"--{switch}")
    service = Service(executable_path=shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)

    def open_file(path: Path) -> Page:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        driver.set_window_size(1200, 900)
        driver.get(path.as_uri())
        return Page(driver)

    try:
        yield open_file
    finally:
        driver.quit()
