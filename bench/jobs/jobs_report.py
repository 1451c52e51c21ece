"""Studies of a few real jobs against sweeps of all; called by scripts/jobs_report.sh, which has the usage.

Other load and the machine's clock move all times of a run together, so that runs are compared by ratios: the times of a
sweep are divided by their median over the plans that all sweeps have, and a study's by what its own plans took there.
What changes in the middle of a sweep is not taken out. The best of many noisy times looks better than it is, which
makes the chosen plan look worse.
"""
import argparse
import json
import pathlib
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
    parser.add_argument("--sweeps", type=int, default=2, help="(2)")
    parser.add_argument("--json", type=pathlib.Path, help="also writes all that was measured there")
    parser.add_argument("--write", action="store_true", help="also writes the table into docs/jobs.md")
    return parser.parse_args()


class Site:
    """The question for so many processes, and how it is asked."""

    def __init__(self, args, processes):
        self.bin, self.folder = args.bin.resolve(), args.folder / str(processes)
        (self.folder / "jobs").mkdir(parents=True)
        self.cluster = {"name": f"cores-{processes}", "pools": [
            {"name": "cpu", "chip": "cpu-generic", "node_count": 1, "devices_per_node": processes}]}
        job = {"folder": str(self.folder / "jobs"), "python": PYTHON, "environment": ["OMP_NUM_THREADS=1"],
               "time_limit_seconds": 300, "poll_interval_seconds": 0.5,
               "metrics": {"warmup_steps": 2, "min_steps": 5, "max_steps": 20, "interval_ratio": 0.05}}
        for name, content in (("model", MODEL), ("workload", WORKLOAD), ("cluster", self.cluster), ("job", job)):
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


def mean_of_sweeps(sweeps):
    common = set.intersection(*map(set, sweeps))
    scales = [statistics.median(sweep[d] for d in common) for sweep in sweeps]
    typical = statistics.median(scales)
    return {d: statistics.mean(s[d] / scale for s, scale in zip(sweeps, scales)) * typical for d in common}


def repeats(sweeps, both):
    """How far the first two sweeps lie from their mean, as a share of it: what no prediction can be better than."""
    if len(sweeps) < 2:
        return None
    pairs = [[s[d] / statistics.median(s[e] for e in both) for s in sweeps[:2]] for d in both]
    return statistics.median(abs(a - b) / (a + b) for a, b in pairs)


def whole(answer):
    stop = answer["trial_summary"]["stop_reason"]
    if stop != "all_tried":
        raise SystemExit(f"a sweep ended by {stop}: {answer['warnings']}")
    return answer


def report(args, processes):
    site = Site(args, processes)
    study = site.tune("study.db", args.trials)
    answers = [whole(site.tune(f"sweep{i}.db", 1000)) for i in range(args.sweeps)]
    sweeps = [times(answer) for answer in answers]
    measured, tried = mean_of_sweeps(sweeps), times(study)
    plans = {t["plan_digest"]: t["plan"] for answer in answers for t in answer["trials"]}
    chosen = study["plans"][0]["plan_digest"]
    baseline = study["baseline"]["plan_digest"]
    for digest, name in ((chosen, "chosen plan"), (baseline, "baseline")):
        if digest not in measured:
            raise SystemExit(f"the {name} did not run in every sweep: {json.dumps(plans.get(digest))}")
    drift = statistics.median(measured[d] / tried[d] for d in tried if d in measured)
    rest = {d: plan for d, plan in plans.items() if d in measured and d not in tried}
    cold = site.expected("none.db", rest)
    warm = site.expected("study.db", rest)
    errors = [[abs(e[d][0] * drift / measured[d] - 1) for d in rest] for e in (cold, warm)]
    inside = [warm[d][1] * drift <= measured[d] <= warm[d][2] * drift for d in rest]
    return {"processes": processes, "trials": len(study["trials"]), "candidates": len(measured),
            "failed": len(plans) - len(measured),
            "over_best_ratio": measured[chosen] / min(measured.values()) - 1,
            "gain": measured[baseline] / measured[chosen],
            "cold_error_ratio": statistics.median(errors[0]), "error_ratio": statistics.median(errors[1]),
            "inside_ratio": statistics.mean(inside), "repeat_ratio": repeats(sweeps, set(measured)),
            "sweeps": sweeps, "study": tried, "plans": plans, "expected": warm}


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
