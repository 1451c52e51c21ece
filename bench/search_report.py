"""Reports how fast questions are answered; called by scripts/bench_search.sh, which has the
usage."""
import argparse
import json
import math
import os
import pathlib
import platform
import re
import subprocess
import tempfile

import calculon_rate
from measured import digits, fail, must_run, paragraph, shown, spread, table

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/benchmarks/search.md"
MARKERS = ("<!-- figures -->", "<!-- end of figures -->")  # --write writes the text between them
SECTIONS = ("answers", "tiers", "growth", "calculon")

# The requirements of the search (docs/benchmarks/search.md).
PEAK_LIMIT_BYTES = 500e6
RATE_TARGETS = {"ClosedFormWarm/gpt3_175b_on_4096_a100": 1e6, "Finalist": 2000}

GROWS = "gpt3_175b_on_4096_a100"  # its cluster shrinks and grows; the batch stays
COMPARED = ("gpt3_175b_on_64_a100", "gpt3_175b_on_512_a100", "gpt3_175b_on_4096_a100")
EXIT_INFEASIBLE = 4

COUNTED = """\
A plan counts if its step time and the memory of each of its stages were computed. Plans that a
bound cut do not count. All benchmarks use one thread, and the costs of layers were calculated
before. `ClosedFormWarm` has 1,000 random plans of the whole space. `Finalist` simulates the
pipeline of a plan with 16 stages and 128 micro-batches."""

COMPARISON = """\
Both programs have the same model, devices and batch, and one core; times are seconds of processor
time. Calculon's `llm-optimal-execution --mbs-break` runs on random pieces of its search until
{seconds} s are spent. *Executions* are all that it tries, including those that it rejects before
their time is known. *Good* ones have a time and fit. *Our plans* are those of
`ClosedFormWarm/gpt3_175b_on_4096_a100`, counted as above. *Its search* is the time of the sample
scaled to all pieces; *our answer* is the time of the whole process. The two spaces are not the
same."""


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/bench_search.sh")
    parser.add_argument("--quick", action="store_true", help="two runs of each, fewer sizes")
    parser.add_argument("--runs", type=int, help="runs of each answer (7; with --quick 2)")
    parser.add_argument("--json", metavar="FILE", help="also writes all figures there")
    parser.add_argument("--write", action="store_true", help="also writes the report into docs/benchmarks/search.md")
    parser.add_argument("--section", action="append", choices=SECTIONS, help="only these; repeatable")
    parser.add_argument("--question", action="append", metavar="NAME",
                        help="only these of bench/questions.json; repeatable")
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build/release/bin",
                        help="folder of meshwright and estimate_bench")
    asked = parser.parse_args()
    asked.runs = asked.runs or (2 if asked.quick else 7)
    if asked.runs < 1:
        parser.error("--runs must be at least 1")
    if asked.write and (asked.section or asked.question):
        parser.error("--write writes the whole report: leave out --section and --question")
    return asked


def questions():
    return json.loads((ROOT / "bench/questions.json").read_text())


def named(name):
    return next((row for row in questions() if row["name"] == name),
                None) or fail(f"no question {name} in bench/questions.json")


def devices_of(question):
    return question["node_count"] * question["devices_per_node"]


def write_question(question, folder):
    """Writes the question and returns the arguments of `meshwright tune` that ask it."""
    pool = {"name": "a", **{key: question[key] for key in ("chip", "node_count", "devices_per_node")}}
    files = {"workload": {"sequence_length": question["sequence_length"],
                          "global_batch_size": question["global_batch_size"],
                          "framework": {"name": question["framework"]}},
             "cluster": {"name": "bench", "pools": [pool]}}
    flags = ["--model", str(ROOT / question["model"])]
    for name, content in files.items():
        path = pathlib.Path(folder) / f"{name}.json"
        path.write_text(json.dumps(content))
        flags += [f"--{name}", str(path)]
    return flags


def answer(asked, question):
    """Asks the same question several times, each in a new process."""
    with tempfile.TemporaryDirectory() as folder:
        command = [asked.programs / "meshwright", "tune", *write_question(question, folder),
                   "--output", "json", "--no-record"]
        runs = [must_run(command, allowed=(0, EXIT_INFEASIBLE)) for _ in range(asked.runs)]
    search = json.loads(runs[0].out).get("search")  # None if no plan fits
    return {"question": question["name"], "devices": devices_of(question),
            "limit_seconds": question.get("limit_seconds"),
            "seconds": spread([run.seconds for run in runs]),
            "cpu_seconds": spread([run.cpu_seconds for run in runs]),
            "peak_bytes": max(run.peak_bytes for run in runs), "fits": search is not None,
            **{key: (search or {}).get(key) for key in
               ("space_count", "evaluated_count", "complete", "optimality_gap_ratio")}}


