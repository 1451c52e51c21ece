"""Writes the residual report; called by scripts/accuracy.sh, which has the usage.

Rows, cases and figures are those of the exam's own functions (score.py). Same program, same runs and
same last commit: same bytes, so nothing here looks at a clock or at where this machine keeps its files.
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

PAGE = "docs/accuracy.md"
FOLDER = "docs/accuracy"
LAST = FOLDER + "/last.json"
STAMP = "<!-- written by scripts/accuracy.sh: do not edit -->"

# The columns of score.show, in its order.
COLUMNS = ["rows", "refus", "med %", "p90 %", "fold %", "bias", "mem %", "p90 %", "f-fit %", "f-oom %",
           "cover %", "grp", "tau", "rgrt %", "p90 %", "fails"]
TOTALS = {"all": "ALL rows", "all_but_nanotron": "ALL but nanotron"}

# Figures whose moves are shown: key of score.summarise, words, scale of the printed figure, digits.
# A move counts from 0.05 points on: 0.0005 of the plain figure.
MOVING = [("time_median", "time, median %", 100, 2), ("time_p90", "time, p90 %", 100, 2),
          ("memory_median", "memory, median %", 100, 2), ("memory_p90", "memory, p90 %", 100, 2),
          ("tau", "tau", 1, 4), ("regret_mean", "regret, mean %", 100, 2),
          ("false_fit", "false fit %", 100, 2), ("false_oom", "false out-of-memory %", 100, 2),
          ("interval_cover", "cover %", 100, 2)]
MOVE = 0.0005

WORST_TIMES, WORST_MEMORIES = 20, 10
SMALLEST_SHARE = 0.03
GIB = 2**30

# Okabe and Ito's colours, which colour-blind readers can tell apart, without yellow (white ground).
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#333333", "#7f5fc7"]

LEGEND = """\
`t` tensor, `p` pipeline, `v` virtual stages, `d` data, `c` context, `e` expert parallel (left out where
1, but for `t`, `p` and `d`), `b` micro-batch, `z` ZeRO stage (`z3/8`: inside groups of 8), then
recomputation and sequence parallelism (`sp`)."""


def fail(words, code=1):
    print(f"scripts/accuracy.sh: {words}", file=sys.stderr)
    sys.exit(code)


def load_exam(path):
    spec = importlib.util.spec_from_file_location("score", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_exam(args, mode):
    """The report of score.py in one mode, as its --json."""
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
    """A figure as last.json holds it: six digits, null for none."""
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, 6)
    return value


def figures(report):
    return {name: {key: plain(value) for key, value in summary.items()} for name, summary in report.items()}


class Exam:
    """One run of the exam in cold mode: rows, answers, figures; and the figures of warm mode."""

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
            except (OSError, ValueError, SystemExit) as error:  # e.g. it is being linked just now
                fail("the program cannot be run: " + (str(error) or type(error).__name__).splitlines()[0])
        if not self.answers:
            fail("the program answered no case")
        self.cold = run_exam(args, "cold")
        self.warm = run_exam(args, "warm")
        for source, items in self.sources.items():
            if figures({"": self.summary(items)})[""] != figures({"": self.cold[source]})[""]:
                fail(f"two runs of the program differ on {source}: was it rebuilt meanwhile? Run again")

    def summary(self, items):
        return self.score.summarise(items, self.answers)

    def cells(self, summary):
        """The figures as score.py prints them."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.score.show("x", summary)
        cells = out.getvalue().replace("|", " ").split()[1:]
        if len(cells) != len(COLUMNS):
            fail("the columns of score.py changed: adapt COLUMNS in scripts/accuracy_report.py")
        return cells


def is_of(row, name):
    return name in (row["source"], row["source"].rsplit("_", 1)[0]) or row["source"].startswith(name + "_")


def chip_of(item):
    return item["case"]["cluster"]["pools"][0]["chip"]


# Tables


def table(head, rows, left=1):
    """A Markdown table, padded to be read as text too. `left`: how many of the first columns stand left, or
    a set of their indexes; the others stand right. The last column is not padded where it stands left."""
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
    rows = [[f"[{name}](accuracy/{name}.md)" if link else name, *exam.cells(report[name])] for name in names]
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


def by_chip(exam):
    groups = collections.defaultdict(list)
    for item in exam.items:
        groups[item["source"], chip_of(item)].append(item)
    return table(["source", "chip", *COLUMNS],
                 [[*key, *exam.cells(exam.summary(items))] for key, items in sorted(groups.items())], left=2)


# What moved


