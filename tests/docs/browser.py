"""A real browser for tests: Chromium without a window, spoken to by its own protocol over pipes."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


class Page:
    """One page of a browser that runs, and the addresses that it asked for.

    Messages are JSON, each ended by a zero byte (chrome/browser/devtools/devtools_pipe).
    """

    def __init__(self, write: int, read: int) -> None:
        self._to, self._from, self._next = os.fdopen(write, "wb", 0), os.fdopen(read, "rb"), 0
        self._session: str | None = None
        self.asked: list[str] = []
        self.failed: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Network", "Page", "Runtime"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command; return its result, noting the requests that are reported meanwhile."""
        self._next += 1
        message: dict[str, Any] = {"id": self._next, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._to.write(json.dumps(message).encode() + b"\0")
        while True:
            reply = self._receive()
            if reply.get("id") == self._next:
                assert "error" not in reply, reply
                result: dict[str, Any] = reply["result"]
                return result

    def _receive(self) -> dict[str, Any]:
        data = bytearray()
        while (byte := self._from.read(1)) != b"\0":
            assert byte, "the browser ended"
            data += byte
        event: dict[str, Any] = json.loads(data)
        params = event.get("params", {})
        if event.get("method") == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"])
        if event.get("method") == "Network.responseReceived" and params["response"]["status"] > 399:
            self.failed.append(params["response"]["url"])
        return event

    def run(self, script: str) -> Any:
        """Return what an expression of JavaScript gives."""
        sent = self.send("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in sent, sent
        return sent["result"].get("value")

    def until(self, script: str, seconds: float = 120) -> Any:
        """Return what an expression gives once that is true."""
        end = time.monotonic() + seconds
        while not (value := self.run(script)):
            assert time.monotonic() < end, f"still false after {seconds} s: {script}"
            time.sleep(0.1)
        return value

    def resize(self, width: int, height: int) -> None:
        """Make the window as large as a screen."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def type(self, selector: str, text: str) -> None:
        """Write a text into a field, the last letter by its key, for what listens for keys."""
        self.run(f"document.querySelector({selector!r}).focus()")
        self.send("Input.insertText", text=text[:-1])
        self.send("Input.dispatchKeyEvent", type="keyDown", key=text[-1], text=text[-1])
        self.send("Input.dispatchKeyEvent", type="keyUp", key=text[-1])

    def open(self, address: str) -> None:
        """Open an address and wait for its scripts."""
        self.send("Page.navigate", url=address)
        self.until(f"location.href.startsWith({address!r}) && document.readyState == 'complete'")


def found() -> str | None:
    """Return a browser of this machine; None without one."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


@contextlib.contextmanager
def page(browser: str, profile: Path) -> Iterator[Page]:
    """Run a browser with a profile of its own, and end it."""
    read, to_browser = os.pipe()
    from_browser, write = os.pipe()
    command = f'exec "$0" "$@" 3<&{read} 4>&{write}'
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
    options += ["--disable-background-networking", "--no-first-run", f"--user-data-dir={profile}"]
    process = subprocess.Popen(
        ["bash", "-c", command, browser, *options],
        pass_fds=(read, write),
        stderr=subprocess.DEVNULL,
    )
    os.close(read)
    os.close(write)
    try:
        yield Page(to_browser, from_browser)
    finally:
        process.terminate()
        process.wait()
