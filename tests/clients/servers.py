"""Shared by the tests of the Python client:

    NAME_test.py MESHWRIGHT MESHWRIGHTD EXAMPLES PACKAGE

PACKAGE is the folder with the client's package, as the build makes it."""

import hashlib
import logging
import pathlib
import re
import signal
import subprocess
import sys
import threading
from concurrent import futures

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
PACKAGE = pathlib.Path(sys.argv[4]).resolve()
sys.path[:0] = [str(HERE.parent / "cli"), str(HERE.parent / "events"), str(PACKAGE)]

import grpc  # noqa: E402
import programs  # noqa: E402
from meshwright import rpc, v1  # noqa: E402

logging.getLogger("meshwright").addHandler(logging.NullHandler())  # assertLogs sees what is said

QUESTION = {"model": programs.TINY_MODEL, "workload": programs.TINY_WORKLOAD, "cluster": programs.TINY_CLUSTER}
OWN_PLAN = {"tensor_parallel": 8}


class Servers(programs.Folder):
    """Starts real servers, which end with the test."""

    def start(self, *flags, listen="127.0.0.1:0"):
        """Starts a server; returns it and its address."""
        server = subprocess.Popen(
            [programs.MESHWRIGHTD, "--listen", listen,
             *([] if "--db" in flags else ["--db", str(self.folder / "server.db")]), *flags],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(self.end, server)
        return server, re.fullmatch(r"listening on (\S+)\n", server.stdout.readline()).group(1)

    def end(self, server):
        if server.poll() is None:
            server.send_signal(signal.SIGCONT)
            server.kill()
        server.wait(timeout=30)
        server.stdout.close()

    def callers(self, *lines):
        """Writes the file of callers: NAME ROLE with the token "token-of-NAME", or whole lines."""
        text = ""
        for line in lines:
            words = line.split()
            digest = hashlib.sha256(f"token-of-{words[0]}".encode()).hexdigest()
            text += line + ("\n" if len(words) == 3 else f" sha256:{digest}\n")
        return self.write("callers", text)


def details(code, reason, fields=(), more=()):
    """Returns the trailing metadata of an error of Meshwright."""
    status = rpc.Status(code=code.value[0], message="said")

    def add(name, message):
        status.details.add(type_url=f"type.googleapis.com/{name}", value=message.SerializeToString())
    add("google.rpc.ErrorInfo", rpc.ErrorInfo(reason=reason, domain="meshwright", metadata={"study_id": "s"}))
    if fields:
        add("google.rpc.BadRequest", rpc.BadRequest(field_violations=[
            rpc.BadRequest.FieldViolation(field=field, description=text) for field, text in fields]))
    for name, message in more:
        add(name, message)
    return (("grpc-status-details-bin", status.SerializeToString()),)


class FakeServer:
    """A server whose answers a test chooses. `answer(method, request, context)` returns the response
    or aborts."""

    def __init__(self, answer):
        self.requests = []  # (method, request) in their order
        self.lock = threading.Lock()
        self.answer = answer
        self.server = grpc.server(futures.ThreadPoolExecutor(4))
        self.server.add_generic_rpc_handlers((_Handler(self),))
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def count(self, method):
        with self.lock:
            return sum(name == method for name, _ in self.requests)

    def stop(self):
        self.server.stop(None).wait()


class _Handler(grpc.GenericRpcHandler):
    def __init__(self, fake):
        self.fake = fake

    def service(self, call):
        name = call.method.rpartition("/")[2]

        def answer(data, context):
            request = getattr(v1, f"{name}Request").FromString(data)
            with self.fake.lock:
                self.fake.requests.append((name, request))
            return self.fake.answer(name, request, context)
        return grpc.unary_unary_rpc_method_handler(
            answer, response_serializer=lambda message: message.SerializeToString())
