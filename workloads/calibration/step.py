"""Item `step`: whole training steps of a small decoder under two plans, which train_step.py runs in
separate processes. The part of their time that the other items do not explain is the
framework's."""

import json
import os
import socket
import subprocess
import sys
import tempfile

from train.attention import HAS_FUSED

from .point import Point

_PROGRAM = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "train_step.py")

_SIZES = {
    "cpu": ({"layer_count": 4, "hidden_size": 256, "ffn_hidden_size": 1024, "attention_head_count": 8,
             "kv_head_count": 8, "vocab_size": 1024, "mlp": "gelu", "norm": "layernorm"},
            {"sequence_length": 128, "precision": "fp32", "attention_kernel": "unfused"}, 4),
    "device": ({"layer_count": 4, "hidden_size": 2048, "ffn_hidden_size": 5632, "attention_head_count": 16,
                "kv_head_count": 16, "vocab_size": 32000, "mlp": "swiglu", "norm": "rmsnorm"},
               {"sequence_length": 2048, "precision": "bf16", "norm_kernel": "unfused",
                "attention_kernel": "vendor" if HAS_FUSED else "unfused"}, 2),
    "quick": ({"layer_count": 2, "hidden_size": 64, "ffn_hidden_size": 128, "attention_head_count": 8,
               "kv_head_count": 8, "vocab_size": 256, "mlp": "gelu", "norm": "layernorm"},
              {"sequence_length": 32, "precision": "fp32", "attention_kernel": "unfused"}, 2),
}
_BATCH = 16


def points(bench, _notes):
    ranks = bench.nodes[0]
    for case in cases("quick" if bench.options.quick else "cpu" if bench.module is None else "device", len(ranks)):
        port = bench.alone(_free_port)
        yield Point({"case": case, "rank_count": len(ranks)},
                    lambda case=case, port=port: _start(bench, case, ranks, port), _read, tuple(ranks))


def cases(kind, ranks):
    model, workload, micro_batch = _SIZES[kind]
    tensor = max(size for size in range(1, ranks + 1)
                 if ranks % size == 0 and model["attention_head_count"] % size == 0)
    plans = [(tensor, ranks // tensor, micro_batch), (1, ranks, micro_batch)]
    if tensor == 1:  # there is one rank, or no number of ranks divides the heads
        plans[0] = (1, ranks, micro_batch // 2)
    for tensor, data, micro_batch in plans:
        each = data * micro_batch
        yield {"model": model,
               # The batch size is as close to _BATCH as the ranks can divide it.
               "workload": {**workload, "framework": {"name": "train-step"},
                            "global_batch_size": max(1, round(_BATCH / each)) * each},
               "plan": {"tensor_parallel": tensor, "data_parallel": data, "micro_batch_size": micro_batch}}


def _free_port():
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def _start(bench, case, ranks, port):
    """Returns (process, folder of its case). Each rank starts its own process, so that the process
    runs in the same place and environment."""
    bench.release_memory()
    folder = tempfile.TemporaryDirectory(prefix="meshwright-microbench-")
    path = os.path.join(folder.name, "case.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(case, file)
    steps, warmup = (2, 1) if bench.options.quick else (5, 2)
    command = [sys.executable, _PROGRAM, "--case", path, "--steps", str(steps), "--warmup", str(warmup), "--seed",
               str(bench.options.seed), "--device", bench.row.name, "--timeout", str(bench.options.timeout)]
    return subprocess.Popen(command, env=_environment(bench, ranks, port), text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE), folder


def _environment(bench, ranks, port):
    # With torchrun's own variables, the processes would meet where the ranks of this run met.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TORCHELASTIC_")}
    return {"MASTER_ADDR": "127.0.0.1", **kept, "MASTER_PORT": str(port), "RANK": str(ranks.index(bench.rank)),
            "WORLD_SIZE": str(len(ranks)), "LOCAL_RANK": str(bench.local_rank)}


def _read(bench, prepared):
    process, folder = prepared
    with folder:
        out, errors = _wait(bench, process)
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    if process.returncode:
        said = [line["message"] for line in lines if line.get("event") == "failure"] or errors.splitlines()[-3:]
        raise RuntimeError(f"train_step.py ended with code {process.returncode}: {' '.join(said)}")
    if bench.rank != 0:
        return {}
    result = next(line for line in lines if line.get("event") == "result")
    return {name: result[name] for name in ("step_time_seconds", "step_time_low_seconds", "step_time_high_seconds",
                                            "peak_memory_bytes")}


def _wait(bench, process):
    try:
        while True:
            try:
                return process.communicate(timeout=1)
            except subprocess.TimeoutExpired:
                bench.progress()  # the training step has a watchdog of its own
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
