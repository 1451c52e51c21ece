"""The client for scripts of jobs: asks for a plan before a launch, and reports what it achieved.

    python3 -m meshwright ask --server HOST:PORT --model config.json --workload workload.json \\
        --cluster cluster.json --own-flags '--tensor-model-parallel-size 8'

prints lines that a shell can evaluate:

    MESHWRIGHT_FLAGS='...'     the flags to launch with: the server's, or those of --own-flags
    MESHWRIGHT_SOURCE=server   own: launch as without Meshwright
    MESHWRIGHT_REASON=''       why there are only the own flags, such as UNAVAILABLE
    MESHWRIGHT_STUDY=...       the study to report the result to; empty: none

It exits with 0 whenever the job can be launched, also without an answer; with 3 if the question has
a mistake and with 4 if no plan fits, unless --launch-anyway is stated.

    python3 -m meshwright report --server HOST:PORT --study STUDY --outcome ok --step-time 74.9

exits with 0 once the report is stored, and else with 3 for a mistake and 8 otherwise.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import pathlib
import shlex
import sys
from typing import Any, Dict, List, Optional

from .client import Client
from .decision import Decision, log
from .errors import FieldMistake, MeshwrightError, NoFeasiblePlan, invalid_request
from .questions import question

# The exit codes of the command line (docs/reference/exit_codes.md).
_INVALID_INPUT = 3
_INFEASIBLE = 4
_UNAVAILABLE = 8


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m meshwright", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    ask = commands.add_parser("ask", help="ask for a plan before a launch")
    ask.add_argument("--model", required=True, metavar="FILE", help="config.json, or a model in JSON")
    ask.add_argument("--workload", required=True, metavar="FILE", help="a workload in JSON")
    where = ask.add_mutually_exclusive_group(required=True)
    where.add_argument("--cluster", metavar="FILE", help="a cluster in JSON")
    where.add_argument("--chip", metavar="NAME", help="equal nodes of this chip instead of --cluster")
    ask.add_argument("--nodes", type=int, metavar="N", help="the number of nodes (of the cluster's first pool)")
    ask.add_argument("--own-flags", default="", help="launch flags that the job has without an answer")
    ask.add_argument("--own-plan", metavar="FILE", help="the same plan in JSON: the baseline of the question")
    ask.add_argument("--framework", default="", help="the framework whose flags are printed")
    ask.add_argument("--launch-anyway", action="store_true", help="also exit with 0 after a mistake")
    report = commands.add_parser("report", help="report what a launched plan achieved")
    report.add_argument("--study", required=True, help="$MESHWRIGHT_STUDY of the answer")
    report.add_argument("--outcome", required=True, help="ok, oom, crash, hang, timeout or cancelled")
    report.add_argument("--step-time", type=float, metavar="SECONDS", help="median after warm-up; required with ok")
    report.add_argument("--peak-memory-bytes", type=int, metavar="BYTES", help="of the busiest device")
    report.add_argument("--job", metavar="NAME", help="the job's name; a repeated report of it is stored once")
    for command in (ask, report):
        command.add_argument("--server", required=True, metavar="ADDRESS", help="HOST:PORT or unix:/PATH")
        command.add_argument("--deadline", type=float, default=10.0, metavar="SECONDS", help="default: %(default)s")
        command.add_argument("--token-file", default=os.environ.get("MESHWRIGHT_TOKEN_FILE"), metavar="FILE",
                             help="default: $MESHWRIGHT_TOKEN_FILE")
        command.add_argument("--tls-ca", metavar="FILE")
        command.add_argument("--tls-cert", metavar="FILE")
        command.add_argument("--tls-key", metavar="FILE")
    return parser


def _json(path: str, name: str) -> Any:
    try:
        return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise invalid_request([FieldMistake(name, f"{path}; cannot be read as JSON: {error}")]) from error


def _cluster(words: argparse.Namespace) -> Dict[str, Any]:
    if words.chip is not None:
        nodes = {"node_count": words.nodes} if words.nodes is not None else {}
        return {"pools": [{"chip": words.chip, **nodes}]}
    cluster: Dict[str, Any] = _json(words.cluster, "cluster")
    if words.nodes is not None and cluster.get("pools"):
        cluster["pools"][0]["node_count"] = words.nodes
    return cluster


def _client(words: argparse.Namespace) -> Client:
    return Client(words.server, token_file=words.token_file, ca=words.tls_ca, cert=words.tls_cert, key=words.tls_key)


def _decide(words: argparse.Namespace) -> Decision:
    own_plan = _json(words.own_plan, "own_plan") if words.own_plan else None
    asked = question(words.model, words.workload, _cluster(words))
    with _client(words) as client:
        return client.recommend_or(own_plan, asked, deadline=words.deadline)


def _print(flags: str, source: str, reason: str, study: str) -> int:
    for name, value in (("FLAGS", flags), ("SOURCE", source), ("REASON", reason), ("STUDY", study)):
        print(f"MESHWRIGHT_{name}={shlex.quote(value)}")
    return 0


def _ask(words: argparse.Namespace) -> int:
    try:
        decision = _decide(words)
    except MeshwrightError as error:
        if words.launch_anyway:
            return _print(words.own_flags, "own", error.reason, "")
        print(f"meshwright: {error}", file=sys.stderr)
        return _INFEASIBLE if isinstance(error, NoFeasiblePlan) else _INVALID_INPUT
    if decision.is_own:
        return _print(words.own_flags, "own", decision.reason, "")
    flags = decision.flags(words.framework)
    if flags is None:
        framework = words.framework or "the workload's framework"
        log.warning("launching with the job's own flags: the answer has no flags for %s", framework)
        return _print(words.own_flags, "own", "NO_FLAGS", "")
    joined = " ".join(line.rstrip("\\ ") for line in flags.splitlines())
    return _print(joined, "server", "", decision.study_id)


def _report(words: argparse.Namespace) -> int:
    stated = {"study_id": words.study, "outcome": words.outcome, "step_time_seconds": words.step_time,
              "peak_memory_bytes": words.peak_memory_bytes, "job_name": words.job,
              "request_id": f"{words.study}/{words.job}" if words.job else None}
    try:
        with _client(words) as client:
            stored = client.report_job(stated, deadline=words.deadline)
    except MeshwrightError as error:
        print(f"meshwright: {error}", file=sys.stderr)
        return _INVALID_INPUT if error.is_mistake else _UNAVAILABLE
    print(stored.report.id)
    return 0


def main(arguments: Optional[List[str]] = None) -> int:
    parser = _parser()
    words = parser.parse_args(arguments)
    logging.basicConfig(format="meshwright: %(message)s")
    try:
        return _ask(words) if words.command == "ask" else _report(words)
    except ValueError as error:  # of the client's options
        parser.error(str(error))


if __name__ == "__main__":
    sys.exit(main())
