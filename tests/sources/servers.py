"""Servers on loopback: S3 as moto plays it, a proxy that fails when told to, one that never answers."""

import http.client
import logging
import os
import random
import socket
import struct
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import boto3
from moto.server import ThreadedMotoServer

REGION = "us-east-1"
_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive"}


class S3:
    """A server with buckets; `environment` is what a client needs to reach it."""

    def __init__(self):
        logging.getLogger("werkzeug").setLevel(logging.ERROR)  # it tells of every request
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._server.start()
        self.port = self._server.get_host_and_port()[1]
        self.client = boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{self.port}",
            region_name=REGION,
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )

    def environment(self, port=None):
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port or self.port}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": REGION,
            "AWS_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def put(self, bucket, key, body):
        self.client.put_object(Bucket=bucket, Key=key, Body=body)

    def put_folder(self, bucket, folder, prefix=""):
        """Store all files of a folder under their relative names."""
        for path in sorted(Path(folder).rglob("*")):
            if path.is_file():
                self.put(bucket, f"{prefix}{path.relative_to(folder)}", path.read_bytes())

    def stop(self):
        self._server.stop()


class Proxy:
    """Passes requests on to another port, but for those that fail.

    A `share` of them does: which ones depends on the request, how often it was made and the seed, not on who
    comes first. Those for which `broken(method, path, first byte, last byte)` returns a status fail always;
    those for which it returns "silence" are never answered.
    """

    def __init__(self, port, *, share=0.0, seed=0, broken=None):
        self.share, self.seed, self.broken = share, seed, broken or (lambda *request: None)
        self.failures, self.requests = Counter(), Counter()
        self._lock, self._stopped = threading.Lock(), threading.Event()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self):
                try:
                    super().handle_one_request()
                except (ConnectionError, TimeoutError):
                    self.close_connection = True

            def do_GET(self):
                self._pass_on()

            do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

            def log_message(self, format, *args):
                pass

            def _pass_on(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                failure = proxy._failure(self.command, self.path, self.headers.get("Range", ""))
                if failure == "close":
                    return self._cut_off()
                if failure == "silence":
                    proxy._stopped.wait()
                    return self._cut_off()
                if failure is not None and failure.isdigit():
                    return self._answer(int(failure), [], b"", head=self.command == "HEAD")
                server = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                try:
                    server.request(self.command, self.path, body, dict(self.headers))
                    answer = server.getresponse()
                    content = answer.read()
                finally:
                    server.close()
                kept = [(name, value) for name, value in answer.getheaders() if name.lower() not in _HOP]
                length = answer.getheader("Content-Length")
                if failure == "reset" and content:
                    self._answer(answer.status, kept, content[: len(content) // 2], length=len(content))
                    return self._cut_off()
                if failure == "reset":
                    return self._cut_off()
                return self._answer(
                    answer.status, kept, content, length=length or len(content), head=self.command == "HEAD"
                )

            def _answer(self, status, headers, content, *, length=None, head=False):
                self.send_response_only(status)
                for name, value in headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content) if length is None else length))
                self.end_headers()
                if not head:
                    self.wfile.write(content)
                    self.wfile.flush()

            def _cut_off(self):
                """Reset the connection."""
                self.close_connection = True
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                os.close(self.connection.detach())  # a mere close() would wait for the files made of it
                self.rfile = self.wfile = _Nothing()

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.handle_error = lambda request, address: None
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def _failure(self, method, path, byte_range):
        first, _, last = byte_range.removeprefix("bytes=").partition("-")
        bounds = (int(first or 0), int(last)) if last else (0, 0)
        with self._lock:
            request = method, path, byte_range
            self.requests[request] += 1
            inside = path.lstrip("/").partition("/")[2]  # names of buckets differ from run to run
            choose = random.Random(f"{self.seed} {method} {inside} {byte_range} {self.requests[request]}")
            failure = self.broken(method, unquote(path), *bounds)
            if failure is None and choose.random() < self.share:
                failure = choose.choice(["reset", "reset", "500", "503", "close"])
            if failure is not None:
                self.failures[failure] += 1
            return failure

    def stop(self):
        self._stopped.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Nothing:
    """In the place of a file whose connection has gone."""

    closed = True

    def flush(self):
        pass

    def close(self):
        pass

    def readline(self, size=-1):
        return b""


class Silence:
    """Accepts connections, and never says a word."""

    def __init__(self):
        self._held = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.connections = 0
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self):
        while True:
            try:
                self._held.append(self._socket.accept()[0])
            except OSError:
                return
            self.connections += 1

    def stop(self):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()
        for connection in self._held:
            connection.close()


class Folder:
    """A folder as a web server shows it, ranges of bytes included; it wants `?key=…` if there is a key."""

    def __init__(self, folder, *, key=None):
        served = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                path, _, query = self.path.partition("?")
                file = Path(folder, unquote(path).lstrip("/"))
                if key is not None and query != f"key={key}":
                    return self._answer(403)
                if not file.is_file():
                    return self._answer(404)
                content = file.read_bytes()
                served.requests += 1
                wanted = self.headers.get("Range")
                if not wanted:
                    return self._answer(200, content)
                first, _, last = wanted.removeprefix("bytes=").partition("-")
                start, stop = int(first), min(int(last or len(content) - 1) + 1, len(content))
                return self._answer(
                    206, content[start:stop], {"Content-Range": f"bytes {start}-{stop - 1}/{len(content)}"}
                )

            do_HEAD = do_GET

            def log_message(self, format, *args):
                pass

            def _answer(self, status, content=b"", headers=None):
                self.send_response_only(status)
                for name, value in ({"Accept-Ranges": "bytes"} | (headers or {})).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

        self.requests = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.handle_error = lambda request, address: None
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def stop(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
