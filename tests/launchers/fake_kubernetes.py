"""An API server of Kubernetes with its controllers, small enough for tests.

    fake_kubernetes.py SCRIPT.json

Objects of any kind are created, read, listed by labels, patched and deleted as the public
documentation of Kubernetes 1.31 describes it. Jobs, and the jobs of Volcano and of Kubeflow's
operators, get pods. A pod runs its container's command as a process of this machine. SCRIPT.json
says what goes wrong:

    token   that each request must bear
    faults  [{method, path, status, message, times, hold, apply, close}]: answers to the first requests whose path
            holds `path`; with hold there is none until the client closes the connection, with apply the request
            is carried out all the same, with close the connection is cut
    pods    {"0": {place, start, status, keep}}: for the pod with that number (or "all"): if it finds a node and
            begins, and a status that it gets once it has begun; its process is then killed unless keep
    kueue   {admit, most_nodes, preempt}: Kueue: if it admits jobs (true) and then preempts them (false)
    stuck   pods of deleted jobs never end

PATCH /script changes it while the server runs. It prints its URL, and ends with everything that it started when its standard input is closed.
"""
import copy
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TICK = 0.02
MPIRUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake_mpirun.py")
NODES = ["n1", "n2", "n3"]
BATCH = "/apis/batch/v1"
VOLCANO = "/apis/batch.volcano.sh/v1alpha1"
PYTORCH = "/apis/kubeflow.org/v1"
MPI = "/apis/kubeflow.org/v2beta1"
TRAINER = "/apis/trainer.kubeflow.org/v1alpha1"
KUEUE = "/apis/kueue.x-k8s.io/v1beta1"

lock = threading.RLock()
script = {}
store = {}  # (path of the API, plural) -> {name: object}
processes = {}  # name of a pod -> Process
requests = []  # (method, path)
rounds = 0  # number of times that the controllers ran


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def merge(target, patch):
    """Merges a patch as RFC 7386 says."""
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict) and isinstance(target.get(key), dict):
            merge(target[key], value)
        else:
            target[key] = copy.deepcopy(value)


def set_condition(thing, kind, status, reason="", message=""):
    conditions = thing.setdefault("status", {}).setdefault("conditions", [])
    conditions[:] = [c for c in conditions if c["type"] != kind]
    conditions.append({"type": kind, "status": status, "reason": reason, "message": message})


def condition(thing, kind):
    for each in thing.get("status", {}).get("conditions", []):
        if each["type"] == kind and each["status"] == "True":
            return each
    return None


# Pods ---------------------------------------------------------------------------------------------------------


def expand(text, variables):
    """Replaces $(NAME) and $$, as the kubelet does."""
    def one(match):
        if match.group(0) == "$$":
            return "$"
        return variables.get(match.group(1), match.group(0))
    return re.sub(r"\$\$|\$\(([^)]*)\)", one, text)


