"""Asks for the plans of a grid of questions, and says of each first plan whether anyone would launch it.

    scripts/first_plans.sh                 prints the table
    scripts/first_plans.sh --write         also between the markers of docs/choice/first_plans.md
    scripts/first_plans.sh --only WORD...  asks the questions whose name has one of the words

The questions are models, chips, sizes and every framework that has an exporter (questions.json).
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "docs/choice/first_plans.md"
MARKERS = ("<!-- first plans -->", "<!-- end of first plans -->")
FIT = 0.95  # the program's own minimum, --min-fit-probability
KIND = ("tensor_parallel", "pipeline_parallel", "context_parallel", "micro_batch_size")


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/first_plans.sh")
    parser.add_argument("--bin", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--write", action="store_true", help="the table goes into docs/choice/first_plans.md")
    parser.add_argument("--only", nargs="+", metavar="WORD", default=[""], help="asks some questions")
    return parser.parse_args()


def questions():
    """Yields (name, framework, model, chip, node count) of every question."""
    asked = json.loads((HERE / "questions.json").read_text(encoding="utf-8"))
    for row in asked["questions"]:
        for chip in row["chips"]:
            for model in row["models"]:
                for nodes in row["node_counts"]:
                    devices = nodes * asked["devices_per_node"]
                    yield f"{row['framework']}/{chip}/{model}/{nodes}", {
                        "model": asked["models"][model],
                        "workload": {"sequence_length": asked["sequence_length"],
                                     "global_batch_size": devices * asked["minimum_sequences_per_device"],
                                     "precision": "bf16", "framework": {"name": row["framework"]}},
                        "cluster": {"name": "grid", "pools": [{"chip": chip, "node_count": nodes,
                                                               "devices_per_node": asked["devices_per_node"]}]}}


def ask(binary, question):
    """Returns the answer of `tune`, or the words of its error."""
    with tempfile.TemporaryDirectory() as folder:
        command = [binary, "tune", "--no-record", "--output", "json", "--pareto"]
        for part, value in question.items():
            path = pathlib.Path(folder) / f"{part}.json"
            path.write_text(json.dumps(value), encoding="utf-8")
            command += [f"--{part}", path]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        return {"error": {"message": (done.stderr or "no answer").strip().splitlines()[-1]}}
    return answer


def unconfirmed_features(answer):
    """Returns the features of the first plan whose cost hardly any measured run has confirmed, which
    the verdict names as its risk (docs/choice.md)."""
    return [feature for reason in answer.get("reasons", [])
            if reason["code"] == "plan_unconfirmed" for feature in reason["features"]]


def words_of(plan):
    parts = [f"{short}{plan[name]}" for short, name in
             (("t", "tensor_parallel"), ("p", "pipeline_parallel"), ("v", "virtual_pipeline"), ("c", "context_parallel"),
              ("e", "expert_parallel"), ("d", "data_parallel")) if plan.get(name, 1) > 1]
    return " ".join([*parts, f"b{plan['micro_batch_size']}", f"z{plan['zero_stage']}"])


def findings(answer):
    """Returns the facts of an answer's first plan, or None if no plan fits."""
    if not answer.get("plans"):
        return None
    first = answer["plans"][0]
    seconds = first["estimate"]["step_time_seconds"]
    optimum = answer.get("model_optimum", first)["estimate"]["step_time_seconds"]
    fits = [point["plan"]["estimate"]["fit_probability_ratio"] for point in answer.get("pareto_front", [])]
    return {"plan": words_of(first["plan"]), "fit": first["estimate"]["fit_probability_ratio"],
            "can_fit": max([*fits, *(ranked["estimate"]["fit_probability_ratio"] for ranked in answer["plans"])]) >= FIT,
            "has_flags": bool(first.get("exports")), "unconfirmed": unconfirmed_features(answer),
            "loss": seconds / optimum - 1, "plan_count": len(answer["plans"]),
            "kind_count": len({tuple(ranked["plan"].get(name, 1) for name in KIND) for ranked in answer["plans"]}),
            "warnings": [text for text in answer.get("warnings", []) if text.startswith("no ")]}


def row_of(name, found):
    framework, chip, model, nodes = name.split("/")
    head = [framework, chip, model, str(int(nodes) * 8)]
    if found is None:
        return [*head, "none fits", "", "", "", "", ""]
    return [*head, found["plan"], f"{found['fit']:.3f}", "yes" if found["has_flags"] else "no",
            ", ".join(found["unconfirmed"]) or "-", f"{100 * found['loss']:.1f}",
            f"{found['kind_count']}/{found['plan_count']}"]


def summary(rows):
    have = [found for _, found in rows if found is not None]
    safe = [found for found in have if found["can_fit"]]
    lines = [
        f"{len(rows)} questions; {len(rows) - len(have)} of them have no plan that fits.", "",
        f"- {sum(found['fit'] >= FIT for found in safe)} of the {len(safe)} first plans of questions that have a "
        f"plan with a fit probability of {FIT} or more have it too.",
        f"- {sum(found['has_flags'] for found in have)} of {len(have)} first plans have flags or a file.",
        f"- {sum(bool(found['unconfirmed']) for found in have)} first plans rest on a feature that hardly any measured run has confirmed.",
        f"- A first plan costs {100 * statistics.median(found['loss'] for found in have):.1f} % more than the model's "
        f"optimum in the median, {100 * max(found['loss'] for found in have):.0f} % at most.",
        f"- {sum(found['kind_count'] == found['plan_count'] == 5 for found in have)} answers have five different "
        f"kinds in five lines."]
    return "\n".join(textwrap.fill(line, 100, subsequent_indent="  " if line.startswith("-") else "")
                     for line in lines)


def main():
    args = arguments()
    rows = []
    for name, question in questions():
        if not any(word in name for word in args.only):
            continue
        answer = ask(args.bin.resolve(), question)
        if "error" in answer and "plans" not in answer:
            print(f"{name}: {answer['error']['message']}", file=sys.stderr)
        rows.append((name, findings(answer)))
        print(" | ".join(row_of(*rows[-1])), flush=True)
        for text in (rows[-1][1] or {}).get("warnings", []):
            print(f"    {text}", flush=True)
    print("\n" + summary(rows))
    if args.write:
        head = ["framework", "chip", "model", "devices", "first plan", "fit", "flags", "unconfirmed", "over optimum, %", "kinds"]
        table = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *(row_of(*row) for row in rows))]
        text = f"{summary(rows)}\n\n" + "\n".join(table)
        before, rest = PAGE.read_text(encoding="utf-8").split(MARKERS[0])
        PAGE.write_text(f"{before}{MARKERS[0]}\n\n{text}\n\n{MARKERS[1]}{rest.split(MARKERS[1])[1]}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
