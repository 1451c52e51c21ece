#!/usr/bin/env python3
"""A step of a workflow: asks for a plan, and creates the training job with it.

    launch.py --server HOST:PORT --question FOLDER --chip NAME --job job.json [--namespace NAME]

The job's own plan is the value of MESHWRIGHT_FLAGS in its file. It stays if there is no answer in
time. The step asks once for all pods of the job: an init container would ask in each of them, and
could get a plan in one pod and none in another. The step can be repeated: a job of that name that
exists already is left as it is.

In a pod, the API server and the token are those of the pod's service account, which needs the right
to create jobs. Elsewhere, `kubectl proxy` and --api http://127.0.0.1:8001 do.
"""

import argparse
import json
import logging
import os
import pathlib
import ssl
import sys
import urllib.error
import urllib.request

import meshwright

ACCOUNT = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
log = logging.getLogger("launch")


def api_of_this_pod():
    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{name}") for name in ("HOST", "PORT"))
    return f"https://{host}:{port}" if host and port else None


def choose_plan(words, job):
    """Puts the flags of the answer into the job; without an answer it stays as it is."""
    folder = pathlib.Path(words.question)
    question = meshwright.question(folder / "config.json", folder / "workload.json", {
        "pools": [{"chip": words.chip, "node_count": job["spec"]["completions"]}]})
    with meshwright.Client(words.server, token_file=words.token_file, ca=words.tls_ca) as client:
        decision = client.recommend_or(None, question, deadline=words.deadline)
    flags = decision.flags()
    annotations = job["metadata"].setdefault("annotations", {})
    if flags is None:
        annotations["meshwright.io/plan"] = f"own: {decision.reason or 'NO_FLAGS'}"
        return
    annotations.update({"meshwright.io/plan": "server", "meshwright.io/study": decision.study_id})
    for container in job["spec"]["template"]["spec"]["containers"]:
        for variable in container.get("env", []):
            if variable["name"] == "MESHWRIGHT_FLAGS":
                variable["value"] = " ".join(line.rstrip("\\ ") for line in flags.splitlines())


def create(words, job):
    """Creates the job. Returns False if there is one of its name."""
    request = urllib.request.Request(
        f"{words.api}/apis/batch/v1/namespaces/{words.namespace}/jobs", json.dumps(job).encode(),
        {"Content-Type": "application/json"})
    token = pathlib.Path(words.api_token_file)
    if token.exists():
        request.add_header("Authorization", f"Bearer {token.read_text().strip()}")
    authority = ACCOUNT / "ca.crt"
    context = ssl.create_default_context(cafile=str(authority) if authority.exists() else None)
    try:
        with urllib.request.urlopen(request, timeout=30, context=context):
            return True
    except urllib.error.HTTPError as error:
        if error.code == 409:
            return False
        raise SystemExit(f"the API server refuses the job: {error.code} {error.read().decode()}") from error


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True, metavar="ADDRESS")
    parser.add_argument("--question", required=True, metavar="FOLDER", help="with config.json and workload.json")
    parser.add_argument("--chip", required=True, metavar="NAME", help="nvidia.com/gpu.product of the nodes")
    parser.add_argument("--job", required=True, metavar="FILE")
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--deadline", type=float, default=10.0, metavar="SECONDS")
    parser.add_argument("--token-file", metavar="FILE", help="of the Meshwright server")
    parser.add_argument("--tls-ca", metavar="FILE", help="of the Meshwright server")
    parser.add_argument("--api", default=api_of_this_pod(), metavar="URL")
    parser.add_argument("--api-token-file", default=ACCOUNT / "token", metavar="FILE")
    words = parser.parse_args()
    if words.api is None:
        parser.error("--api is needed outside of a pod")
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    job = json.loads(pathlib.Path(words.job).read_text(encoding="utf-8"))
    try:
        choose_plan(words, job)
    except meshwright.NoFeasiblePlan as error:
        sys.exit(f"no plan fits, so the job is not launched: {error}")
    except meshwright.MeshwrightError as error:
        log.error("launching with the job's own plan, because the question has a mistake: %s", error)
        job["metadata"].setdefault("annotations", {})["meshwright.io/plan"] = f"own: {error.reason}"
    name = job["metadata"]["name"]
    log.info("job %s %s; plan: %s", name, "created" if create(words, job) else "exists already",
             job["metadata"]["annotations"]["meshwright.io/plan"])


if __name__ == "__main__":
    main()
