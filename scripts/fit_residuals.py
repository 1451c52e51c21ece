#!/usr/bin/env python3
"""Chooses what estimator/run_residuals.* assumes before the first run, by leaving out sources of
runs.

    scripts/fit_residuals.py BIN [--draws N] [--shipped [SOURCE...]]

Prints for every source the constants that serve the other sources best, and the median and 90th
percentile (%) of the error of its step times with them, next to those without history. `warm` has
three runs of the same job and `transfer` twenty of other models, as the exam draws them. The
constants of all sources together come last. `--shipped` instead scores the constants of the
program, with its damped step for the scale tau and with the full one. Both also print the share (%)
of times inside the 80 % interval. It mirrors FitResiduals() and SpreadOf() for step times. It needs
python3-numpy; the exam is found as scripts/accuracy.sh finds it.
"""
import argparse
import collections
import json
import os
import random
import re

import numpy as np

import exam

FAMILY = {"vtrain_single": "vtrain", "vtrain_multi": "vtrain"}  # left out together
GRID = {
    "job": [0.03, 0.05, 0.08], "plan": [0.05, 0.07, 0.1], "noise": [0.01, 0.02, 0.03],
    "freedom": [1, 2, 4], "scale_rows": [2, 8, 30], "noise_rows": [0.3, 1, 4],
    "similarity": [0.65, 0.8, 0.9], "other_nodes": [0.5, 0.65, 0.8], "work": [1, 1.5, 2, 3], "tensor": [1, 1.5, 2, 3],
    "pipeline": [1, 1.5, 2, 3],
}
START = {"job": 0.05, "plan": 0.07, "noise": 0.02, "freedom": 2, "scale_rows": 8, "noise_rows": 1,
         "similarity": 0.9, "other_nodes": 0.65, "work": 1.5, "tensor": 1.5, "pipeline": 1.5}
NODE = "chip", "devices_per_node", "physical_devices_per_node", "intra_node", "inter_node"
CENTRAL = 1.2815515655446004  # sigmas to the 10th and 90th percentile
COVERAGE = 0.75, 0.88
OWN, OTHERS, LEAST = 3, 20, 4  # number of runs in a history, and the fewest runs to score


def shipped():
    """Returns the constants of the program: its prior of step times, and that of its scale."""
    with open("estimator/learning/run_residuals.h") as header:
        prior = re.search(r"kTimePrior = \{(.*?)\};", header.read(), re.DOTALL)[1]
    with open("estimator/learning/run_residuals.cc") as source:
        scale_rows = re.search(r"kScaleRows = ([\d.]+);", source.read())[1]
    stated = {name: float(value) for name, value in re.findall(r"\.(\w+) = ([\d.]+)", prior)}
    alike = {"similarity": stated.pop("same_nodes_similarity"), "other_nodes": stated.pop("other_nodes_similarity")}
    return {**START, **stated, **alike, "scale_rows": float(scale_rows)}


def run_of(item, answer):
    case = item["case"]
    plan, model, work = case["plan"], case["model"], case["workload"]
    per_rank = plan["tensor_parallel"] * plan["context_parallel"]
    elements = plan["micro_batch_size"] * work["sequence_length"] * model["hidden_size"] / per_rank
    return {"residual": np.log(item["time"] / answer["step_time_seconds"]),
            "point": np.log2([max(1, elements), plan["tensor_parallel"], plan["pipeline_parallel"]]),
            "group": item["group"], "model": model["name"],
            "spread": [np.log(answer["step_time_seconds"] / answer["step_time_low_seconds"]) / CENTRAL,
                       np.log(answer["step_time_high_seconds"] / answer["step_time_seconds"]) / CENTRAL],
            "site": (work["framework"]["name"], case["cluster"]["pools"][0]["chip"]),
            "nodes": json.dumps([{k: pool.get(k) for k in NODE} for pool in case["cluster"]["pools"]], sort_keys=True),
            "job": json.dumps([model, work, case["cluster"]], sort_keys=True)}


class Task:
    """A history, and the runs to predict with it."""

    def __init__(self, history, targets):
        history = [h for h in history if h["site"] == targets[0]["site"]]
        self.residuals = np.array([h["residual"] for h in history])
        self.truth = np.array([t["residual"] for t in targets])
        self.spread = np.array([t["spread"] for t in targets]).T
        if not history:
            return
        points, asked = (np.array([r["point"] for r in runs]) for runs in (history, targets))
        self.near = (points[:, None] - points[None]) ** 2
        self.far = (asked[:, None] - points[None]) ** 2
        self.shared, self.own = ([np.array([[a[key] == b[key] for b in history] for a in runs])
                                  for key in ("job", "nodes")] for runs in (history, targets))

    def foretell(self, c):
        """Returns the mean of the logarithm, and how far the interval extends below and above
        it."""
        n = len(self.residuals)
        if c is None or n == 0:
            return np.zeros(len(self.truth)), CENTRAL * self.spread
        reach = 1 / np.array([c["work"], c["tensor"], c["pipeline"]]) ** 2

        def covariance(distance, shared):
            same_job, same_nodes = shared
            alike = np.where(same_job, 1, np.where(same_nodes, c["similarity"],
                                                    min(c["similarity"], c["other_nodes"])))
            return alike * (c["job"] ** 2 + c["plan"] ** 2 * np.exp(-(distance @ reach) / 2))

        prior, free = covariance(self.near, self.shared), c["freedom"]
        median, noise = np.median(self.residuals), c["noise"] ** 2
        expected = c["job"] ** 2 + c["plan"] ** 2
        signal = max(1, median ** 2 / expected) if n > 1 else 1
        squares = (self.residuals - (median if n > 1 else median * n / (n + 1))) ** 2
        weights = (free + 1) / (free + squares / noise)
        for _ in range(8):
            inverse = np.linalg.inv(signal * prior + np.diag(noise / weights))
            solved = inverse @ self.residuals
            each = noise / weights
            squares = (each * solved) ** 2 + np.maximum(each - each ** 2 * np.diag(inverse), 0)
            weights = (free + 1) / (free + squares / noise)
            noise = ((c["noise_rows"] * c["noise"] ** 2 + weights @ squares)
                     / (c["noise_rows"] + n))
            surprise = signal * solved @ prior @ solved + n - signal * np.sum(inverse * prior)
            step = signal if c.get("full_step") else 1
            signal = (c["scale_rows"] + step * surprise) / (c["scale_rows"] + n)
        inverse = np.linalg.inv(signal * prior + np.diag(noise / weights))
        cross = signal * covariance(self.far, self.own)
        before = signal * (c["job"] ** 2 + c["plan"] ** 2)
        variance = np.maximum(0, before - np.sum((cross @ inverse) * cross, axis=1))
        unlearnt = variance / before
        spread = np.sqrt(unlearnt * self.spread ** 2 + (1 - unlearnt) * variance + noise)
        return cross @ (inverse @ self.residuals), CENTRAL * spread


