"""Compares the predictions of the built-in cost model with those of the last release.

    scripts/predictions.sh             prints which predictions moved, where and by how much
    scripts/predictions.sh --write     also between the markers of docs/predictions.md
    scripts/predictions.sh --check     fails if docs/predictions.md does not say what moved
    scripts/predictions.sh --release VERSION   keeps today's predictions, for comparison with later changes

The questions cover every chip of the catalogue under some plans, and every framework on one chip
(questions.json).
"""
import argparse
import csv
import json
import pathlib
import statistics
import subprocess
import sys
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "docs/predictions.md"
KEPT = HERE / "kept.csv"
MARKERS = ("<!-- moved -->", "<!-- end of moved -->")
MOVES_ABOVE = 1e-3  # ratio; smaller moves are rounding


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/predictions.sh")
    parser.add_argument("--bin", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--write", action="store_true", help="what moved goes into docs/predictions.md")
    what.add_argument("--check", action="store_true", help="docs/predictions.md must say what moved")
    what.add_argument("--release", metavar="VERSION", help="keeps today's predictions as this release's")
    return parser.parse_args()


def run(binary, *words, text=None):
    done = subprocess.run([binary, *words], input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"meshwright {words[0]} failed ({done.returncode}): {done.stderr[-500:]}")
    return done.stdout


def cases(binary):
    """Returns (id, JSON) of every question; ids say what is asked."""
    asked = json.loads((HERE / "questions.json").read_text(encoding="utf-8"))
    chips = json.loads(run(binary, "chip", "list", "--output", "json"))["chips"]

    def case(chip, framework, model, plan):
        precision = "bf16" if "bf16" in chip["peak_flops_per_second"] else "fp16"
        return json.dumps({
            "id": f"{chip['id']}/{framework}/{model}/{plan}", "model": asked["models"][model],
            "workload": {**asked["workload"], "precision": precision, "framework": {"name": framework}},
            "cluster": {"name": "kept", "pools": [{"name": "p", "chip": chip["id"], "node_count": asked["node_count"],
                                                   "devices_per_node": 8}]},
            "plan": {**asked["plans"][model][plan], "data_parallel": data_parallel(asked, asked["plans"][model][plan])}})
    for chip in chips:
        of_vendor = asked["vendor_frameworks"].get(chip["vendor"], "megatron-core")
        frameworks = asked["frameworks"] if chip["id"] == asked["framework_chip"] else [of_vendor]
        for framework in frameworks:
            for model, plans in asked["plans"].items():
                for plan in plans:
                    yield case(chip, framework, model, plan)


def data_parallel(asked, plan):
    rest = plan.get("tensor_parallel", 1) * plan.get("pipeline_parallel", 1) * plan.get("context_parallel", 1)
    return asked["node_count"] * 8 // rest


def predictions(binary):
    """Returns {id: {name: number}}: seconds of the step and of each cause, and bytes; and the ids of the
    questions whose plan the framework refuses to run."""
    text = "\n".join(cases(binary)) + "\n"
    found, refused = {}, []
    for line in run(binary, "evaluate", "--cases", "-", "--db", "", text=text).splitlines():
        answer = json.loads(line)
        if "refuses it" in answer.get("error", {}).get("message", ""):
            refused.append(answer["id"])
            continue
        if "error" in answer:
            raise SystemExit(f"{answer['id']}: {answer['error']['message']}")
        found[answer["id"]] = {"step": answer["step_time_seconds"], "memory": float(answer["peak_memory_bytes"]),
                               **answer["breakdown_seconds"]}
    return found, refused


def read_kept():
    with open(KEPT, encoding="ascii") as file:
        version = file.readline().strip().removeprefix("# ")
        rows = {row.pop("id"): {key: float(value) for key, value in row.items()} for row in csv.DictReader(file)}
    return version, rows


def keep(version, found):
    causes = list(next(iter(found.values())))
    with open(KEPT, "w", encoding="ascii") as file:
        file.write(f"# {version}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["id", *causes])
        for name, row in found.items():
            writer.writerow([name, *(f"{row[cause]:.6g}" for cause in causes)])


def cause_of(old, new):
    """Returns the part of the step that moved most."""
    parts = [key for key in new if key not in ("step", "memory")]
    return max(parts, key=lambda key: abs(new[key] - old.get(key, 0)))


def percent(ratio):
    return f"{100 * (ratio - 1):+.1f} %" if abs(ratio - 1) > MOVES_ABOVE else "none"


def moved_rows(kept, found):
    """Returns a row for each chip and framework whose predictions moved."""
    groups = {}
    for name, new in found.items():
        old = kept.get(name)
        if old is None:
            continue
        chip, framework, *_ = name.split("/")
        ratios = (new["step"] / old["step"], new["memory"] / old["memory"])
        groups.setdefault((chip, framework), []).append((ratios, cause_of(old, new), name))
    for (chip, framework), members in sorted(groups.items()):
        moved = [m for m in members if max(abs(m[0][0] - 1), abs(m[0][1] - 1)) > MOVES_ABOVE]
        if not moved:
            continue
        most = max(moved, key=lambda m: abs(m[0][0] - 1))
        memory = max(moved, key=lambda m: abs(m[0][1] - 1))[0][1]
        yield [chip, framework, f"{len(moved)} of {len(members)}", percent(statistics.median(m[0][0] for m in moved)),
               f"{percent(most[0][0])} ({most[2].split('/', 2)[2]}, {most[1]})", percent(memory)]


def report(kept, found, refused):
    lines = ["| chip | framework | moved | step time, median | most | peak memory, most |", "|---|---|---|---|---|---|"]
    rows = list(moved_rows(kept, found))
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    if not rows:
        lines = ["Nothing moved."]
    gone = [name for name in without(kept, found) if name not in refused]
    for words, names in (("New, not compared", without(found, kept)), ("Gone, not compared", gone),
                         ("Refused, because the framework does not run the plan", refused)):
        if names:
            text = f"{words} ({len(names)} questions): {', '.join(by_chip(names, kept, found))}."
            lines += ["", *textwrap.wrap(text, 100, break_on_hyphens=False)]
    return "\n".join(lines)


def without(names, others):
    return [name for name in names if name not in others]


def by_chip(names, kept, found):
    """Returns the chip if none of its questions is compared, else the question itself."""
    compared = {name.split("/")[0] for name in found if name in kept}
    return sorted({name if name.split("/")[0] in compared else name.split("/")[0] for name in names})


def main():
    args = arguments()
    found, refused = predictions(args.bin.resolve())
    if args.release:
        keep(args.release, found)
        return 0
    version, kept = read_kept()
    text = f"Against {version}, {len(found)} questions:\n\n{report(kept, found, refused)}"
    print(text)
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(MARKERS[0])
    said, after = rest.split(MARKERS[1])
    if args.write:
        PAGE.write_text(f"{before}{MARKERS[0]}\n\n{text}\n\n{MARKERS[1]}{after}", encoding="utf-8")
    if args.check and said.strip() != text:
        print("\ndocs/predictions.md says something else: look at what moved, then scripts/predictions.sh --write",
              file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
