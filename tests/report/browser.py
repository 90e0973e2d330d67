"""A real browser for tests: Debian's chromium without a window, driven through a pipe.

It speaks the DevTools protocol: JSON messages that end in a null byte, to file 3 of the browser and from its
file 4. Sizes, colours and scripts are then the browser's own; nothing is added to the page.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
]  # fmt: skip
TIMEOUT = 600


def executable():
    """Return the browser's path, or None where there is none."""
    return shutil.which("chromium")


class Browser:
    """One browser with one page."""

    def __init__(self):
        self._profile = tempfile.mkdtemp(prefix="nysketch-browser-")
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()

        def place_pipes():
            # Out of the way first: either could be 3 or 4 already.
            first, second = os.dup(to_browser), os.dup(from_browser)
            for source, target in ((first, 60), (second, 61), (60, 3), (61, 4)):
                os.dup2(source, target)

        self._process = subprocess.Popen(
            [executable(), *FLAGS, f"--user-data-dir={self._profile}", "about:blank"],
            preexec_fn=place_pipes,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._buffer, self._last, self.events = b"", 0, []
        target = self.send("Target.createTarget", {"url": "about:blank"}, session=None)["targetId"]
        attached = self.send("Target.attachToTarget", {"targetId": target, "flatten": True}, session=None)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def close(self):
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)
        shutil.rmtree(self._profile, ignore_errors=True)

    def send(self, method, params=None, session=""):
        self._last += 1
        message = {"id": self._last, "method": method, "params": params or {}}
        if session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._last:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def _receive(self):
        deadline = time.monotonic() + TIMEOUT
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(deadline - time.monotonic(), 0))
            assert ready, "the browser does not answer"
            chunk = os.read(self._in, 1 << 16)
            assert chunk, "the browser has gone"
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\0", 1)
        message = json.loads(line)
        if "method" in message:
            self.events.append(message)
        return message

    def open(self, path, *, width=1100, height=900, scheme="light", mobile=False):
        """Open a file in a window of this size."""
        self.events = []
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self.send("Emulation.setDeviceMetricsOverride", size)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.send("Emulation.setEmulatedMedia", {"features": [feature]})
        self.send("Page.navigate", {"url": path.resolve().as_uri()})
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._receive()

    def ask(self, expression):
        """Return the value of a JavaScript expression."""
        result = self.send("Runtime.evaluate", {"expression": expression, "returnByValue": True})
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def complaints(self):
        """Return what the console says: errors of scripts, violations of the page's policy, failed loads."""
        told = ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")
        return [event["params"] for event in self.events if event["method"] in told]

    def requests(self):
        """Return the addresses that the page asked for."""
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event["method"] == "Network.requestWillBeSent"
        ]

    def screenshot(self, path, *, whole=False):
        answer = self.send("Page.captureScreenshot", {"captureBeyondViewport": whole})
        path.write_bytes(base64.b64decode(answer["data"]))
