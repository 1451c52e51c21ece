#!/usr/bin/env python3
"""Fits how far each source of a step's time may be from its estimate (estimator/learning/uncertainty.cc).

    scripts/fit_uncertainty.py BIN

The runs are those that no comparison of plans is judged by (`decide.py` leaves them out): nanotron
up to 16 nodes, jobs that were measured under only two plans, and the fresh runs. For two plans of a
job, log(measured ratio / estimated ratio) has variance

    sum over sources (sigma_source (share_a - share_b))^2 + 2 plan^2 (1 - likeness) + 2 noise^2

with the shares of the breakdown, and `plan`, `noise` and the likeness of learning from runs. It
prints the likeliest two sigmas of a coarse grid, one for the two exchanges across nodes and one for
every other source, under Student's t with 4
degrees of freedom, and how fast the likelihood falls beside them. Every job counts as its number of
plans. It needs python3-numpy; the exam is found as scripts/accuracy.sh finds it.
"""
import argparse
import collections
import itertools
import json
import os

import numpy as np

import exam

EXCHANGES = ["tensor_parallel", "context_parallel", "data_parallel", "pipeline_p2p"]
SOURCES = {  # a plus marks groups that span nodes
    "kernels": ["matmul", "attention", "memory_bound", "vocabulary", "recompute", "optimizer"],
    "exchange": EXCHANGES,
    "exchange across nodes": [cause + "+" for cause in EXCHANGES],
    "experts": ["expert_parallel"],
    "experts across nodes": ["expert_parallel+"],
    "bubble": ["pipeline_bubble"],
    "host": ["host", "fixed", "activation_offload"],
}
GRID = [0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8]
PLAN, NOISE, REACH, FREEDOM = 0.05, 0.02, 1.5, 4
NODES = 16  # nanotron's larger runs shared a congested network
OWN_NOISE = {"nanotron": 0.1}  # by its repeats of one plan


def crosses(cause, plan, per_node):
    """Returns whether the groups of a cause span nodes, with the usual order of ranks."""
    inner = plan["tensor_parallel"] * plan["context_parallel"]
    return {"tensor_parallel": plan["tensor_parallel"], "context_parallel": inner,
            "expert_parallel": plan.get("expert_parallel", 1) * plan.get("expert_tensor_parallel", 1),
            "data_parallel": inner * plan["data_parallel"],
            "pipeline_p2p": inner * plan["data_parallel"] * plan["pipeline_parallel"]}[cause] > per_node


def run_of(source, group, case, answer, seconds):
    plan, work = case["plan"], case["workload"]
    per_node = case["cluster"]["pools"][0].get("devices_per_node", 8)
    shares = {}
    for cause, part in answer["breakdown_seconds"].items():
        far = cause in (*EXCHANGES, "expert_parallel") and crosses(cause, plan, per_node)
        shares[cause + "+" if far else cause] = part / answer["step_time_seconds"]
    per_rank = plan["tensor_parallel"] * plan["context_parallel"]
    elements = plan["micro_batch_size"] * work["sequence_length"] * case["model"]["hidden_size"] / per_rank
    return {"source": source, "group": group, "error": np.log(seconds / answer["step_time_seconds"]),
            "shares": shares,
            "point": np.log2([max(1, elements), plan["tensor_parallel"], plan["pipeline_parallel"]])}


def measured(score, program, folder):
    """Returns the runs of the exam that decide.py does not judge."""
    items = [i for i in score.load(folder, None) if i["case"]]
    counts = collections.Counter(i["group"] for i in items)
    free = [i for i in items if i["time"] and (
        i["case"]["cluster"]["pools"][0]["node_count"] <= NODES if i["source"] == "nanotron" else counts[i["group"]] < 3)]
    answers, _ = score.evaluate(program, [i["case"] for i in free])
    return [run_of(i["source"], i["group"], i["case"], answers[i["case"]["id"]], i["time"])
            for i in free if "step_time_seconds" in answers.get(i["case"]["id"], {})]


def fresh(score, program, path):
    with open(path) as lines:
        rows = [json.loads(line) for line in lines]
    rows = [r for r in rows if not r["other_plans"]]
    cases = [{"id": str(k), **{part: r[part] for part in ("model", "workload", "cluster", "plan")}} for k, r in enumerate(rows)]
    answers, _ = score.evaluate(program, cases)
    runs = []
    for k, row in enumerate(rows):
        answer = answers.get(str(k), {})
        if "step_time_seconds" not in answer:
            continue
        group = json.dumps([row[part] for part in ("model", "workload", "cluster")], sort_keys=True)
        plan = {"context_parallel": 1, "pipeline_parallel": 1, "tensor_parallel": 1, "micro_batch_size": 1, **row["plan"]}
        runs.append(run_of(row["source"], group, {**cases[k], "plan": plan}, answer, row["measured_step_time_seconds"]))
    return runs


def differences(a, b):
    """Returns the sums of squared differences of the sources' shares: across nodes, and all others."""
    sums = [0.0, 0.0]
    for source, causes in SOURCES.items():
        difference = sum(a.get(cause, 0) - b.get(cause, 0) for cause in causes)
        sums[0 if source.endswith("across nodes") else 1] += difference**2
    return sums


class Pairs:
    def __init__(self, runs):
        groups = collections.defaultdict(list)
        for run in runs:
            groups[run["source"], run["group"]].append(run)
        rows = []
        for members in groups.values():
            count = len(members) * (len(members) - 1) / 2
            for a, b in itertools.combinations(members, 2):
                rows.append((a["error"] - b["error"], differences(a["shares"], b["shares"]),
                             np.exp(-np.sum(((a["point"] - b["point"]) / REACH) ** 2) / 2), a["source"], (len(members) - 1) / count))
        self.error = np.array([r[0] for r in rows])
        self.share = np.array([r[1] for r in rows])
        self.likeness = np.array([r[2] for r in rows])
        self.sources = sorted({r[3] for r in rows})
        self.source = np.array([self.sources.index(r[3]) for r in rows])
        self.weight = np.array([r[4] for r in rows])
        # No source outweighs the others by its number of runs alone.
        for k in range(len(self.sources)):
            own = self.source == k
            self.weight[own] /= np.sqrt(self.weight[own].sum())

        self.noise = np.array([OWN_NOISE.get(source, NOISE) for source in self.sources])[self.source]

    def loss(self, across, others):
        """Returns minus the logarithm of the likelihood, but for a constant."""
        variance = self.share @ [across**2, others**2] + 2 * PLAN**2 * (1 - self.likeness) + 2 * self.noise**2
        density = 0.5 * np.log(variance) + (FREEDOM + 1) / 2 * np.log1p(self.error**2 / variance / FREEDOM)
        return float(self.weight @ density)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    args = parser.parse_args()
    score, folder = exam.load()
    runs = measured(score, args.bin, folder)
    runs += fresh(score, args.bin, os.path.join(folder, "..", "fresh", "measured_cases.jsonl"))
    pairs = Pairs(runs)
    least, across, others = min((pairs.loss(a, o), a, o) for a in GRID for o in GRID)
    print(f"{len(pairs.error)} pairs of {len(pairs.sources)} sources: across nodes {across}, others {others}")
    print("log-likelihood below the best, across nodes:", "  ".join(f"{a}: {pairs.loss(a, others) - least:.2f}" for a in GRID))
    print("log-likelihood below the best, others:", "  ".join(f"{o}: {pairs.loss(across, o) - least:.2f}" for o in GRID))


if __name__ == "__main__":
    main()
