"""Writes the residual report; called by scripts/accuracy.sh, which has the usage.

Rows, cases and figures come from the exam's own functions (score.py). The same program, runs and
last commit give the same bytes, so nothing here uses a clock or the place where this machine keeps
its files.
"""
import argparse
import collections
import contextlib
import importlib.util
import io
import json
import math
import os
import re
import subprocess
import sys
import tempfile

from accuracy_completed import Completed
from accuracy_plots import STAMP, chip_of, scatter

PAGE = "docs/accuracy.md"
FOLDER = "docs/accuracy"
# The page of each generated block.
PAGES = {"moved": PAGE, "cold": FOLDER + "/cold.md", "warm": FOLDER + "/warm.md",
         "transfer": FOLDER + "/warm.md", "chips": FOLDER + "/by_chip.md",
         "frameworks": FOLDER + "/by_framework.md", "completed": FOLDER + "/recipes.md"}
LAST = FOLDER + "/last.json"

# The columns of score.show, in its order.
COLUMNS = ["rows", "refus", "med %", "p90 %", "fold %", "bias", "mem %", "p90 %", "f-fit %", "f-oom %",
           "cover %", "grp", "tau", "rgrt %", "p90 %", "fails"]
TOTALS = {"all": "ALL rows", "all_but_nanotron": "ALL but nanotron"}

# The figures whose moves are shown: key of score.summarise, words, scale of the printed figure,
# digits. A move counts if it is at least 0.05 points, which is 0.0005 of the plain figure.
MOVING = [("time_median", "time, median %", 100, 2), ("time_p90", "time, p90 %", 100, 2),
          ("memory_median", "memory, median %", 100, 2), ("memory_p90", "memory, p90 %", 100, 2),
          ("tau", "tau", 1, 4), ("regret_mean", "regret, mean %", 100, 2),
          ("false_fit", "false fit %", 100, 2), ("false_oom", "false out-of-memory %", 100, 2),
          ("interval_cover", "cover %", 100, 2)]
MOVE = 0.0005

WORST_TIMES, WORST_MEMORIES = 20, 10
SMALLEST_SHARE = 0.03
GIB = 2**30

LEGEND = """\
`t` is tensor, `p` pipeline, `d` data, `c` context and `e` expert parallelism, and `v` the number of
virtual stages. `b` is the micro-batch size, and `z` the ZeRO stage (`z3/8`: inside groups of 8).
Sizes of 1 are left out, except those of `t`, `p` and `d`. Recomputation and sequence parallelism
(`sp`) follow."""


def fail(words, code=1):
    print(f"scripts/accuracy.sh: {words}", file=sys.stderr)
    sys.exit(code)


