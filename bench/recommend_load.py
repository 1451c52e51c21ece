#!/usr/bin/python3
"""Measures how long Recommend takes: repeated questions at a fixed rate, and new ones with and
without a large history.

  bench/recommend_load.py build/release/bin/meshwrightd [ANOTHER/meshwrightd ...]

Starts each server on an empty store. It asks one question at --rate calls per second from
--callers processes, as platforms do that launch the same job again and again. A call's time is
counted from the moment at which it was due. Then it asks questions that nobody has asked before, in
turn with the store empty and with --measurements measurements on the same chip: of the model itself
and of other models. Each new question differs from the one before in the name of its cluster, so
that it takes a search. Needs python3-grpcio and protoc, which scripts/setup.sh installs.
"""

import argparse
import hashlib
import json
import multiprocessing
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import import_load  # noqa: E402

LLAMA_70B = {
    "name": "llama2-70b", "layer_count": 80, "hidden_size": 8192, "ffn_hidden_size": 28672,
    "attention_head_count": 64, "kv_head_count": 8, "head_dim": 128, "vocab_size": 32000,
    "mlp": "swiglu", "norm": "rmsnorm", "tied_embeddings": False}
QUESTIONS = {  # model, global batch, nodes
    "tiny on 8": (import_load.MODEL, 64, 1),
    "70B on 128": (LLAMA_70B, 1024, 16)}
LINES_OF_IMPORT = 25_000  # an import is limited to 64 MB


def question(what, cluster_name):
    from google.protobuf import json_format
    from meshwright.v1 import service_pb2
    model, batch, nodes = QUESTIONS[what]
    asked = service_pb2.TuneRequest()
    json_format.ParseDict(
        {"model": model,
         "workload": {**import_load.WORKLOAD, "global_batch_size": batch},
         "cluster": {"name": cluster_name, "pools": [
             {"name": "a", "chip": import_load.ASKED_CHIP, "node_count": nodes,
              "devices_per_node": 8}]}}, asked)
    return asked


def make_history(program, jobs, count):
    """Returns exports of `count` measurements in total of `jobs` jobs of the chip, each of the best
    plans for a model of another depth."""
    from meshwright.v1 import history_pb2, service_pb2
    with tempfile.TemporaryDirectory() as folder:
        server = import_load.Server(program, pathlib.Path(folder))
        client = import_load.Client(server.address)
        for job in range(jobs):
            asked = question("tiny on 8", f"job-{job}")
            asked.model.layer_count = 8 * (1 + job)
            asked.history_sequence = 0
            answer = client.recommendation.Recommend(
                service_pb2.RecommendRequest(question=asked))
            for rank, plan in enumerate(answer.result.plans, 1):
                client.feedback.CreateJobReport(history_pb2.CreateJobReportRequest(
                    study_id=answer.study_id, rank=rank, outcome="ok",
                    step_time_seconds=plan.estimate.step_time_seconds))
        lines = b"".join(part.lines for part in client.history.ExportHistory(
            history_pb2.ExportHistoryRequest())).decode().splitlines()
        server.stop()
    rows = [json.loads(line) for line in lines]
    made = [line for line, row in zip(lines, rows) if row["kind"] in ("header", "question")]
    reports = [row for row in rows if row["kind"] == "measurement"]
    times = [row["step_time_seconds"] for row in reports]
    exports = []
    for first in range(0, count, LINES_OF_IMPORT):
        part = list(made)
        for number in range(first, min(count, first + LINES_OF_IMPORT)):
            row = reports[number % len(reports)]
            row["id"] = "m-" + hashlib.sha256(str(number).encode()).hexdigest()[:16]
            row["step_time_seconds"] = times[number % len(reports)] * (1 + number % 97 / 1000)
            part.append(json.dumps(row, separators=(",", ":")))
        body = "\n".join(part) + "\n"
        end = {"kind": "end", "count": len(part),
               "sha256": hashlib.sha256(body.encode()).hexdigest()}
        exports.append((body + json.dumps(end, separators=(",", ":")) + "\n").encode())
    return exports


