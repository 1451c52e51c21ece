"""FlagScale's problems on a simulated cluster, which is our model with a hidden error; called by
scripts/replay.sh --simulated.

The spaces are those of FlagScale's shipped examples in our terms: sizes 1, 2, 4, 8 of tensor and
pipeline parallelism and of the micro-batch (and of expert parallelism), distributed optimizer,
sequence parallelism, chunks per stage, and recomputation of none, selective or 1 .. all layers of a
stage.
"""
import itertools
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile

import competitors

SIZES = (1, 2, 4, 8)
TRIALS, SEEDS, WITHIN = 40, 5, (1.03, 1.01)
AIM = 10  # trials; draws that take more are explained
# The hidden error of time and of memory: standard deviations of the parts that all plans share,
# that neighbours share, and that belong to one plan; then the share of plans that crash.
TIME, MEMORY, CRASHES = (0.12, 0.06, 0.015), (0.06, 0.03, 0.01), 0.02
COSINES, LENGTH = 128, 2.0

LLAMA = {"mlp": "swiglu", "norm": "rmsnorm", "tied_embeddings": False, "head_dim": 128}
SEVEN = {**LLAMA, "name": "7b", "layer_count": 32, "hidden_size": 4096, "ffn_hidden_size": 11008,
         "attention_head_count": 32, "kv_head_count": 32, "vocab_size": 32000}
SEVENTY = {**LLAMA, "name": "70b", "layer_count": 80, "hidden_size": 8192, "ffn_hidden_size": 28672,
           "attention_head_count": 64, "kv_head_count": 8, "vocab_size": 32000}
EXPERTS = {**LLAMA, "name": "moe-16b", "layer_count": 27, "hidden_size": 2048, "ffn_hidden_size": 10944,
           "attention_head_count": 16, "kv_head_count": 16, "vocab_size": 102400,
           "moe": {"expert_count": 64, "experts_per_token": 6, "expert_ffn_hidden_size": 1408,
                   "shared_expert_ffn_hidden_size": 2816, "first_dense_layer_count": 1},
           "mla": {"q_lora_rank": 0, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
                   "v_head_dim": 128}}
# name, model, devices, global batch, plans and trials of FlagScale's own loop with its memory model
PROBLEMS = (("7B on 8", SEVEN, 8, 256, 1224, 64), ("7B on 32", SEVEN, 32, 256, 1809, 87),
            ("MoE 16B on 64", EXPERTS, 64, 512, 3476, 135), ("70B on 128", SEVENTY, 128, 1024, 3536, 57))


def recomputations(layers_a_stage, stages):
    yield {"granularity": "none"}
    yield {"granularity": "selective"}
    for count in range(1, layers_a_stage + 1):
        yield {"granularity": "full", "layer_counts": [count] * stages}