def measure_answers(asked):
    rows = [row for row in questions() if not asked.question or row["name"] in asked.question]
    return [answer(asked, row) for row in rows]


def search_cells(row):
    if not row["fits"]:
        return ["no plan fits", "", "", ""]
    proven = "yes" if row["complete"] and row["optimality_gap_ratio"] == 0 else "no"
    return [f"{row['space_count']:.3g}", f"{row['evaluated_count']:,}", proven,
            f"{row['space_count'] / row['seconds']['median']:.2g}"]


def answers_text(rows):
    words = paragraph("The process `meshwright tune`, its start included; seconds are the median (range) of "
                      f"{rows[0]['seconds']['count']} runs, the peak is the largest resident set (limit: "
                      f"{PEAK_LIMIT_BYTES / 1e6:.0f} MB). Proven: complete, with a gap of 0.")
    cells = []
    for row in rows:
        limit = "" if row["limit_seconds"] is None else f"{row['limit_seconds']} s"
        cells.append([f"`{row['question']}`", shown(row["seconds"]), limit,
                      digits(row["cpu_seconds"]["median"]), f"{row['peak_bytes'] / 1e6:.0f} MB",
                      *search_cells(row)])
    return f"### Whole answers\n\n{words}\n\n" + table(
        ["question", "seconds", "limit", "CPU s", "peak", "space", "evaluated", "proven", "space / s"], cells)


def measure_tiers(asked):
    program = asked.programs / "estimate_bench"
    if not program.is_file():
        fail(f"no {program}: build the release first")
    done = must_run([program, "--benchmark_filter=ClosedFormWarm|Finalist", "--benchmark_format=json",
                     f"--benchmark_repetitions={asked.runs}",
                     f"--benchmark_min_time={0.02 if asked.quick else 0.5}"])
    rates = {}
    for row in json.loads(done.out)["benchmarks"]:
        if row["run_type"] == "iteration":
            rates.setdefault(row["run_name"].removeprefix("BM_"), []).append(row["items_per_second"])
    return [{"benchmark": name, "plans_per_second": spread(figures),
             "target": RATE_TARGETS.get(name, RATE_TARGETS.get(name.split("/")[0]))}
            for name, figures in rates.items()]


def tiers_text(rows):
    return f"### Plans a second and core\n\n{COUNTED}\n\n" + table(
        ["benchmark", "plans / s", "at least"],
        [[f"`{row['benchmark']}`", shown(row["plans_per_second"]),
          f"{row['target']:,.0f}" if row["target"] else ""] for row in rows])


def slope(points):
    """Returns the slope of the least-squares line through (log x, log y), or None for fewer than
    three points."""
    if len(points) < 3:
        return None
    logs = [(math.log(x), math.log(y)) for x, y in points]
    mean_x = sum(x for x, _ in logs) / len(logs)
    mean_y = sum(y for _, y in logs) / len(logs)
    return (sum((x - mean_x) * (y - mean_y) for x, y in logs) /
            sum((x - mean_x) ** 2 for x, _ in logs))


def measure_growth(asked):
    question = named(GROWS)
    # Measures what any command takes: the program's start, and loading its chips and profiles.
    starts = [must_run([asked.programs / "meshwright", "chip", "list"]) for _ in range(asked.runs)]
    start = spread([run.seconds for run in starts])
    rows = []
    for power in range(0, 15, 2 if asked.quick else 1):
        nodes = 2**power
        rows.append(answer(asked, {**question, "node_count": nodes, "limit_seconds": None,
                                   "name": f"{nodes * question['devices_per_node']} devices"}))
    timed = [(row, row["seconds"]["median"] - start["median"]) for row in rows if row["fits"]]
    timed = [(row, seconds) for row, seconds in timed if seconds > 0]
    return {"start_seconds": start, "rows": rows,
            "exponent_of_space": slope([(row["space_count"], seconds) for row, seconds in timed]),
            "exponent_of_devices": slope([(row["devices"], seconds) for row, seconds in timed])}