def committed(path):
    """A file as the last commit has it, None where there is none."""
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
    """The moves, and the text of the page's block: where nothing changed since the last commit, the
    block stays as that commit has it, so that running again after a commit changes no file."""
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
    """Three or four digits, never an exponent."""
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
    """GiB measured and predicted: what is in use where the source prints that, as in score.summarise."""
    found = []
    for item, answer in answered(exam, items):
        if item["mem"]:
            used = item["source"] in exam.score.RESERVED and "reserved_memory_bytes" in answer
            field = "reserved_memory_bytes" if used else "peak_memory_bytes"
            found.append((item, answer, item["mem"], float(answer[field]) / GIB))
    return found


def worst(points, limit):
    """By fold, which does not saturate for what is predicted too small; not more than half of a source, so that
    its table is not printed whole."""
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


# Scatter plots


def ticks(low, high):
    """1, 2, 5 of each decade where there are few decades, else the decades: (value, is printed)."""
    found = []
    for power in range(math.floor(low), math.ceil(high) + 1):
        for digit in (1, 2, 5):
            at = power + math.log10(digit)
            if low <= at <= high:
                found.append((at, f"{digit * 10.0**power:g}", digit == 1 or high - low < 2.6))
    return found


def colours(exam, chips):
    """One colour a chip, the same on every page (their order in the exam) unless two of a page meet."""
    order = list(dict.fromkeys(chip for _, chip in exam.score.CHIPS))
    chosen = {}
    for chip in sorted(chips, key=lambda c: (order.index(c) if c in order else len(order), c)):
        start = order.index(chip) if chip in order else len(order)
        tried = [COLOURS[(start + i) % len(COLOURS)] for i in range(len(COLOURS))]
        chosen[chip] = next((c for c in tried if c not in chosen.values()), tried[0])
    return chosen