def plans_of(model, devices, batch):
    layers = model["layer_count"]
    for tensor, pipeline, micro_batch in itertools.product(SIZES, SIZES, SIZES):
        data = devices // (tensor * pipeline)
        if data * tensor * pipeline != devices or batch % (data * micro_batch) or layers % pipeline:
            continue
        chunks = [v for v in range(1, layers // pipeline + 1) if v == 1 or (
            pipeline > 2 and "moe" not in model and layers % (pipeline * v) == 0 and
            batch // (data * micro_batch) % pipeline == 0)]
        for virtual, experts in itertools.product(chunks, SIZES if "moe" in model else (1,)):
            for recompute in recomputations(layers // pipeline, pipeline):
                yield {"tensor_parallel": tensor, "pipeline_parallel": pipeline, "data_parallel": data,
                       "micro_batch_size": micro_batch, "virtual_pipeline": virtual, "expert_parallel": experts,
                       "schedule": "interleaved_1f1b" if virtual > 1 else "1f1b", "sequence_parallel": tensor > 1,
                       "zero_stage": 1, "recompute": recompute}


class Error:
    """A smooth random function of a plan, as a sum of cosines (Rahimi and Recht 2007), plus
    noise."""

    def __init__(self, spread, draw):
        self.shared, self.neighbours, self.own = (draw.gauss(0, spread[0]), *spread[1:])
        self.waves = [([draw.gauss(0, 1 / LENGTH) for _ in range(9)], draw.uniform(0, 2 * math.pi))
                      for _ in range(COSINES)]
        self.draw = draw

    def of(self, features):
        wave = sum(math.cos(sum(f * x for f, x in zip(frequency, features)) + phase)
                   for frequency, phase in self.waves)
        return math.exp(self.shared + self.neighbours * math.sqrt(2 / COSINES) * wave + self.draw.gauss(0, self.own))


def simulated(cases, estimates, seed):
    """Returns what the cluster would measure for the legal plans."""
    draw = random.Random(seed)
    time, memory = Error(TIME, draw), Error(MEMORY, draw)
    rows = []
    for case, estimate in zip(cases, estimates):
        if "error" in estimate:
            continue
        features = competitors.features(case["plan"])
        slow, large, crash = time.of(features), memory.of(features), draw.random() < CRASHES
        if int(estimate["reserved_memory_bytes"]) * large > int(estimate["memory_capacity_bytes"]):
            rows.append({"plan": case["plan"], "outcome": "oom"})
        elif crash:
            rows.append({"plan": case["plan"], "outcome": "crash"})
        else:
            rows.append({"plan": case["plan"], "outcome": "ok",
                         "step_time_seconds": estimate["step_time_seconds"] * slow,
                         "peak_memory_bytes": int(int(estimate["peak_memory_bytes"]) * large)})
    return rows


def answer(binary, problem, rows, *more, limit=TRIALS):
    with tempfile.TemporaryDirectory() as folder:
        files = {name: pathlib.Path(folder) / name for name in ("model", "workload", "cluster")}
        for name, path in files.items():
            path.write_text(json.dumps(problem[name]))
        table = pathlib.Path(folder) / "rows"
        table.write_text("".join(json.dumps(row) + "\n" for row in rows))
        flags = [text for name, path in files.items() for text in (f"--{name}", str(path))]
        done = subprocess.run([binary, "tune", *flags, "--launcher", "replay", "--replay", table, "--max-trials",
                               str(limit), "--no-record", "--output", "json", *more],
                              capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"scripts/replay.sh: {done.stderr[-300:]}")
    return json.loads(done.stdout)


def ask(binary, problem, rows, *more, limit=TRIALS):
    return answer(binary, problem, rows, *more, limit=limit)["trials"]


def trials_until(trials, limit):
    return next((k for k, trial in enumerate(trials, 1)
                 if trial["outcome"] == "ok" and trial["step_time_seconds"] <= limit), None)


def slow_draw(cases, estimates, rows):
    """Explains why a draw takes many trials: what the model thinks of its best plan, and how good
    the model's own choice is."""
    modelled = {json.dumps(case["plan"]): estimate["step_time_seconds"] for case, estimate in zip(cases, estimates)
                if estimate.get("fits")}
    ran = {json.dumps(row["plan"]): row["step_time_seconds"] for row in rows if competitors.ran(row)}
    best = min(ran, key=ran.get)
    first = min((plan for plan in ran if plan in modelled), key=modelled.get)
    return (f"by the model the best plan is {100 * (modelled.get(best, math.inf) / modelled[first] - 1):.0f} % slower "
            f"than its first choice, which is {100 * (ran[first] / ran[best] - 1):.0f} % from the best")


def shown(counts):
    return ", ".join("-" if count is None else str(count) for count in counts)


def problem_of(name, model, devices, batch):
    return {"model": model, "workload": {"sequence_length": 4096, "global_batch_size": batch,
                                         "framework": {"name": "megatron-core"}},
            "cluster": {"name": name, "pools": [{"name": "a", "chip": "nvidia-a100-sxm4-80gb",
                                                 "node_count": devices // 8, "devices_per_node": 8}]}}


def report(binary):
    lines = ["| problem | plans, ours | its plans | its trials | ours to within 3 % | to within 1 % |",
             "|---|---|---|---|---|---|"]
    for name, model, devices, batch, its_plans, its_trials in PROBLEMS:
        problem = problem_of(name, model, devices, batch)
        cases = [{**problem, "id": str(i), "plan": plan} for i, plan in enumerate(plans_of(model, devices, batch))]
        done = subprocess.run([binary, "evaluate", "--cases", "-"], capture_output=True, text=True, check=True,
                              input="".join(json.dumps(case) + "\n" for case in cases))
        estimates = [json.loads(line) for line in done.stdout.splitlines()]
        needed = {share: [] for share in WITHIN}
        for seed in range(SEEDS):
            rows = simulated(cases, estimates, seed)
            best = min(row["step_time_seconds"] for row in rows if competitors.ran(row))
            trials = ask(binary, problem, rows)
            for share, counts in needed.items():
                counts.append(trials_until(trials, share * best))
            if (needed[WITHIN[0]][-1] or math.inf) > AIM:
                print(f"{name}, draw {seed + 1}: {slow_draw(cases, estimates, rows)}")
        lines.append(f"| {name} | {len(rows):,} | {its_plans:,} | {its_trials} | "
                     f"{shown(needed[WITHIN[0]])} | {shown(needed[WITHIN[1]])} |")
    return lines
