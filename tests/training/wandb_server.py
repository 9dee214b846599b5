"""A stand-in for wandb's server on this machine: takes in runs, and remembers their history."""

import gzip
import json
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self


class WandbServer(ThreadingHTTPServer):
    """Serves until the end of its body.

    Attributes: `history`, rows by place of every run by id; `environment`, which sends wandb here.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.history: dict[str, dict[int, dict]] = defaultdict(dict)
        self.environment = {
            "WANDB_BASE_URL": f"http://127.0.0.1:{self.server_port}",
            "WANDB_API_KEY": "a" * 40,
            "WANDB_ERROR_REPORTING": "false",
        }

    def __enter__(self) -> Self:
        Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def answer(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        name, me = variables.get("name"), {"id": "1", "name": "me"}
        rows = self.history.get(name, {})
        bucket = {
            "id": f"id-{name}",
            "name": name,
            "displayName": name,
            "config": "{}",
            "wandbConfig": "{}",
            "tags": [],
            "historyLineCount": len(rows),
            "eventsLineCount": 0,
            "logLineCount": 0,
            "historyTail": json.dumps([json.dumps(rows[max(rows)])] if rows else []),
            "eventsTail": "[]",
            "summaryMetrics": json.dumps(rows[max(rows)] if rows else {}),
            "project": {"id": "1", "name": variables.get("project"), "entity": me},
        }
        if "upsertBucket" in query:
            return {"upsertBucket": {"bucket": bucket, "inserted": not rows}}
        if "RunResumeStatus" in query:
            return {"model": {**me, "entity": me, "bucket": bucket if rows else None}}
        if "createRunFiles" in query:
            return {"createRunFiles": {"runID": "1", "uploadHeaders": [], "files": []}}
        viewer = {
            "id": "1",
            "entity": "me",
            "username": "me",
            "flags": "{}",
            "teams": {"edges": []},
        }
        return {"viewer": viewer, "serverInfo": {"features": [], "cliVersionInfo": {}}}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: WandbServer

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        if self.path.endswith("/file_stream"):
            run = self.path.split("/")[-2]
            history = json.loads(body).get("files", {}).get("wandb-history.jsonl")
            if history:
                rows = map(json.loads, history["content"])
                self.server.history[run].update(enumerate(rows, history["offset"]))
            self.reply({"exitcode": None, "limits": {}})
        elif self.path.endswith("/graphql"):
            asked = json.loads(body)
            self.reply({"data": self.server.answer(asked["query"], asked.get("variables") or {})})
        else:
            self.reply({})

    def reply(self, content: dict[str, Any]) -> None:
        text = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