def tasks_of(runs, key, draws, is_warm):
    groups = collections.defaultdict(list)
    for run in runs:
        groups[run[key]].append(run)
    tasks = []
    for name, own in sorted(groups.items()):
        pool = own if is_warm else [run for run in runs if run[key] != name]
        count = OWN if is_warm else min(OTHERS, len(pool))
        if len(own) < LEAST + OWN * is_warm or len(pool) < LEAST:
            continue
        for draw in range(draws):
            history = random.Random(f"{draw} {name}").sample(pool, count)
            drawn = {id(run) for run in history}
            tasks.append(Task(history, [run for run in own if id(run) not in drawn]))
    return tasks


class Outcome:
    def __init__(self, tasks, constants):
        told = [task.foretell(constants) for task in tasks]
        truth = np.concatenate([task.truth for task in tasks])
        means = np.concatenate([mean for mean, _ in told])
        below, above = np.concatenate([spread for _, spread in told], axis=1)
        self.errors = abs(np.exp(means - truth) - 1)
        self.covered = np.mean((truth >= means - below) & (truth <= means + above))

    def loss(self):
        return np.mean(np.sqrt(np.minimum(self.errors, 0.5)))  # limits the influence of wild runs

    def figures(self):
        error = 100 * np.sort(self.errors)
        return f"{error[len(error) // 2]:5.2f} / {error[int(0.9 * len(error))]:5.2f} ({100 * self.covered:3.0f})"


def total(sets, constants):
    """Returns the mean over sources of the loss relative to the loss without history. Sources below
    50 rows count in proportion. An error that a history of other models makes worse counts three
    times. A tenth of the times on the wrong side of an interval's coverage counts as much as a
    tenth of the loss."""
    value = weight = 0
    for (_, mode), (tasks, cold) in sets.items():
        outcome = Outcome(tasks, constants)
        ratio = outcome.loss() / cold.loss()
        if mode == "transfer":
            ratio += 2 * max(0, ratio - 1)
        ratio += max(0, COVERAGE[0] - outcome.covered, outcome.covered - COVERAGE[1])
        own = min(1, len(cold.errors) / 50)
        value, weight = value + own * ratio, weight + own
    return value / weight


def best(sets):
    constants = dict(START)
    least = total(sets, constants)
    for _ in range(2):
        for name, values in GRID.items():
            for value in values:
                tried = {**constants, name: value}
                if value != constants[name] and (found := total(sets, tried)) < least:
                    least, constants = found, tried
    return constants, least


def report(sets, constants, source):
    for (name, mode), (tasks, cold) in sets.items():
        if FAMILY.get(name, name) == source:
            print(f"{name:14s} {mode:8s} cold {cold.figures()}  with "
                  f"{Outcome(tasks, constants).figures()}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--shipped", nargs="*", metavar="SOURCE", help="without SOURCE: all of them")
    args = parser.parse_args()
    binary = os.path.abspath(args.bin)
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    score, data = exam.load()
    items = [item for item in score.load(data, None) if item["case"] and item["time"]]
    answers, _ = score.evaluate(binary, [item["case"] for item in items])
    by_source = collections.defaultdict(list)
    for item in items:
        by_source[item["source"]].append(run_of(item, answers[item["case"]["id"]]))
    sets = {}
    for source, runs in sorted(by_source.items()):
        for mode, key in (("warm", "group"), ("transfer", "model")):
            if tasks := tasks_of(runs, key, args.draws, mode == "warm"):
                sets[source, mode] = tasks, Outcome(tasks, None)
    if args.shipped is not None:
        for words, constants in (("damped", shipped()), ("full", {**shipped(), "full_step": True})):
            print(f"{words} step: {total(sets, constants):.4f} of cold")
            for source in sorted(args.shipped or {FAMILY.get(name, name) for name, _ in sets}):
                report(sets, constants, source)
        return
    for left_out in sorted({FAMILY.get(name, name) for name, _ in sets}):
        others = {k: v for k, v in sets.items() if FAMILY.get(k[0], k[0]) != left_out}
        constants, _ = best(others)
        print("without", left_out, constants)
        report(sets, constants, left_out)
    constants, least = best(sets)
    print(f"all {constants}: {least:.4f} of cold")
    for source in sorted({FAMILY.get(name, name) for name, _ in sets}):
        report(sets, constants, source)


if __name__ == "__main__":
    main()