def growth_text(growth):
    words = paragraph("GPT-3 175B, a global batch of 1,536, on more and more A100. What any command of the "
                      f"program takes, {digits(growth['start_seconds']['median'])} s, is in the seconds but "
                      "not in the exponents; sizes at which no plan fits are not in the exponents either.")
    words = f"### Growth\n\n{words}\n\n"
    words += table(["devices", "seconds", "CPU s", "peak", "space", "evaluated", "proven", "space / s"],
                   [[f"{row['devices']:,}", shown(row["seconds"]), digits(row["cpu_seconds"]["median"]),
                     f"{row['peak_bytes'] / 1e6:.0f} MB", *search_cells(row)] for row in growth["rows"]])
    exponents = [growth["exponent_of_space"], growth["exponent_of_devices"]]
    if None not in exponents:
        words += ("\n\nTime grows as space^{:.2f} and as devices^{:.2f} (least squares of the logarithms)."
                  .format(*exponents))
    return words


def measure_calculon(asked, tiers):
    """Compares our search with Calculon's; with --quick, only for the smallest question."""
    ours = next(row["plans_per_second"]["median"] for row in tiers
                if row["benchmark"] == f"ClosedFormWarm/{GROWS}")
    seconds = 2 if asked.quick else 60
    rows = []
    for name in COMPARED[:1] if asked.quick else COMPARED:
        question = named(name)
        model = json.loads((ROOT / question["model"]).read_text())
        with tempfile.TemporaryDirectory() as scratch:
            theirs = calculon_rate.search(question, model, scratch, seconds)
        rows.append({**theirs, "our_plans_per_second": ours, "asked_seconds": seconds,
                     "our_cpu_seconds": answer(asked, question)["cpu_seconds"]["median"]})
    return rows


def calculon_text(rows):
    words = COMPARISON.format(seconds=rows[0]["asked_seconds"])
    cells = []
    for row in rows:
        ours = row["our_plans_per_second"]
        good = row["good_executions_per_second"]
        cells.append([f"`{row['question']}`", f"{row['pieces']:,} of {row['all_pieces']:,}",
                      digits(row["executions_per_second"]), digits(good), digits(ours),
                      digits(ours / row["executions_per_second"]), digits(ours / good) if good else "",
                      f"{digits(row['whole_cpu_seconds'])} s", f"{digits(row['our_cpu_seconds'])} s"])
    return f"### Beside Calculon\n\n{words}\n\n" + table(
        ["question", "pieces", "executions / s", "good / s", "our plans / s", "ratio, of all", "of good",
         "its search", "our answer"], cells)


def machine():
    processor = platform.processor()
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text()
        processor = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)[1]
    except (OSError, TypeError):
        pass
    commit = subprocess.run(["git", "-c", f"safe.directory={ROOT}", "-C", ROOT, "rev-parse", "--short", "HEAD"],
                            capture_output=True, text=True, check=False)
    return {"processor": processor, "cores": len(os.sched_getaffinity(0)),
            "load": round(os.getloadavg()[0], 2), "commit": commit.stdout.strip() or "no commit"}


class Page:
    """The report. It is printed part by part, and written between the markers of
    docs/benchmarks/search.md."""

    def __init__(self, first):
        self.parts = []
        self.add(first)

    def add(self, part):
        self.parts.append(part)
        print(part + "\n", flush=True)

    def write(self):
        before, begin, rest = PAGE.read_text().partition(MARKERS[0])
        _, end, after = rest.partition(MARKERS[1])
        PAGE.write_text("\n\n".join([before + begin, *self.parts, end + after]))


def main():
    asked = arguments()
    for name in asked.question or []:
        named(name)
    sections = asked.section or SECTIONS
    compares = "calculon" in sections and calculon_rate.source() is not None
    if asked.section and "calculon" in sections and not compares:
        fail("CALCULON_SRC names no folder of Calculon")
    report = {"machine": machine()}
    page = Page("Measured on {processor}, {cores} cores, load {load} at the start, {commit}."
                .format(**report["machine"]))
    if "answers" in sections:
        report["answers"] = measure_answers(asked)
        page.add(answers_text(report["answers"]))
    if "tiers" in sections or compares:
        report["tiers"] = measure_tiers(asked)
        page.add(tiers_text(report["tiers"]))
    if "growth" in sections:
        report["growth"] = measure_growth(asked)
        page.add(growth_text(report["growth"]))
    if compares:
        report["calculon"] = measure_calculon(asked, report["tiers"])
        page.add(calculon_text(report["calculon"]))
    if asked.json:
        pathlib.Path(asked.json).write_text(json.dumps(report, indent=1) + "\n")
    if asked.write:
        page.write()


if __name__ == "__main__":
    main()