class Process:
    def __init__(self, pod, extra):
        container = pod["spec"]["containers"][0]
        variables = {"PATH": os.environ["PATH"]}
        for each in container.get("env", []) + [{"name": k, "value": v} for k, v in extra.items()]:
            variables[each["name"]] = expand(each["value"], variables)
        words = [expand(word, variables) for word in container["command"]]
        self.begin, self.start_time = time.monotonic(), now()
        self.term = None
        self.child = subprocess.Popen(words, env=variables, start_new_session=True, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def code(self):
        code = self.child.poll()
        if code is not None:
            self.kill()
            return 128 - code if code < 0 else code
        if self.term is not None and time.monotonic() - self.term > 30:
            self.kill()
        return None

    def end(self):
        if self.term is None:
            self.term = time.monotonic()
            self.child.send_signal(signal.SIGTERM)

    def kill(self):
        try:
            os.killpg(self.child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.child.wait()


def behaviour(pod):
    pods = script.get("pods", {})
    return pods.get(pod["metadata"]["annotations"]["index"], pods.get("all", {}))


def place(pod):
    excluded = []
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    for term in affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", []):
        excluded += [field["values"][0] for field in term["matchFields"] if field["operator"] == "NotIn"]
    free = [node for node in NODES if node not in excluded]
    index = int(pod["metadata"]["annotations"]["index"])
    if free:
        pod["spec"]["nodeName"] = free[index % len(free)]


def is_over(pod):
    return pod["status"]["phase"] in ("Succeeded", "Failed")


def finish(pod, code, start_time):
    reason = "Completed" if code == 0 else "Error"
    pod["status"]["phase"] = "Succeeded" if code == 0 else "Failed"
    pod["status"]["containerStatuses"] = [
        {"name": "main", "state": {"terminated": {"exitCode": code, "reason": reason, "startedAt": start_time,
                                                  "finishedAt": now()}}}]


def tick_pod(pod, extra):
    acts = behaviour(pod)
    name = pod["metadata"]["name"]
    process = processes.get(name)
    if is_over(pod):
        return
    if process is None:
        if pod["metadata"].get("deletionTimestamp"):
            pod["status"]["phase"] = "Failed"
        elif not acts.get("start", True):
            if acts.get("place", True):
                place(pod)
            merge(pod["status"], acts.get("status", {}))
        else:
            place(pod)
            processes[name] = Process(pod, extra)
            pod["status"].update(phase="Running", containerStatuses=[{"name": "main", "state": {"running": {}}}])
        return
    lived = time.monotonic() - process.begin
    if "status" in acts:
        merge(pod["status"], acts["status"])
        if not acts.get("keep", False):
            process.kill()
            return
    if script.get("stuck", False):
        return
    if lived >= pod["spec"].get("activeDeadlineSeconds", 1e9) or pod["metadata"].get("deletionTimestamp"):
        process.end()
    code = process.code()
    if code is not None:
        finish(pod, code, process.start_time)
        if lived >= pod["spec"].get("activeDeadlineSeconds", 1e9):
            pod["status"].update(reason="DeadlineExceeded",
                                 message="Pod was active on the node longer than the specified deadline")


# Kinds of jobs ------------------------------------------------------------------------------------------------
# pods: (suffix of the name, index, template, environment) of each.


def pods_of_job(name, spec):
    return [(f"-{i}-abcde", i, spec["template"], {"JOB_COMPLETION_INDEX": str(i)}) for i in range(spec["completions"])]


def pods_of_volcano(name, spec):
    task = spec["tasks"][0]
    return [(f"-node-{i}", i, task["template"], {"VC_TASK_INDEX": str(i)}) for i in range(task["replicas"])]


def pods_of_pytorch(name, spec):
    roles = spec["pytorchReplicaSpecs"]
    pods = [("-master-0", 0, roles["Master"]["template"], {"RANK": "0"})]
    for i in range(roles["Worker"]["replicas"]):
        pods.append((f"-worker-{i}", i + 1, roles["Worker"]["template"], {"RANK": str(i + 1)}))
    return pods


def pods_of_mpi(name, spec):
    template = copy.deepcopy(spec["mpiReplicaSpecs"]["Launcher"]["template"])
    container = template["spec"]["containers"][0]
    words = container["command"]
    workers = spec["mpiReplicaSpecs"]["Worker"]["replicas"]
    container["command"] = [sys.executable, MPIRUN, str(workers)] + words[words.index("env"):]
    return [("-launcher-abcde", 0, template, {})]


def pods_of_trainer(name, spec):
    trainer = spec["trainer"]
    patch = spec["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"][0]
    template = copy.deepcopy(patch["template"]["spec"]["template"])
    template["spec"]["containers"] = [{"command": trainer["command"], "env": trainer["env"]}]
    return [(f"-node-0-{i}-abcde", i, template, {"JOB_COMPLETION_INDEX": str(i)}) for i in range(trainer["numNodes"])]


def by_conditions(success):
    def report(job, state, disruption):
        if state == "Succeeded":
            set_condition(job, success, "True", success)
        elif state == "Failed" and disruption is not None and job["kind"] == "Job":
            set_condition(job, "Failed", "True", "PodFailurePolicy", "Pod has condition DisruptionTarget")
        elif state == "Failed":
            set_condition(job, "Failed", "True", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    return report


def by_phase(job, state, disruption):
    phase = {"Succeeded": "Completed", "Failed": "Terminated"}.get(state, state)
    job.setdefault("status", {})["state"] = {"phase": phase}


KINDS = {
    (BATCH, "jobs"): ("job-name", pods_of_job, by_conditions("Complete")),
    (VOLCANO, "jobs"): ("volcano.sh/job-name", pods_of_volcano, by_phase),
    (PYTORCH, "pytorchjobs"): ("training.kubeflow.org/job-name", pods_of_pytorch, by_conditions("Succeeded")),
    (MPI, "mpijobs"): ("training.kubeflow.org/job-name", pods_of_mpi, by_conditions("Succeeded")),
    (TRAINER, "trainjobs"): ("jobset.sigs.k8s.io/jobset-name", pods_of_trainer, by_conditions("Complete")),
}


def suspension(job):
    return job["spec"] if "suspend" in job["spec"] else job["spec"].get("runPolicy", {})


def make_pods(job, label, wanted):
    pods = store.setdefault(("/api/v1", "pods"), {})
    for suffix, index, template, _ in wanted:
        name = job["metadata"]["name"] + suffix
        if name in pods:
            continue
        labels = dict(template.get("metadata", {}).get("labels", {}))
        labels[label] = job["metadata"]["name"]
        pods[name] = {
            "metadata": {"name": name, "labels": labels, "annotations": {"index": str(index)}},
            "spec": copy.deepcopy(template["spec"]),
            "status": {"phase": "Pending"}}


def remove_pods(pods):
    """Removes pods. Returns True if none is left."""
    for pod in pods:
        pod["metadata"]["deletionTimestamp"] = now()
        if is_over(pod):
            del store[("/api/v1", "pods")][pod["metadata"]["name"]]
    return not pods


def tick_job(key, job):
    label, pods_of, report = KINDS[key]
    name = job["metadata"]["name"]
    wanted = pods_of(name, job["spec"])
    pods = [pod for pod in store.get(("/api/v1", "pods"), {}).values() if pod["metadata"]["labels"].get(label) == name]
    extra = {name + suffix: variables for suffix, _, _, variables in wanted}
    for pod in pods:
        tick_pod(pod, extra[pod["metadata"]["name"]])
    if job["metadata"].get("deletionTimestamp"):
        if remove_pods(pods):
            del store[key][name]
        return
    if condition(job, "Failed") or condition(job, "Complete"):
        return
    if suspension(job).get("suspend", False):
        remove_pods(pods)
        set_condition(job, "Suspended", "True", "JobSuspended", "Job suspended")
        return
    set_condition(job, "Suspended", "False", "JobResumed", "Job resumed")
    failed = [pod for pod in pods if pod["status"]["phase"] == "Failed"]
    if not failed and len(pods) < len(wanted):
        make_pods(job, label, wanted)
        report(job, "Pending", None)
    elif failed and all(is_over(pod) for pod in pods):
        remove_pods([pod for pod in pods if pod["metadata"].get("deletionTimestamp")])
        report(job, "Failed", next((c for c in map(lambda p: condition(p, "DisruptionTarget"), failed) if c), None))
    elif failed:
        for pod in pods:
            if not is_over(pod):
                pod["metadata"]["deletionTimestamp"] = now()
    elif all(is_over(pod) for pod in pods):
        report(job, "Succeeded", None)
    else:
        report(job, "Running" if all(p["status"]["phase"] != "Pending" for p in pods) else "Pending", None)


def tick_kueue(key, job):
    acts = script["kueue"]
    if "kueue.x-k8s.io/queue-name" not in job["metadata"].get("labels", {}):
        return
    workloads = store.setdefault((KUEUE, "workloads"), {})
    uid = job["metadata"]["uid"]
    workload = workloads.setdefault("job-" + uid, {"metadata": {"labels": {"kueue.x-k8s.io/job-uid": uid}}})
    workers = job["spec"].get("mpiReplicaSpecs", {}).get("Worker", {})
    nodes = workers.get("replicas", len(KINDS[key][1](job["metadata"]["name"], job["spec"])))
    if nodes > acts.get("most_nodes", 1000):
        set_condition(workload, "QuotaReserved", "False", "Pending",
                      "couldn't assign flavors to pod set main: insufficient quota for example.com/gpu in flavor "
                      f"default, request > maximum capacity ({nodes} > {acts['most_nodes']})")
    elif acts.get("preempt", False):
        suspension(job)["suspend"] = True
        set_condition(workload, "Evicted", "True", "Preempted", "Preempted to accommodate a workload")
    elif acts.get("admit", True):
        suspension(job)["suspend"] = False
        set_condition(workload, "QuotaReserved", "True", "QuotaReserved")
        set_condition(workload, "Admitted", "True", "Admitted")
    else:
        set_condition(workload, "QuotaReserved", "False", "Pending",
                      "couldn't assign flavors to pod set main: insufficient unused quota for example.com/gpu in "
                      "flavor default, 1 more needed")


def control():
    global rounds
    while True:
        with lock:
            for key in KINDS:
                for job in list(store.get(key, {}).values()):
                    if "kueue" in script:
                        tick_kueue(key, job)
                    tick_job(key, job)
            rounds += 1
        time.sleep(TICK)


# Requests -----------------------------------------------------------------------------------------------------


def selected(thing, selector):
    labels = thing["metadata"].get("labels", {})
    among = re.fullmatch(r"(\S+) in \(([^)]*)\)", selector)
    if among:
        return labels.get(among.group(1)) in among.group(2).split(",")
    key, _, value = selector.partition("=")
    return selector == "" or labels.get(key) == value


def texts_alone(container):
    words = container.get("command", []) + [each["value"] for each in container.get("env", [])]
    return all(isinstance(word, str) for word in words)


def is_valid(thing):
    """Returns False for values that JSON allows but no API server accepts."""
    def check(value):
        if isinstance(value, dict):
            return ("command" not in value or texts_alone(value)) and all(check(each) for each in value.values())
        if isinstance(value, list):
            return all(check(each) for each in value)
        return value is not None and not (isinstance(value, str) and re.search(r"(?<!\$)\$\{[a-z_]+\}", value))
    return check(thing)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, content):
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def refuse(self, status, message, reason=""):
        self.answer(status, {"kind": "Status", "status": "Failure", "message": message, "reason": reason,
                             "code": status})

    def fault(self, method, path):
        with lock:
            for each in script.get("faults", []):
                if each.get("times", 1) > 0 and each.get("method", method) == method and each.get("path", "") in path:
                    each["times"] = each.get("times", 1) - 1
                    return each
        return None

    def serve(self):
        url = urllib.parse.urlparse(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if url.path in ("/requests", "/rounds", "/script"):  # used by the tests
            with lock:
                merge(script, json.loads(body or "{}") if url.path == "/script" else {})
            return self.answer(200, {"/requests": requests, "/rounds": rounds, "/script": script}[url.path])
        requests.append([self.command, url.path])
        if "token" in script and self.headers.get("Authorization") != "Bearer " + script["token"]:
            return self.refuse(401, "Unauthorized", "Unauthorized")
        fault = self.fault(self.command, url.path)
        if fault is not None:
            if fault.get("hold", False):
                self.connection.recv(1)  # returns when the client gives up
                self.close_connection = True
                return None
            if fault.get("apply", False):
                self.answer = lambda *_: None
                self.carry_out(url, body)
                del self.answer
            if fault.get("close", False):
                self.close_connection = True
                return None
            return self.refuse(fault["status"], fault.get("message", "injected"))
        return self.carry_out(url, body)

    do_GET = do_POST = do_PATCH = do_DELETE = serve

    def carry_out(self, url, body):
        match = re.fullmatch(r"(/api/v1|/apis/[^/]+/[^/]+)/namespaces/([^/]+)/([^/]+)(?:/([^/]+))?(/status)?", url.path)
        if match is None:
            return self.refuse(404, "the server could not find the requested resource", "NotFound")
        api, _, plural, name, _ = match.groups()
        content = json.loads(body) if body else {}
        with lock:
            things = store.setdefault((api, plural), {})
            if self.command == "POST":
                return self.create(things, plural, content)
            if name is None:
                selector = urllib.parse.parse_qs(url.query).get("labelSelector", [""])[0]
                return self.answer(200, {"kind": "List", "items": [t for t in things.values() if selected(t, selector)]})
            if name not in things:
                return self.refuse(404, f'{plural} "{name}" not found', "NotFound")
            thing = things[name]
            if self.command == "PATCH":
                merge(thing, content)
            elif self.command == "DELETE":
                if content.get("propagationPolicy") != "Foreground":
                    return self.refuse(400, "only foreground deletion is known here")
                thing["metadata"].setdefault("deletionTimestamp", now())
                if (api, plural) not in KINDS:
                    del things[name]
            return self.answer(200, thing)

    def create(self, things, plural, content):
        name = content["metadata"]["name"]
        if name in things:
            return self.refuse(409, f'{plural} "{name}" already exists', "AlreadyExists")
        if not is_valid(content):
            return self.refuse(422, f'{plural} "{name}" is invalid', "Invalid")
        content["metadata"].update(uid=str(uuid.uuid4()), creationTimestamp=now())
        things[name] = content
        return self.answer(201, content)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        script.update(json.load(file))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    tls = script.get("tls")  # paths of a certificate and its key
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls["certificate"], tls["key"])
        server.socket = context.wrap_socket(server.socket, server_side=True)
    for target in (server.serve_forever, control):
        threading.Thread(target=target, daemon=True).start()
    print(f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}", flush=True)
    sys.stdin.read()
    with lock:
        for process in processes.values():
            process.kill()
        sys.stdout.flush()
        os._exit(0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
