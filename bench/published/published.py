"""Estimates large runs whose speed was published, under their published plans.

    scripts/published.sh            prints the table
    scripts/published.sh --write    also between the markers of docs/accuracy/published.md

No constant of the model was fitted to these runs (runs.json).
"""
import argparse
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "docs/accuracy/published.md"
MARKERS = ("<!-- published runs -->", "<!-- end of published runs -->")
SECONDS_A_DAY = 86400
UNITS = {"days": "days", "seconds": "s a step", "teraflops": "TFLOP/s a device", "tokens_a_day": "1e9 tokens a day"}


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/published.sh")
    parser.add_argument("--bin", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--write", action="store_true", help="the table goes into docs/accuracy/published.md")
    return parser.parse_args()


def estimates(binary, asked):
    """Returns the answer for each run, in order."""
    cases = "".join(json.dumps({"id": run["name"], "model": asked["models"][run["model"]],
                                **{part: run[part] for part in ("workload", "cluster", "plan")}}) + "\n"
                    for run in asked["runs"])
    done = subprocess.run([binary, "evaluate", "--cases", "-"], input=cases, capture_output=True, text=True, check=False)
    answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines()) if "id" in answer}
    for run in asked["runs"]:
        if "step_time_seconds" not in answers.get(run["name"], {}):
            raise SystemExit(f"{run['name']}: no estimate: {answers.get(run['name'], done.stderr[-300:])}")
    return [answers[run["name"]] for run in asked["runs"]]


def estimated(answer, run, peak):
    """Returns the published figure as the estimate has it, in the same unit."""
    step = answer["step_time_seconds"]
    tokens = run["workload"]["sequence_length"] * run["workload"]["global_batch_size"]
    if run["kind"] == "days":
        return run["tokens"] / tokens * step / SECONDS_A_DAY
    if run["kind"] == "seconds":
        return step
    if run["kind"] == "teraflops":
        return answer["model_flops_utilization_ratio"] * peak / 1e12
    return tokens / step * SECONDS_A_DAY


def peaks(binary):
    done = subprocess.run([binary, "chip", "list", "--output", "json"], capture_output=True, text=True, check=True)
    return {chip["id"]: chip["peak_flops_per_second"].get("bf16", 0) for chip in json.loads(done.stdout)["chips"]}


def figure(value, kind):
    return f"{value / 1e9:.0f}" if kind == "tokens_a_day" else f"{value:.4g}"


def rows(binary, asked):
    peak_of = peaks(binary)
    for run, answer in zip(asked["runs"], estimates(binary, asked)):
        found = estimated(answer, run, peak_of[run["cluster"]["pools"][0]["chip"]])
        yield [run["name"], run["source"], UNITS[run["kind"]], figure(run["published"], run["kind"]),
               figure(found, run["kind"]), f"{100 * (found / run['published'] - 1):+.1f} %",
               "yes" if answer["fits"] else "no",
               f"{int(answer['peak_memory_bytes']) / 2**30:.0f} of {int(answer['memory_capacity_bytes']) / 2**30:.0f}"]


def main():
    args = arguments()
    asked = json.loads((HERE / "runs.json").read_text(encoding="utf-8"))
    head = ["run", "source", "figure", "published", "estimated", "difference", "fits", "memory, GiB"]
    table = "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows(args.bin.resolve(), asked)))
    print(table)
    if args.write:
        before, rest = PAGE.read_text(encoding="utf-8").split(MARKERS[0])
        PAGE.write_text(f"{before}{MARKERS[0]}\n\n{table}\n\n{MARKERS[1]}{rest.split(MARKERS[1])[1]}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
