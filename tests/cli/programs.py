"""Shared by the tests of the programs: NAME_test.py MESHWRIGHT MESHWRIGHTD EXAMPLES"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.request

MESHWRIGHT, MESHWRIGHTD, EXAMPLES = (pathlib.Path(arg).resolve() for arg in sys.argv[1:4])
LLAMA = EXAMPLES / "llama2-70b"

TINY_MODEL = {
    "name": "tiny", "layer_count": 8, "hidden_size": 2048, "ffn_hidden_size": 5504,
    "attention_head_count": 16, "kv_head_count": 16, "head_dim": 128, "vocab_size": 32000,
    "mlp": "swiglu", "norm": "rmsnorm", "tied_embeddings": False}
# Fits no eight devices, and has few layers because every one of its plans must be looked at.
BIG_MODEL = {
    **TINY_MODEL, "name": "big", "layer_count": 8, "hidden_size": 32768, "ffn_hidden_size": 131072,
    "attention_head_count": 256, "kv_head_count": 256}
TINY_WORKLOAD = {"sequence_length": 2048, "global_batch_size": 64,
                 "framework": {"name": "megatron-core"}}
TINY_CLUSTER = {"name": "a100x8", "pools": [
    {"name": "a", "chip": "nvidia-a100-sxm4-80gb", "node_count": 1, "devices_per_node": 8}]}
TINY_PLAN = {"tensor_parallel": 2, "pipeline_parallel": 2, "micro_batch_size": 1, "zero_stage": 1}

# The two fields of an answer in JSON in which answers to equal questions differ.
OWN_FIELDS = re.compile(r'"(study_id|seconds)": [^,\n]*')


def alike(answer):
    """Returns an answer in JSON without what differs between answers to equal questions."""
    return OWN_FIELDS.sub("", answer)


def ask(http, path, body=None, method=None):
    """Returns the JSON that a server answers to a request over HTTP."""
    request = urllib.request.Request(http + path, json.dumps(body).encode() if body is not None else None,
                                     headers={"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


# The fields that the contract promises for an estimate.
ESTIMATE_KEYS = {
    "step_time_seconds", "step_time_low_seconds", "step_time_high_seconds",
    "tokens_per_second_per_device", "model_flops_utilization_ratio", "peak_memory_bytes",
    "reserved_memory_bytes", "memory_capacity_bytes", "fits", "fit_probability_ratio",
    "breakdown_seconds", "memory_breakdown_bytes", "tier", "provenance", "applied_defaults",
    "warnings"}
PLAN_KEYS = {
    "tensor_parallel", "sequence_parallel", "pipeline_parallel", "virtual_pipeline",
    "data_parallel", "context_parallel", "context_parallel_kind", "expert_parallel",
    "expert_tensor_parallel", "micro_batch_size", "zero_stage", "zero_group_size", "schedule",
    "recompute", "layers_per_stage", "optimizer_offload_ratio", "stages", "rank_order",
    "activation_offload_ratio", "pools"}


def case(**changes):
    return {"id": "1", "model": TINY_MODEL, "workload": TINY_WORKLOAD, "cluster": TINY_CLUSTER,
            "plan": TINY_PLAN, **changes}


class Folder(unittest.TestCase):
    """A folder of its own, which is also the home of the programs."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="meshwright-cli-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.store = self.folder / "state" / "meshwright" / "history.db"

    def write(self, name, content):
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    def run_cli(self, *args, text_in="", expect=0, seconds=600, columns=100):
        environment = {**os.environ, "XDG_STATE_HOME": str(self.folder / "state"), "COLUMNS": str(columns)}
        done = subprocess.run([MESHWRIGHT, *args], input=text_in, capture_output=True, text=True,
                              env=environment, timeout=seconds, check=False)
        self.assertEqual(done.returncode, expect, done.stdout[-2000:] + done.stderr[-2000:])
        return done

    def question(self, model=None, workload=None, cluster=None):
        return ["--model", self.write("model.json", model or TINY_MODEL),
                "--workload", self.write("workload.json", workload or TINY_WORKLOAD),
                "--cluster", self.write("cluster.json", cluster or TINY_CLUSTER)]

    def certificate(self, name, authority=None, has_address=True):
        """Makes a key and a certificate, which signs itself unless an authority does. It names this
        machine's address unless it is for a client."""
        key, file = str(self.folder / f"{name}.key"), str(self.folder / f"{name}.pem")
        signer = ["-CA", f"{authority}.pem", "-CAkey", f"{authority}.key"] if authority else []
        request = str(self.folder / f"{name}.csr")
        names = self.write(f"{name}.ext", "subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        for command in (
                ["req", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-subj", f"/CN={name}",
                 *(["-out", request] if authority else ["-x509", "-out", file, "-days", "2"])],
                ["x509", "-req", "-in", request, *signer, "-CAcreateserial", "-out", file, "-days",
                 "2", *(["-extfile", names] if has_address else [])] if authority else None):
            if command:
                subprocess.run(["openssl", *command], check=True, capture_output=True)
        return key, file

    def start_server(self):
        """Starts a server and returns its address."""
        server = subprocess.Popen(
            [MESHWRIGHTD, "--listen", "127.0.0.1:0", "--db", str(self.folder / "server.db")],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

        def stop():
            server.terminate()
            server.wait(timeout=30)
            server.stdout.close()
        self.addCleanup(stop)
        return re.fullmatch(r"listening on (\S+)\n", server.stdout.readline()).group(1)
