"""Studies of a few real jobs against a sweep of all; called by scripts/jobs_report.sh, which has the usage.

Other load and the machine's clock move times by a third within minutes. So the sweep says which plans may be the best
(the finalists: its fastest and the chosen one), and these then run again, round by round, each right after a reference
plan: what counts is the median of their ratios to it. The best of several noisy ratios looks better than it is, which
makes the chosen plan look worse.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs/jobs.md"
MARKERS = ("<!-- figures -->", "<!-- end of figures -->")
PYTHON = "/usr/bin/python3"  # has PyTorch
MODEL = {"name": "gpt-small", "layer_count": 4, "hidden_size": 256, "ffn_hidden_size": 1024,
         "attention_head_count": 4, "kv_head_count": 4, "head_dim": 64, "vocab_size": 2048, "mlp": "gelu",
         "norm": "layernorm", "tied_embeddings": False}
WORKLOAD = {"sequence_length": 128, "global_batch_size": 16, "precision": "fp32", "attention_kernel": "unfused"}


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/jobs_report.sh")
    parser.add_argument("--bin", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--processes", type=int, action="append", help="of a job; repeatable (2 and 4)")
    parser.add_argument("--trials", type=int, default=8, help="of the study (8)")
    parser.add_argument("--finalists", type=int, default=12, help="of the sweep (12)")
    parser.add_argument("--rounds", type=int, default=3, help="in which they run again (3)")
    parser.add_argument("--json", type=pathlib.Path, help="also writes all that was measured there")
    parser.add_argument("--write", action="store_true", help="also writes the table into docs/jobs.md")
    return parser.parse_args()


class Site:
    """The question for so many processes, and how it is asked."""

    def __init__(self, args, processes):
        self.bin, self.folder = args.bin.resolve(), args.folder / str(processes)
        self.processes = processes
        (self.folder / "jobs").mkdir(parents=True)
        self.cluster = {"name": f"cores-{processes}", "pools": [
            {"name": "cpu", "chip": "cpu-generic", "node_count": 1, "devices_per_node": processes}]}
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

    def tune(self, store, trials):
        return json.loads(self.run(
            "tune", "--model", "model.json", "--workload", "workload.json", "--cluster", "cluster.json", "--launcher",
            "slurm", "--job", "job.json", "--max-trials", str(trials), "--disable-rule", "bound", "--db", store,
            "--output", "json"))

    def step(self, plan):
        """Median step time of a plan, run here and now."""
        (self.folder / "plan.json").write_text(json.dumps(plan))
        done = subprocess.run(
            [PYTHON, str(ROOT / "workloads/train_step.py"), "--processes", str(self.processes), "--steps", "6", "--warmup",
             "2", "--question", "question.json", "--plan", "plan.json"], cwd=self.folder, capture_output=True, text=True, check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"})
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return next(line["step_time_seconds"] for line in lines if line.get("event") == "result")

    def expected(self, store, plans):
        """Step time and 80 % interval of plans, by what a store has taught."""
        lines = [json.dumps({"id": digest, "model": MODEL, "workload": WORKLOAD, "cluster": self.cluster,
                             "plan": plan}) for digest, plan in plans.items()]
        (self.folder / "cases.jsonl").write_text("\n".join(lines) + "\n")
        answers = self.run("evaluate", "--cases", "cases.jsonl", "--db", store).splitlines()
        return {a["id"]: [a[f"step_time{end}_seconds"] for end in ("", "_low", "_high")]
                for a in map(json.loads, answers)}


def times(answer):
    return {t["plan_digest"]: t["step_time_seconds"] for t in answer["trials"] if t["outcome"] == "ok"}


def finals(site, args, plans, reference):
    """Median ratio of each plan's step time to the reference's, and how far its rounds lie from that."""
    ratios = {digest: [] for digest in plans}
    order = random.Random(1)
    for _ in range(args.rounds):
        for digest in order.sample(sorted(plans), len(plans)):
            ratios[digest].append(1 / site.step(reference) * site.step(plans[digest]))
    middle = {digest: statistics.median(found) for digest, found in ratios.items()}
    spread = statistics.median(abs(ratio / middle[digest] - 1) for digest, found in ratios.items() for ratio in found)
    return middle, spread


def whole(answer):
    stop = answer["trial_summary"]["stop_reason"]
    if stop != "all_tried":
        raise SystemExit(f"a sweep ended by {stop}: {answer['warnings']}")
    return answer


def report(args, processes):
    site = Site(args, processes)
    study = site.tune("study.db", args.trials)
    sweep = whole(site.tune("sweep.db", 1000))
    measured, tried = times(sweep), times(study)
    plans = {t["plan_digest"]: t["plan"] for t in sweep["trials"]}
    chosen = study["plans"][0]["plan_digest"]
    baseline = study["baseline"]["plan_digest"]
    for digest, name in ((chosen, "chosen plan"), (baseline, "baseline")):
        if digest not in measured:
            raise SystemExit(f"the {name} did not run in the sweep: {json.dumps(plans.get(digest))}")
    fastest = sorted(measured, key=measured.get)[:args.finalists]
    ratios, spread = finals(site, args, {digest: plans[digest] for digest in {*fastest, chosen}}, plans[baseline])
    drift = statistics.median(measured[d] / tried[d] for d in tried if d in measured)
    rest = {d: plan for d, plan in plans.items() if d in measured and d not in tried}
    cold = site.expected("none.db", rest)
    warm = site.expected("study.db", rest)
    errors = [[abs(e[d][0] * drift / measured[d] - 1) for d in rest] for e in (cold, warm)]
    inside = [warm[d][1] * drift <= measured[d] <= warm[d][2] * drift for d in rest]
    return {"processes": processes, "trials": len(study["trials"]), "candidates": len(measured),
            "failed": len(plans) - len(measured), "over_best_ratio": ratios[chosen] / min(ratios.values()) - 1,
            "gain": 1 / ratios[chosen], "cold_error_ratio": statistics.median(errors[0]),
            "error_ratio": statistics.median(errors[1]), "inside_ratio": statistics.mean(inside),
            "repeat_ratio": spread, "finals": ratios, "sweep": measured, "study": tried, "plans": plans, "expected": warm}


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
    return "\n".join(lines)


def main():
    args = arguments()
    rows = []
    for processes in args.processes or (2, 4):
        rows.append(report(args, processes))
        print(table(rows[-1:]), flush=True)
    text = table(rows)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    if args.write:
        page = PAGE.read_text(encoding="utf-8")
        before, rest = page.split(MARKERS[0])
        after = rest.split(MARKERS[1])[1]
        PAGE.write_text(f"{before}{MARKERS[0]}\n\n{text}\n\n{MARKERS[1]}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
