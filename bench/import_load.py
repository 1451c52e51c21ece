#!/usr/bin/python3
"""Measures how long ListStudies and Recommend take while a server imports a large history.

  bench/import_load.py build/release/bin/meshwrightd [ANOTHER/meshwrightd ...]

Starts each server on an empty store, asks it at a fixed rate for some seconds while it is idle, and
asks it at the same rate from the first byte of an import of --megabytes until the import has been
answered. The callers are processes of their own. A call's time is counted from the moment at which
it was due, so that a caller who is kept waiting does not hide the calls that it would have made
meanwhile. The imported runs are of another chip than the one that Recommend asks about (unless
--same-chip), because an answer that has more to learn from takes longer, whatever else goes on.
Needs python3-grpcio and protoc, which scripts/setup.sh installs.
"""

import argparse
import hashlib
import json
import math
import multiprocessing
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import grpc

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = {
    "name": "tiny", "layer_count": 8, "hidden_size": 2048, "ffn_hidden_size": 5504,
    "attention_head_count": 16, "kv_head_count": 16, "head_dim": 128, "vocab_size": 32000,
    "mlp": "swiglu", "norm": "rmsnorm", "tied_embeddings": False}
WORKLOAD = {"sequence_length": 2048, "global_batch_size": 64,
            "framework": {"name": "megatron-core"}}
ASKED_CHIP = "nvidia-a100-sxm4-80gb"
OTHER_CHIP = "nvidia-h100-sxm5-80gb"
PART_BYTES = 1_000_000
CALL_TIMEOUT_SECONDS = 120
# These periods are short enough for a p99 of a short import, and long enough to leave the second
# core to the server.
LIST_PERIOD_SECONDS = 0.02
RECOMMEND_PERIOD_SECONDS = 0.1


def make_stubs(folder):
    protos = sorted(str(path.relative_to(ROOT / "proto"))
                    for path in (ROOT / "proto" / "meshwright" / "v1").glob("*.proto"))
    subprocess.run(
        ["protoc", f"--proto_path={ROOT / 'proto'}", f"--python_out={folder}",
         f"--grpc_out={folder}", "--plugin=protoc-gen-grpc=/usr/bin/grpc_python_plugin", *protos],
        check=True)
    sys.path.insert(0, str(folder))
    os.environ["PYTHONPATH"] = str(folder)  # for the callers' processes


class Server:
    def __init__(self, program, folder):
        self.log = folder / "log"
        self.process = subprocess.Popen(
            [program, "--listen", "127.0.0.1:0", "--db", str(folder / "history.db"),
             "--log-level", "info"],
            stdout=subprocess.PIPE, stderr=self.log.open("w"), text=True)
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            sys.exit(f"{program} does not start: {self.log.read_text()}")
        self.address = line.split()[-1]

    def stop(self):
        """Ends the server. Returns the longest time that its store was held, if its log says so."""
        self.process.terminate()
        self.process.wait()
        found = re.search(r"longest_store_hold_ms=([0-9.]+)", self.log.read_text())
        return float(found.group(1)) if found else None


class Client:
    def __init__(self, address):
        from meshwright.v1 import history_pb2_grpc, service_pb2_grpc
        channel = grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])
        self.recommendation = service_pb2_grpc.RecommendationServiceStub(channel)
        self.tuning = service_pb2_grpc.TuningServiceStub(channel)
        self.feedback = history_pb2_grpc.FeedbackServiceStub(channel)
        self.history = history_pb2_grpc.HistoryServiceStub(channel)


def question(chip):
    from google.protobuf import json_format
    from meshwright.v1 import service_pb2
    cluster = {"name": "x8", "pools": [
        {"name": "a", "chip": chip, "node_count": 1, "devices_per_node": 8}]}
    asked = service_pb2.TuneRequest()
    json_format.ParseDict({"model": MODEL, "workload": WORKLOAD, "cluster": cluster}, asked)
    return asked


def make_export(program, chip, size_bytes):
    """Returns an export of about that size: one report of a real plan, repeated under new ids."""
    from meshwright.v1 import history_pb2, service_pb2
    with tempfile.TemporaryDirectory() as folder:
        server = Server(program, pathlib.Path(folder))
        client = Client(server.address)
        answer = client.recommendation.Recommend(
            service_pb2.RecommendRequest(question=question(chip)))
        best = answer.result.plans[0].estimate.step_time_seconds
        client.feedback.CreateJobReport(history_pb2.CreateJobReportRequest(
            study_id=answer.study_id, outcome="ok", step_time_seconds=best))
        lines = b"".join(part.lines for part in client.history.ExportHistory(
            history_pb2.ExportHistoryRequest())).decode().splitlines()
        server.stop()
    before = [line for line in lines if json.loads(line)["kind"] in ("header", "question")]
    report = json.loads(next(line for line in lines if json.loads(line)["kind"] == "measurement"))
    step_time = report["step_time_seconds"]
    size = sum(len(line) + 1 for line in before)
    made = list(before)
    while size < size_bytes:
        number = len(made)
        report["id"] = "m-" + hashlib.sha256(str(number).encode()).hexdigest()[:16]
        report["step_time_seconds"] = step_time * (1 + number % 97 / 1000)
        made.append(json.dumps(report, separators=(",", ":")))
        size += len(made[-1]) + 1
    body = "\n".join(made) + "\n"
    end = {"kind": "end", "count": len(made), "sha256": hashlib.sha256(body.encode()).hexdigest()}
    return (body + json.dumps(end, separators=(",", ":")) + "\n").encode(), len(made)