def scatter(exam, points, title, unit):
    logs = collections.defaultdict(set)
    for item, _, measured, predicted in points:
        if predicted > 0:
            logs[chip_of(item)].add((math.log10(measured), math.log10(predicted)))
    colour = colours(exam, logs)
    counts = collections.Counter(chip_of(p[0]) for p in points)
    ends = [x for chip in logs.values() for point in chip for x in point] or [0]
    low, high = min(ends), max(ends)
    margin = max(0.04 * (high - low), 0.06, (0.7 - high + low) / 2)
    low, high = low - margin, high + margin
    side, left, top = 440, 70, 44 + 20 * len(logs)
    width, height = left + side + 24, top + side + 58
    x = lambda v: left + (v - low) / (high - low) * side
    y = lambda v: top + side - (v - low) / (high - low) * side
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
           f' viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, sans-serif" font-size="13">',
           STAMP, f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
           f'<clipPath id="plot"><rect x="{left}" y="{top}" width="{side}" height="{side}"/></clipPath>',
           f'<text x="{left}" y="24" font-size="15" font-weight="bold" fill="#222222">{title}</text>']
    for i, chip in enumerate(colour):
        words = f"{chip}, {counts[chip]} run" + "s" * (counts[chip] > 1)
        out.append(f'<circle cx="{left + 6}" cy="{40 + 20 * i}" r="5" fill="{colour[chip]}"/>'
                   f'<text x="{left + 18}" y="{44.5 + 20 * i}" fill="#222222">{words}</text>')
    out.append(f'<text x="{left + side}" y="44.5" text-anchor="end" fill="#666666">line 1:1, band ±20 %</text>')
    out += axes(low, high, (x, y), (left, top, side))
    out.append('<g clip-path="url(#plot)">')
    below, above = math.log10(0.8), math.log10(1.2)
    corners = [(low, low + below), (high, high + below), (high, high + above), (low, low + above)]
    out.append('<polygon fill="#999999" fill-opacity="0.22" points="'
               + " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in corners) + '"/>')
    out.append(f'<path d="M{x(low):.1f} {y(low):.1f}L{x(high):.1f} {y(high):.1f}" stroke="#444444"/>')
    for chip in sorted(logs, key=lambda c: (-len(logs[c]), c)):  # few points above many
        out += dots(logs[chip], (x, y), colour[chip])
    out.append("</g>")
    out.append(f'<text x="{left + side / 2:.0f}" y="{top + side + 44}" text-anchor="middle" fill="#222222">'
               f'measured, {unit}</text>')
    out.append(f'<text transform="translate(18 {top + side / 2:.0f}) rotate(-90)" text-anchor="middle"'
               f' fill="#222222">predicted, {unit}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def axes(low, high, scales, box):
    (x, y), (left, top, side) = scales, box
    out = []
    for at, words, printed in ticks(low, high):
        out.append(f'<path d="M{x(at):.1f} {top}v{side}M{left} {y(at):.1f}h{side}"'
                   f' stroke="{"#d8d8d8" if printed else "#efefef"}"/>')
        if printed:
            out.append(f'<text x="{x(at):.1f}" y="{top + side + 18}" text-anchor="middle" fill="#444444">{words}</text>')
            out.append(f'<text x="{left - 8}" y="{y(at) + 4.5:.1f}" text-anchor="end" fill="#444444">{words}</text>')
    out.append(f'<rect x="{left}" y="{top}" width="{side}" height="{side}" fill="none" stroke="#888888"/>')
    return out


def dots(points, scales, colour):
    """Circles; one translucent path of round dots a line where there are very many (a tenth of the bytes)."""
    x, y = scales
    places = sorted({(f"{x(a):.1f}", f"{y(b):.1f}") for a, b in points}, key=lambda p: (float(p[0]), float(p[1])))
    if len(places) <= 300:
        return [f'<g fill="{colour}" fill-opacity="0.6" stroke="{colour}" stroke-width="0.7">',
                *(f'<circle cx="{a}" cy="{b}" r="3.2"/>' for a, b in places), "</g>"]
    strides = [places[i::8] for i in range(8)]  # neighbours in different paths, so that density shows
    out = [f'<g fill="none" stroke="{colour}" stroke-opacity="0.45" stroke-width="4.4" stroke-linecap="round">']
    for stride in strides:
        out.append('<path d="' + "\n".join("".join(f"M{a} {b}h0" for a, b in stride[i:i + 8])
                                           for i in range(0, len(stride), 8)) + '"/>')
    return [*out, "</g>"]


# Pages


def source_page(exam, source):
    """The page of one source and its plots: {path: text}."""
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
                 wrap(f"The worst {len(chosen)} of {len(time_points)} rows, by max(p/m, m/p), with the shares of "
                      "the predicted step above 3 %. Plans: " + LEGEND),
                 worst_table(chosen, "s", step_parts, "where the predicted step goes, %")]
    if memory_points:
        name = f"{source}-memory.svg"
        files[f"{FOLDER}/{name}"] = scatter(exam, memory_points, f"{source}: peak memory", "GiB")
        chosen = worst(memory_points, WORST_MEMORIES)
        kind = ("in use on the device (`reserved_memory_bytes`; `reserve` is what stays beside the peak)"
                if source in exam.score.RESERVED else "allocated (`peak_memory_bytes`)")
        text += ["## Peak memory", f"![Predicted against measured peak memory of {source}]({name})",
                 wrap(f"Memory {kind}. The worst {len(chosen)} of {len(memory_points)} rows, with the kinds above 3 %."
                      + ("" if time_points else " Plans: " + LEGEND)),
                 worst_table(chosen, "GiB", memory_parts, "what fills the device, GiB")]
    files[f"{FOLDER}/{source}.md"] = "\n\n".join(text) + "\n"
    return files


BLOCK = r"(<!-- generated: {} -->\n)(.*?)(<!-- end -->)"


def block(text, name):
    found = re.search(BLOCK.format(re.escape(name)), text, re.S)
    return found.group(2).strip("\n") if found else None


def with_blocks(text, blocks):
    for name, words in blocks.items():
        if block(text, name) is None:
            fail(f"{PAGE} has no block <!-- generated: {name} --> ... <!-- end -->")
        text = re.sub(BLOCK.format(re.escape(name)), lambda m: f"{m[1]}\n{words}\n\n{m[3]}", text, flags=re.S)
    return text


def write(files):
    os.makedirs(FOLDER, exist_ok=True)
    for name in sorted(os.listdir(FOLDER)):  # pages of sources that are no more
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
              "moved": kept, "warm": by_source(exam, exam.warm, False), "chips": by_chip(exam)}
    files = {}
    for source in sorted(exam.sources):
        files.update(source_page(exam, source))
    if args.only:
        pages = [re.sub(r"(<!--|!\[).*\n\n", "", text).rstrip()
                 for path, text in files.items() if path.endswith(".md")]
        print("\n\n".join(["# Cold", tables["cold"], "# What moved since the last commit", words, "# Warm",
                           tables["warm"], "# By chip", tables["chips"], *pages]))
        return
    try:
        with open(PAGE) as file:
            text = file.read()
    except OSError as error:
        fail(f"{PAGE}: {error.strerror}")
    files[PAGE] = with_blocks(text, tables)
    files[LAST] = json.dumps(now, indent=1, sort_keys=True) + "\n"
    write(files)
    print(f"{tables['cold']}\n\nSince the last commit:\n\n{words}\n")
    print(f"wrote {PAGE} and {len(files) - 1} files in {FOLDER}")


if __name__ == "__main__":
    main()
