"""Compares studies of a few real jobs with a sweep over all plans; called by
scripts/jobs_report.sh, which has the usage.

Other load and the machine's clock change times by a third and more within minutes. So the sweep
only finds which plans there are, and which may be the best. These then run again, round by round,
each right after a run of a reference plan, the study's baseline. The median of the ratios to the
reference counts. The finalists, which are the sweep's fastest plans and the chosen plan, show how
far the choice is from the best. The best of several noisy ratios looks better than it is, which
makes the chosen plan look worse. Plans drawn from those that the study did not run show how good
its predictions are.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs/jobs/check.md"
MARKERS = ("<!-- figures -->", "<!-- end of figures -->")
PYTHON = "/usr/bin/python3"  # has PyTorch
MODEL = {"name": "gpt-small", "layer_count": 4, "hidden_size": 256, "ffn_hidden_size": 1024,
         "attention_head_count": 4, "kv_head_count": 4, "head_dim": 64, "vocab_size": 2048, "mlp": "gelu",
         "norm": "layernorm", "tied_embeddings": False}
WORKLOAD = {"sequence_length": 128, "global_batch_size": 16, "precision": "fp32", "framework": {"name": "train-step"}}


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/jobs_report.sh")
    parser.add_argument("--bin", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--processes", type=int, action="append", help="of a job; repeatable (2 and 4)")
    parser.add_argument("--trials", type=int, default=8, help="of the study (8)")
    parser.add_argument("--confirm", type=int, default=3, help="plans that the study runs again (3)")
    parser.add_argument("--finalists", type=int, default=10, help="of the sweep (10)")
    parser.add_argument("--others", type=int, default=16, help="drawn from those that the study did not run (16)")
    parser.add_argument("--rounds", type=int, default=3, help="in which these run again (3)")
    parser.add_argument("--final-rounds", type=int, default=6, help="in which the finalists do (6)")
    parser.add_argument("--dimension", action="append", default=[], help="of tune, for study and sweep alike; repeatable")
    parser.add_argument("--json", type=pathlib.Path, help="also writes all that was measured there")
    parser.add_argument("--write", action="store_true", help="also writes the table into docs/jobs/check.md")
    return parser.parse_args()


class Site:
    """The question for a number of processes, and the way in which it is asked."""

    def __init__(self, args, processes):
        self.bin, self.folder = args.bin.resolve(), args.folder / str(processes)
        self.processes = processes
        self.dimensions = [word for dimension in args.dimension for word in ("--dimension", dimension)]
        (self.folder / "jobs").mkdir(parents=True)
        # A device is a core; if there are more processes than cores, they share them.
        self.cluster = {"name": f"cores-{processes}", "pools": [
            {"name": "cpu", "chip": "cpu-generic", "node_count": 1, "devices_per_node": processes,
             "physical_devices_per_node": min(processes, len(os.sched_getaffinity(0)))}]}
        job = {"folder": str(self.folder / "jobs"), "python": PYTHON, "environment": ["OMP_NUM_THREADS=1"],
               "time_limit_seconds": 300, "poll_interval_seconds": 0.5,
               "metrics": {"warmup_steps": 2, "min_steps": 5, "max_steps": 20, "interval_ratio": 0.05}}
        for name, content in (("model", MODEL), ("workload", WORKLOAD), ("cluster", self.cluster), ("job", job),
                              ("question", {"model": MODEL, "workload": WORKLOAD})):
            (self.folder / f"{name}.json").write_text(json.dumps(content))

    def run(self, *words):
        done = subprocess.run([self.bin, *words], cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"meshwright {words[0]} failed ({done.returncode}): {done.stderr[-500:]}")
        return done.stdout

    def tune(self, store, trials, *more):
        return json.loads(self.run(
            "tune", "--model", "model.json", "--workload", "workload.json", "--cluster", "cluster.json", "--launcher",
            "slurm", "--job", "job.json", "--max-trials", str(trials), "--interleave-baseline", "--disable-rule", "bound",
            "--stop-within", "0", "--db", store, *self.dimensions, *more, "--output", "json"))

    def step(self, plan):
        """Returns the median step time of a plan, run here and now."""
        (self.folder / "plan.json").write_text(json.dumps(plan))
        done = subprocess.run(
            [PYTHON, str(ROOT / "workloads/train_step.py"), "--processes", str(self.processes), "--steps", "6", "--warmup",
             "2", "--question", "question.json", "--plan", "plan.json"], cwd=self.folder, capture_output=True, text=True, check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"})
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return next(line["step_time_seconds"] for line in lines if line.get("event") == "result")

    def expected(self, store, plans):
        """Returns the step time and 80 % interval of plans, as learnt from a store."""
        lines = [json.dumps({"id": digest, "model": MODEL, "workload": WORKLOAD, "cluster": self.cluster,
                             "plan": plan}) for digest, plan in plans.items()]
        (self.folder / "cases.jsonl").write_text("\n".join(lines) + "\n")
        answers = self.run("evaluate", "--cases", "cases.jsonl", "--db", store).splitlines()
        return {a["id"]: [a[f"step_time{end}_seconds"] for end in ("", "_low", "_high")]
                for a in map(json.loads, answers)}


def times(answer):
    """Returns, for each plan that ran, the median of its ratios to the run of the baseline before
    it."""
    ratios = {}
    for trial in answer["trials"]:
        if trial["outcome"] == "ok" and "reference_step_time_seconds" in trial:
            ratio = trial["step_time_seconds"] / trial["reference_step_time_seconds"]
            ratios.setdefault(trial["plan_digest"], []).append(ratio)
    return {digest: statistics.median(found) for digest, found in ratios.items()}


class Ratios:
    """The ratios of plans that run repeatedly, each right after a reference."""

    def __init__(self, site, reference):
        self.site, self.reference = site, reference
        self.random = random.Random(1)
        self.references, self.found = [], {}

    def run(self, plans, rounds):
        for _ in range(rounds):
            for digest in self.random.sample(sorted(plans), len(plans)):
                self.references.append(self.site.step(self.reference))
                self.found.setdefault(digest, []).append(self.site.step(plans[digest]) / self.references[-1])

    def of(self, digest):
        return statistics.median(self.found[digest])

    def spread(self):
        """Returns how far a single ratio usually is from its plan's median."""
        return statistics.median(abs(ratio / self.of(digest) - 1) for digest, found in self.found.items() for ratio in found)