def ask_at_rate(address, what, chip, period, end, ready, times):
    """Makes every call that is due before `end`. Puts the calls' times, each counted from when it
    was due, into `times`."""
    from meshwright.v1 import service_pb2
    client = Client(address)
    if what == "ListStudies":
        request = service_pb2.ListStudiesRequest(page_size=50)
        call = client.tuning.ListStudies
    else:
        request = service_pb2.RecommendRequest(question=question(chip))
        call = client.recommendation.Recommend
    call(request, timeout=CALL_TIMEOUT_SECONDS)  # connects
    ready.wait()
    taken = []
    due = time.monotonic()
    while due < end.value:
        time.sleep(max(0.0, due - time.monotonic()))
        call(request, timeout=CALL_TIMEOUT_SECONDS)
        taken.append(time.monotonic() - due)
        due += period
    times.put((what, taken))


def measure(address, chip, during):
    """Returns the times of both calls, by name, while during() runs, and how long that took."""
    # Uses spawn, because a fork would inherit gRPC's threads.
    processes = multiprocessing.get_context("spawn")
    callers = [("ListStudies", LIST_PERIOD_SECONDS), ("Recommend", RECOMMEND_PERIOD_SECONDS)]
    end, times = processes.Value("d", math.inf), processes.Queue()
    ready = processes.Barrier(len(callers) + 1)
    callers = [processes.Process(target=ask_at_rate,
                                 args=(address, what, chip, period, end, ready, times))
               for what, period in callers]
    for caller in callers:
        caller.start()
    ready.wait()
    start = time.monotonic()
    during()
    end.value = time.monotonic()
    took = end.value - start
    found = dict(times.get() for _ in callers)
    for caller in callers:
        caller.join()
    return found, took


def import_lines(address, lines):
    from meshwright.v1 import history_pb2
    parts = (history_pb2.ImportHistoryRequest(lines=lines[at:at + PART_BYTES])
             for at in range(0, len(lines), PART_BYTES))
    answer = Client(address).history.ImportHistory(parts, timeout=CALL_TIMEOUT_SECONDS)
    return answer.imported_count


def percentile(times, share):
    ordered = sorted(times)
    return 1000 * ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def report(program, idle, busy, took, longest_hold):
    print(f"{program}: import took {took:.1f} s"
          + (f"; the store was held for at most {longest_hold:.1f} ms" if longest_hold else ""))
    print(f"  {'call':12} {'':12} {'calls':>6} {'p50 ms':>9} {'p99 ms':>9} {'max ms':>9}")
    for call in idle:
        for when, times in (("idle", idle[call]), ("importing", busy[call])):
            print(f"  {call:12} {when:12} {len(times):6} {percentile(times, .5):9.2f} "
                  f"{percentile(times, .99):9.2f} {1000 * max(times):9.2f}")
        ratio = percentile(busy[call], .99) / percentile(idle[call], .99)
        print(f"  {call:12} p99 while importing / p99 idle = {ratio:.1f}")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("servers", nargs="+", help="programs meshwrightd, measured in turn")
    parser.add_argument("--megabytes", type=float, default=62)
    parser.add_argument("--idle-seconds", type=float, default=10)
    parser.add_argument("--same-chip", action="store_true",
                        help="imported runs are of the chip that Recommend asks about")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="import_load.") as folder:
        make_stubs(folder)
        chip = ASKED_CHIP if args.same_chip else OTHER_CHIP
        lines, count = make_export(args.servers[0], chip, args.megabytes * 1e6)
        print(f"import: {len(lines) / 1e6:.1f} MB, {count} lines")
        for program in args.servers:
            with tempfile.TemporaryDirectory(prefix="import_load.") as store:
                server = Server(program, pathlib.Path(store))
                idle, _ = measure(server.address, ASKED_CHIP,
                                  lambda: time.sleep(args.idle_seconds))
                busy, took = measure(server.address, ASKED_CHIP,
                                     lambda: import_lines(server.address, lines))
                report(program, idle, busy, took, server.stop())


if __name__ == "__main__":
    main()
