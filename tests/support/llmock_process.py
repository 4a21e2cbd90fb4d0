"""llmock, a model server that nobody here wrote, in a process of its own; it is driven over its HTTP interface."""

import json
import subprocess
import sys
from types import TracebackType
from typing import Any, Self
from urllib.request import Request, urlopen

from toolrelay import Client, create_client

SERVE = """
import sys
from llmock.testing import LLMockServer
with LLMockServer() as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


class LLMock:
    """Ends with its standard input, so also when the tests are killed."""

    def __enter__(self) -> Self:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([sys.executable, "-c", SERVE], stdin=pipe, stdout=pipe, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def client(self, style: str, path: str, **settings: Any) -> Client:
        fast = {"retries": 2, "read_timeout": 10.0}
        return create_client(style=style, model="m-1", base_url=self.url + path, api_key="k", **{**fast, **settings})

    def reset(self) -> None:
        self._ask("POST", "/reset")

    def script(self, *behaviours: dict[str, Any]) -> None:
        """What happens to the requests that come, by kind of behaviour in this order."""
        self._ask("POST", "/scenario", {"behaviors": behaviours})

    @property
    def requests(self) -> list[dict[str, Any]]:
        return self._ask("GET", "/requests")["requests"]

    @property
    def findings(self) -> list[str]:
        """What the server holds against its client, warnings included."""
        return [f"{found['code']}: {found['title']}" for found in self._ask("GET", "/verdict")["findings"]]

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(f"{self.url}/_llmock{path}", data, method=method), timeout=20) as reply:
            return json.load(reply)