def repeat_question(address, what, period, seconds, ready, times):
    from meshwright.v1 import service_pb2
    client = import_load.Client(address)
    call = client.recommendation.Recommend
    request = service_pb2.RecommendRequest(question=question(what, "repeated"))
    call(request, timeout=import_load.CALL_TIMEOUT_SECONDS)
    ready.wait()
    taken = []
    start = due = time.monotonic()
    while due < start + seconds:
        time.sleep(max(0.0, due - time.monotonic()))
        call(request, timeout=import_load.CALL_TIMEOUT_SECONDS)
        taken.append(time.monotonic() - due)
        due += period
    times.put((taken, time.monotonic() - start))


def measure_repeated(address, what, args):
    processes = multiprocessing.get_context("spawn")
    times, ready = processes.Queue(), processes.Barrier(args.callers)
    callers = [processes.Process(target=repeat_question,
                                 args=(address, what, args.callers / args.rate, args.seconds, ready,
                                       times))
               for _ in range(args.callers)]
    for caller in callers:
        caller.start()
    found = [times.get() for _ in callers]
    for caller in callers:
        caller.join()
    taken = [one for part, _ in found for one in part]
    rate = sum(len(part) / seconds for part, seconds in found)
    print(f"  repeated {what:12} {rate:7.0f} calls/s"
          f"  p50 {import_load.percentile(taken, .5):8.2f} ms"
          f"  p99 {import_load.percentile(taken, .99):8.2f} ms"
          f"  max {1000 * max(taken):8.2f} ms")


def measure_new(client, count, name):
    """Returns the least and the middle time of a question's answers, in ms."""
    from meshwright.v1 import service_pb2
    found = {}
    for what in QUESTIONS:
        taken = []
        for number in range(count + 1):
            request = service_pb2.RecommendRequest(
                question=question(what, f"{name}-{number}"), is_unrecorded=True)
            start = time.monotonic()
            client.recommendation.Recommend(request, timeout=import_load.CALL_TIMEOUT_SECONDS)
            if number > 0:  # the first one reads the history
                taken.append(time.monotonic() - start)
        found[what] = (1000 * min(taken), import_load.percentile(taken, .5))
    return found


def measure_report(client, count, name):
    from meshwright.v1 import history_pb2, service_pb2
    answer = client.recommendation.Recommend(
        service_pb2.RecommendRequest(question=question("tiny on 8", name)))
    taken = []
    for _ in range(count):
        start = time.monotonic()
        client.feedback.CreateJobReport(history_pb2.CreateJobReportRequest(
            study_id=answer.study_id, outcome="ok",
            step_time_seconds=answer.result.plans[0].estimate.step_time_seconds))
        taken.append(time.monotonic() - start)
    return import_load.percentile(taken, .5)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("servers", nargs="+", help="programs meshwrightd, measured in turn")
    parser.add_argument("--rate", type=float, default=500, help="repeated questions per second")
    parser.add_argument("--callers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--measurements", type=int, default=100_000)
    parser.add_argument("--jobs", type=int, default=20, help="jobs that the measurements are of")
    parser.add_argument("--new", type=int, default=9, help="new questions of each kind")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="recommend_load.") as folder:
        import_load.make_stubs(folder)
        exports = make_history(args.servers[0], args.jobs, args.measurements)
        for program in args.servers:
            print(program)
            with tempfile.TemporaryDirectory(prefix="recommend_load.") as store:
                server = import_load.Server(program, pathlib.Path(store))
                client = import_load.Client(server.address)
                if args.seconds > 0:
                    for what in QUESTIONS:
                        measure_repeated(server.address, what, args)
                without = measure_new(client, args.new, "without")
                for lines in exports:
                    import_load.import_lines(server.address, lines)
                with_history = measure_new(client, args.new, "with")
                for what in QUESTIONS:
                    print(f"  new      {what:12} without history {without[what][1]:8.1f} ms,"
                          f" with {args.measurements} measurements {with_history[what][1]:8.1f} ms,"
                          f" ratio {with_history[what][1] / without[what][1]:.2f}"
                          f" (of the least {with_history[what][0] / without[what][0]:.2f})")
                print(f"  a job report with the history {measure_report(client, args.new, 'r'):8.1f}"
                      " ms")
                sys.stdout.flush()
                server.stop()


if __name__ == "__main__":
    main()