def whole(answer):
    stop = answer["trial_summary"]["stop_reason"]
    if stop != "all_tried":
        raise SystemExit(f"a sweep ended by {stop}: {answer['warnings']}")
    return answer


def report(args, processes):
    site = Site(args, processes)
    study = site.tune("study.db", args.trials, "--confirm-plans", str(args.confirm))
    sweep = whole(site.tune("sweep.db", 1000))
    measured, tried = times(sweep), times(study)
    plans = {t["plan_digest"]: t["plan"] for t in sweep["trials"]}
    chosen, baseline = study["plans"][0]["plan_digest"], study["baseline"]["plan_digest"]
    for digest, name in ((chosen, "chosen plan"), (baseline, "baseline")):
        if digest not in measured:
            raise SystemExit(f"the {name} did not run in the sweep: {json.dumps(plans.get(digest))}")
    finalists = {*sorted(measured, key=measured.get)[:args.finalists], chosen}
    rest = sorted(d for d in measured if d not in tried)
    if not tried or not rest:
        raise SystemExit(f"{len(tried)} trials ran and {len(rest)} candidates are left: neither may be none")
    others = set(random.Random(2).sample(rest, min(args.others, len(rest))))
    ratios = Ratios(site, plans[baseline])
    ratios.run({d: plans[d] for d in finalists | others | set(tried)}, min(args.rounds, args.final_rounds))
    ratios.run({d: plans[d] for d in finalists}, max(0, args.final_rounds - args.rounds))
    fastest = min(ratios.of(d) for d in finalists)
    cold, warm = (site.expected(store, {d: plans[d] for d in others | set(tried)}) for store in ("none.db", "study.db"))
    # Ratios are not in seconds. The plans that the study ran, which are run again here, give the
    # conversion.
    cold_unit, unit = (statistics.median(ratios.of(d) / expected[d][0] for d in tried) for expected in (cold, warm))
    inside = [warm[d][1] * unit <= ratios.of(d) <= warm[d][2] * unit for d in others]
    return {"processes": processes, "dimensions": args.dimension, "candidates": len(measured),
            "trials": sum(t["purpose"] == "search" for t in study["trials"]),
            "failed": len(plans) - len(measured), "over_best_ratio": ratios.of(chosen) / fastest - 1,
            "gain": 1 / ratios.of(chosen),
            "cold_error_ratio": statistics.median(abs(cold[d][0] * cold_unit / ratios.of(d) - 1) for d in others),
            "error_ratio": statistics.median(abs(warm[d][0] * unit / ratios.of(d) - 1) for d in others),
            "inside_ratio": statistics.mean(inside), "repeat_ratio": ratios.spread(), "ratios": ratios.found,
            "references": ratios.references, "finalists": sorted(finalists), "others": sorted(others), "sweep": measured,
            "study": tried, "plans": plans, "cold": cold, "expected": warm}


def percent(ratio):
    return "-" if ratio is None else f"{100 * ratio:.1f} %"


def table(rows):
    lines = ["| processes | trials | candidates | failed | chosen over best | gain over baseline | error before | error after | "
             "in the 80 % interval | repeats |", "|---|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        lines.append("| " + " | ".join([
            str(row["processes"]), str(row["trials"]), str(row["candidates"]), str(row["failed"]),
            percent(row["over_best_ratio"]),
            f"{row['gain']:.2f}", percent(row["cold_error_ratio"]), percent(row["error_ratio"]),
            percent(row["inside_ratio"]), percent(row["repeat_ratio"])]) + " |")
    for row in rows:
        if row["dimensions"]:
            words = " ".join(f"--dimension {dimension}" for dimension in row["dimensions"])
            text = f"{row['processes']} processes: study and sweep with `{words}`."
            lines += ["", *textwrap.wrap(text, 100, break_on_hyphens=False)]
    return "\n".join(lines)


def main():
    args = arguments()
    rows = []
    for processes in args.processes or (2, 4):
        rows.append(report(args, processes))
        print(table(rows[-1:]), flush=True)
        if args.json:
            args.json.write_text(json.dumps(rows, indent=1))
    text = table(rows)
    if args.write:
        page = PAGE.read_text(encoding="utf-8")
        before, rest = page.split(MARKERS[0])
        after = rest.split(MARKERS[1])[1]
        PAGE.write_text(f"{before}{MARKERS[0]}\n\n{text}\n\n{MARKERS[1]}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
