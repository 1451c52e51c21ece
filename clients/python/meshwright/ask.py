"""Asks for a plan before a job is launched, for scripts of jobs.

    python3 -m meshwright.ask --server HOST:PORT --model config.json --workload workload.json \\
        --cluster cluster.json --own-flags '--tensor-model-parallel-size 8'

Prints lines that a shell can evaluate:

    MESHWRIGHT_FLAGS='...'     the flags to launch with: the server's, or those of --own-flags
    MESHWRIGHT_SOURCE=server   own: launch as without Meshwright
    MESHWRIGHT_REASON=''       why there are only the own flags, such as UNAVAILABLE
    MESHWRIGHT_STUDY=...       the study to report the result to; empty: none

Exits with 0 whenever the job can be launched, also without an answer. Exits with 3 if the question
has a mistake and with 4 if no plan fits, unless --launch-anyway is stated.
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
from .decision import Decision
from .errors import FieldMistake, MeshwrightError, NoFeasiblePlan, invalid_request
from .questions import Question, question

# The exit codes of the command line (docs/reference/exit_codes.md).
_INVALID_INPUT = 3
_INFEASIBLE = 4


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m meshwright.ask", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True, metavar="ADDRESS", help="HOST:PORT or unix:/PATH")
    parser.add_argument("--model", required=True, metavar="FILE", help="config.json, or a model in JSON")
    parser.add_argument("--workload", required=True, metavar="FILE", help="a workload in JSON")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--cluster", metavar="FILE", help="a cluster in JSON")
    where.add_argument("--chip", metavar="NAME", help="equal nodes of this chip instead of --cluster")
    parser.add_argument("--nodes", type=int, help="with --cluster: the number of nodes of its first pool")
    parser.add_argument("--own-flags", default="", help="launch flags that the job has without an answer")
    parser.add_argument("--own-plan", metavar="FILE", help="the same plan in JSON: the baseline of the question")
    parser.add_argument("--framework", default="", help="the framework whose flags are printed")
    parser.add_argument("--deadline", type=float, default=10.0, metavar="SECONDS", help="default: %(default)s")
    parser.add_argument("--launch-anyway", action="store_true", help="also exit with 0 after a mistake")
    parser.add_argument("--token-file", default=os.environ.get("MESHWRIGHT_TOKEN_FILE"), metavar="FILE",
                        help="default: $MESHWRIGHT_TOKEN_FILE")
    parser.add_argument("--tls-ca", metavar="FILE")
    parser.add_argument("--tls-cert", metavar="FILE")
    parser.add_argument("--tls-key", metavar="FILE")
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


def _question(words: argparse.Namespace) -> Question:
    return question(words.model, words.workload, _cluster(words))


def _decide(words: argparse.Namespace) -> Decision:
    own_plan = _json(words.own_plan, "own_plan") if words.own_plan else None
    with Client(words.server, token_file=words.token_file, ca=words.tls_ca, cert=words.tls_cert,
                key=words.tls_key) as client:
        return client.recommend_or(own_plan, _question(words), deadline=words.deadline)


def _print(flags: str, source: str, reason: str, study: str) -> None:
    for name, value in (("FLAGS", flags), ("SOURCE", source), ("REASON", reason), ("STUDY", study)):
        print(f"MESHWRIGHT_{name}={shlex.quote(value)}")


def main(arguments: Optional[List[str]] = None) -> int:
    words = _parser().parse_args(arguments)
    logging.basicConfig(format="meshwright: %(message)s")
    try:
        decision = _decide(words)
    except ValueError as error:
        _parser().error(str(error))
    except MeshwrightError as error:
        print(f"meshwright: {error}", file=sys.stderr)
        if not words.launch_anyway:
            return _INFEASIBLE if isinstance(error, NoFeasiblePlan) else _INVALID_INPUT
        _print(words.own_flags, "own", error.reason, "")
        return 0
    flags = decision.flags(words.framework)
    if flags is None and not decision.is_own:
        names = ", ".join(decision.answer.result.plans[0].exports) if decision.answer else ""
        logging.getLogger("meshwright").warning(
            "launching with the job's own flags: the answer has no flags for '%s', only for: %s", words.framework, names)
        _print(words.own_flags, "own", "NO_FLAGS", "")
        return 0
    if flags is None:
        _print(words.own_flags, "own", decision.reason, "")
        return 0
    joined = " ".join(line.rstrip("\\ ") for line in flags.splitlines())
    _print(joined, "server", "", decision.study_id)
    return 0


if __name__ == "__main__":
    sys.exit(main())