def load_exam(path):
    spec = importlib.util.spec_from_file_location("score", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_exam(args, mode):
    """Returns the report of score.py in one mode, as its --json."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "report.json")
        command = [sys.executable, "-B", args.exam, "--bin", args.bin, "--data", args.data, "--mode", mode,
                   "--own", "3", "--json", out] + (["--only", *args.only] if args.only else [])
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["no words"]
            fail(f"the exam failed in mode {mode}: {lines[-1]}")
        with open(out) as file:
            return json.load(file)


def plain(value):
    """Formats a figure for last.json: six digits, null for none."""
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, 6)
    return value


def figures(report):
    return {name: {key: plain(value) for key, value in summary.items()} for name, summary in report.items()}


class Exam:
    """One run of the exam in cold mode, with rows, answers and figures; and the figures of the
    other modes."""

    def __init__(self, args):
        self.score = load_exam(args.exam)
        rows = self.score.load(args.data, args.only)
        unknown = [name for name in args.only or [] if not any(is_of(row, name) for row in rows)]
        if unknown:
            fail(f"no measured runs of {', '.join(unknown)}", 2)
        self.measured = len(rows)
        self.items = [row for row in rows if row["case"]]
        if not self.items:
            fail("no run of these sources states enough to be a case", 2)
        self.sources = collections.defaultdict(list)
        for item in self.items:
            self.sources[item["source"]].append(item)
        self.answers = {}
        for _, items in sorted(self.sources.items()):
            try:
                self.answers.update(self.score.evaluate(args.bin, [i["case"] for i in items])[0])
            except (OSError, ValueError, SystemExit) as error:  # for example, it is just being linked
                fail("the program cannot be run: " + (str(error) or type(error).__name__).splitlines()[0])
        if not self.answers:
            fail("the program answered no case")
        self.cold = run_exam(args, "cold")
        self.warm = run_exam(args, "warm")
        self.transfer = run_exam(args, "transfer")
        for source, items in self.sources.items():
            if figures({"": self.summary(items)})[""] != figures({"": self.cold[source]})[""]:
                fail(f"two runs of the program differ on {source}: was it rebuilt meanwhile? Run again")

    def summary(self, items):
        return self.score.summarise(items, self.answers)

    def cells(self, summary):
        """Returns the figures as score.py prints them."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.score.show("x", summary)
        cells = out.getvalue().replace("|", " ").split()[1:]
        if len(cells) != len(COLUMNS):
            fail("the columns of score.py changed: adapt COLUMNS in scripts/accuracy_report.py")
        return cells


def is_of(row, name):
    return name in (row["source"], row["source"].rsplit("_", 1)[0]) or row["source"].startswith(name + "_")


# Tables


def table(head, rows, left=1):
    """Returns a Markdown table that is padded so that it can also be read as text. `left` is the
    number of first columns that are aligned left, or a set of their indexes; the others are aligned
    right. If the last column is aligned left, it is not padded."""
    left = left if isinstance(left, set) else set(range(left))
    rows = [[str(cell).replace("|", "\\|") for cell in row] for row in rows]
    widths = [max(3, *(len(row[i]) for row in [head, *rows])) for i in range(len(head))]
    if len(head) - 1 in left:
        widths[-1] = max(3, len(head[-1]))
    lines = [[cell.ljust(width) if i in left else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths))]
             for row in [head, *rows]]
    lines.insert(1, ["-" * width if i in left else "-" * (width - 1) + ":" for i, width in enumerate(widths)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def by_source(exam, report, link):
    if not report["all"]["rows"]:
        return "No group of runs is large enough."
    names = [name for name in sorted(report) if name not in TOTALS and name != "mean_of_sources"]
    rows = [[f"[{name}]({name}.md)" if link else name, *exam.cells(report[name])] for name in names]
    rows += [[words, *exam.cells(report[name])] for name, words in TOTALS.items() if name in report]
    mean = report["mean_of_sources"]
    words = ", ".join(f"{key} {value:.3f}" for key, value in mean.items() if value is not None)
    return "\n\n".join([table(["source", *COLUMNS], rows), *([wrap(f"Mean of the sources: {words}.")] if words else [])])


def wrap(text, width=100):
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return "\n".join(lines)


def by_framework(exam, completed):
    """Returns the figures from which the checked_* and *_time_ratio facts of the framework profiles
    are made."""
    groups = collections.defaultdict(list)
    for item, _, measured, predicted in [*times(exam, exam.items), *times(completed, completed.items)]:
        framework = item["case"]["workload"]["framework"]
        groups[framework["name"], framework["version"] or "-"].append((item, measured / predicted))
    rows = []
    for key, points in sorted(groups.items()):
        counts = collections.Counter(item["source"] for item, _ in points)
        weighted = sorted((ratio, 1 / counts[item["source"]] / len(counts)) for item, ratio in points)
        devices = max(sum(p["node_count"] * p["devices_per_node"] for p in item["case"]["cluster"]["pools"])
                      for item, _ in points)
        rows.append([*key, len(points), *(f"{quantile(weighted, share):.2f}" for share in (0.1, 0.5, 0.9)), devices,
                     " ".join(sorted({chip_of(item) for item, _ in points})), " ".join(sorted(counts))])
    head = ["framework", "version", "runs", "p10", "median", "p90", "devices", "chips", "sources"]
    return table(head, rows, left={0, 1, 7, 8})


def quantile(weighted, share):
    """Returns a quantile of sorted (value, weight), whose weights add up to 1."""
    below = 0
    for value, weight in weighted:
        below += weight
        if below >= share:
            return value
    return weighted[-1][0]


def by_chip(exam):
    groups = collections.defaultdict(list)
    for item in exam.items:
        groups[item["source"], chip_of(item)].append(item)
    return table(["source", "chip", *COLUMNS],
                 [[*key, *exam.cells(exam.summary(items))] for key, items in sorted(groups.items())], left=2)


# Moves since the last commit


def committed(path):
    """Returns a file as of the last commit, or None if it is not there."""
    done = subprocess.run(["git", "-c", "safe.directory=" + os.getcwd(), "show", "HEAD:" + path],
                          capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def moves(before, now):
    rows = []
    for name in sorted(set(now) | set(before), key=lambda n: (n in TOTALS, n)):
        if name not in now or name not in before:
            rows.append([TOTALS.get(name, name), "source", "", "new" if name in now else "gone", ""])
            continue
        for key, words, scale, digits in MOVING:
            a, b = before[name].get(key), now[name].get(key)
            if a == b or (a is not None and b is not None and abs(b - a) <= MOVE):
                continue
            printed = ["-" if v is None else f"{v * scale:.{digits}f}" for v in (a, b)]
            change = "" if a is None or b is None else f"{(b - a) * scale:+.{digits}f}"
            rows.append([TOTALS.get(name, name), words, *printed, change])
    if not rows:
        return "No figure moved by more than 0.05 points."
    return table(["source", "figure", "before", "now", "change"], rows, left=2)


def moved(now, only):
    """Returns the moves, and the text of the page's block. If nothing changed since the last
    commit, the block stays as that commit has it, so that running again after a commit changes no
    file."""
    text = committed(LAST)
    if text is None:
        words = "This is the first report: there is none to compare it with."
        return words, words
    before = json.loads(text)
    if only:
        before = {name: before[name] for name in before if name in now}
    words = moves(before, now)
    kept = block(committed(PAGE) or "", "moved") if before == now else None
    return words, kept if kept is not None else words


# Plans and residuals


def short_plan(plan):
    degrees = [("t", "tensor_parallel", 0), ("p", "pipeline_parallel", 0), ("v", "virtual_pipeline", 1),
               ("d", "data_parallel", 0), ("c", "context_parallel", 1), ("e", "expert_parallel", 1)]
    words = [f"{letter}{plan[key]}" for letter, key, silent in degrees if plan[key] != silent]
    group = f"/{plan['zero_group_size']}" if plan["zero_group_size"] else ""
    words += [f"b{plan['micro_batch_size']}", f"z{plan['zero_stage']}{group}", plan["recompute"]["granularity"]]
    return " ".join(words + ["sp"] * plan["sequence_parallel"])


def figure(value):
    """Formats three or four digits, without an exponent."""
    if value == 0 or not math.isfinite(value):
        return str(value)
    return f"{value:.{max(0, 3 - math.floor(math.log10(abs(value))))}f}" if abs(value) < 1000 else f"{value:.0f}"


def shares(parts, total, scale, digits):
    big = [(value, name) for name, value in parts.items() if value >= SMALLEST_SHARE * total > 0]
    big.sort(key=lambda part: (-part[0], part[1]))
    return ", ".join(f"{name} {value * scale:.{digits}f}" for value, name in big)


def answered(exam, items):
    pairs = [(item, exam.answers.get(item["case"]["id"])) for item in items]
    return [(item, answer) for item, answer in pairs if answer and "error" not in answer]


def times(exam, items):
    return [(item, answer, item["time"], float(answer["step_time_seconds"]))
            for item, answer in answered(exam, items) if item["time"]]


def memories(exam, items):
    """Returns the GiB measured and predicted: the memory in use if the source prints that, as in
    score.summarise."""
    found = []
    for item, answer in answered(exam, items):
        if item["mem"]:
            used = item["source"] in exam.score.RESERVED and "reserved_memory_bytes" in answer
            field = "reserved_memory_bytes" if used else "peak_memory_bytes"
            found.append((item, answer, item["mem"], float(answer[field]) / GIB))
    return found


def worst(points, limit):
    """Returns the worst points by fold error, which does not saturate for predictions that are too
    small. Returns at most half of a source, so that its table is not printed whole."""
    fold = lambda p: max(p[2] / p[3], p[3] / p[2]) if p[3] > 0 else math.inf
    ranked = sorted(points, key=lambda p: (-fold(p), p[0]["case"]["id"]))
    return ranked[:min(limit, max(1, len(points) // 2))]


def worst_rows(points, breakdown):
    rows = []
    for item, answer, measured, predicted in points:
        case = item["case"]
        devices = sum(pool["node_count"] * pool["devices_per_node"] for pool in case["cluster"]["pools"])
        rows.append([f"`{case['id']}`", case["model"]["name"], devices, chip_of(item), short_plan(case["plan"]),
                     figure(measured), figure(predicted), f"{predicted / measured:.3f}", breakdown(answer, predicted)])
    return rows


def worst_table(points, unit, breakdown, words):
    head = ["case", "model", "dev", "chip", "plan", "measured " + unit, "predicted " + unit, "p/m", words]
    return table(head, worst_rows(points, breakdown), left={0, 1, 3, 4, 8})


def step_parts(answer, predicted):
    return shares(answer["breakdown_seconds"], predicted, 100 / predicted, 0)


def memory_parts(answer, predicted):
    parts = dict(answer["memory_breakdown_bytes"])
    parts["reserve"] = predicted * GIB - sum(parts.values())
    return shares(parts, predicted * GIB, 1 / GIB, 1)


# Pages


def source_page(exam, source):
    """Returns the page of one source and its plots: {path: text}."""
    items = exam.sources[source]
    origin = " and ".join(sorted({item["row"]["source"] for item in items}))
    files, text = {}, [STAMP, f"# {source}", wrap(f"Runs: {origin}. The columns are explained in "
                                                  "[accuracy.md](../accuracy.md).")]
    summary = [["cold", *exam.cells(exam.cold[source])]]
    if source in exam.warm:
        summary.append(["warm", *exam.cells(exam.warm[source])])
    text.append(table(["mode", *COLUMNS], summary))
    time_points, memory_points = times(exam, items), memories(exam, items)
    if time_points:
        name = f"{source}-time.svg"
        files[f"{FOLDER}/{name}"] = scatter(exam, time_points, f"{source}: step time", "s")
        chosen = worst(time_points, WORST_TIMES)
        text += ["## Step time", f"![Predicted against measured step time of {source}]({name})",
                 wrap(f"The table has {len(chosen)} of {len(time_points)} rows, those with the greatest max(p/m, m/p). Its last "
                      "column has the parts that take more than 3 % of the predicted step. In plans, " + LEGEND),
                 worst_table(chosen, "s", step_parts, "where the predicted step goes, %")]
    if memory_points:
        name = f"{source}-memory.svg"
        files[f"{FOLDER}/{name}"] = scatter(exam, memory_points, f"{source}: peak memory", "GiB")
        chosen = worst(memory_points, WORST_MEMORIES)
        kind = ("the memory in use on the device (`reserved_memory_bytes`; `reserve` is its part that is not in the peak)"
                if source in exam.score.RESERVED else "the allocated memory (`peak_memory_bytes`)")
        text += ["## Peak memory", f"![Predicted against measured peak memory of {source}]({name})",
                 wrap(f"The figures are {kind}. The table has the {len(chosen)} worst of {len(memory_points)} rows, with the "
                      "kinds of memory above 3 %." + ("" if time_points else " In plans, " + LEGEND)),
                 worst_table(chosen, "GiB", memory_parts, "what fills the device, GiB")]
    files[f"{FOLDER}/{source}.md"] = "\n\n".join(text) + "\n"
    return files


def completed_table(exam, completed):
    if not completed.items:
        return "No run of these sources was completed."
    groups = collections.defaultdict(list)
    for item in completed.items:
        groups[item["source"], chip_of(item), "MoE" if "moe" in item["case"]["model"] else "dense"].append(item)
    rows = [[*key, *exam.cells(exam.score.summarise(items, completed.answers))]
            for key, items in sorted(groups.items())]
    rows.append(["all", "", "", *exam.cells(exam.score.summarise(completed.items, completed.answers))])
    return table(["source", "chip", "model", *COLUMNS], rows, left=3)


def completed_page(exam, completed):
    """Returns every completed run with its plan and its recipe: {path: text}."""
    if not completed.items:
        return {}
    points = [(item, answer, item["time"], float(answer["step_time_seconds"]))
              for item, answer in answered(completed, completed.items) if item["time"]]
    name = "completed-time.svg"
    recipes = [[str(i + 1), recipe["source"], f"`{recipe['cases']}`", recipe["confidence"], recipe["recipe"]]
               for i, recipe in enumerate(completed.used)]
    words = "where the predicted step goes, %"
    text = [STAMP, "# Completed runs",
            wrap("These runs do not state all facts, but a public recipe of the same version does. [recipes.json](recipes.json) "
                 "lists the facts and their recipes. In plans, " + LEGEND),
            f"![Predicted against measured step time of completed runs]({name})",
            table(["case", "model", "dev", "chip", "plan", "measured s", "predicted s", "p/m", words],
                  worst_rows(sorted(points, key=lambda p: p[0]["case"]["id"]), step_parts), left={0, 1, 3, 4, 8}),
            "## Recipes", table(["no", "source", "cases", "confidence", "what it says"], recipes, left={1, 2, 3, 4})]
    return {f"{FOLDER}/completed.md": "\n\n".join(text) + "\n",
            f"{FOLDER}/{name}": scatter(exam, points, "completed runs: step time", "s")}


BLOCK = r"(<!-- generated: {} -->\n)(.*?)(<!-- end -->)"


def block(text, name):
    found = re.search(BLOCK.format(re.escape(name)), text, re.S)
    return found.group(2).strip("\n") if found else None


def with_blocks(text, path, blocks):
    for name, words in blocks.items():
        if block(text, name) is None:
            fail(f"{path} has no block <!-- generated: {name} --> ... <!-- end -->")
        text = re.sub(BLOCK.format(re.escape(name)), lambda m: f"{m[1]}\n{words}\n\n{m[3]}", text, flags=re.S)
    return text


def block_pages(blocks):
    """The pages that hold the generated blocks, with these blocks in them: {path: text}."""
    pages = {}
    for path in sorted(set(PAGES.values())):
        try:
            with open(path) as file:
                text = file.read()
        except OSError as error:
            fail(f"{path}: {error.strerror}")
        pages[path] = with_blocks(text, path, {name: words for name, words in blocks.items() if PAGES[name] == path})
    return pages


def write(files):
    os.makedirs(FOLDER, exist_ok=True)
    for name in sorted(os.listdir(FOLDER)):  # removes pages of sources that no longer exist
        path = f"{FOLDER}/{name}"
        if path not in files and name.endswith((".md", ".svg")):
            with open(path) as file:
                stale = STAMP in file.read(1000)
            if stale:
                os.remove(path)
    for path, text in files.items():
        with open(path, "w") as file:
            file.write(text)


def main():
    parser = argparse.ArgumentParser()
    for option in ("--exam", "--data", "--bin"):
        parser.add_argument(option, required=True)
    parser.add_argument("--only", nargs="+")
    args = parser.parse_args()
    exam = Exam(args)
    now = figures({name: summary for name, summary in exam.cold.items() if name != "mean_of_sources"})
    if args.only:
        now = {name: summary for name, summary in now.items() if name not in TOTALS}
    words, kept = moved(now, args.only)
    tables = {"cold": wrap(f"{len(exam.items):,} of {exam.measured:,} measured rows state enough to be a case; "
                           f"{exam.cold['all']['refused'] or 'none'} refused.")
                      + "\n\n" + by_source(exam, exam.cold, not args.only),
              "moved": kept, "warm": by_source(exam, exam.warm, False),
              "transfer": by_source(exam, exam.transfer, False), "chips": by_chip(exam)}
    completed = Completed(exam, args)
    tables["frameworks"] = by_framework(exam, completed)
    tables["completed"] = completed_table(exam, completed)
    files = completed_page(exam, completed)
    for source in sorted(exam.sources):
        files.update(source_page(exam, source))
    if args.only:
        pages = [re.sub(r"(<!--|!\[).*\n\n", "", text).rstrip()
                 for path, text in files.items() if path.endswith(".md")]
        print("\n\n".join(["# Cold", tables["cold"], "# What moved since the last commit", words, "# Warm",
                           tables["warm"], "# Transfer", tables["transfer"], "# By chip", tables["chips"], "# By framework", tables["frameworks"],
                           "# Completed", tables["completed"], *pages]))
        return
    files.update(block_pages(tables))
    files[LAST] = json.dumps(now, indent=1, sort_keys=True) + "\n"
    write(files)
    print(f"{tables['cold']}\n\nSince the last commit:\n\n{words}\n")
    print(f"wrote {PAGE} and {len(files) - 1} files in {FOLDER}")


if __name__ == "__main__":
    main()
