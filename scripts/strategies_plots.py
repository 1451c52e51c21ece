"""Plots how fast search strategies find good plans, and makes the table; used by
strategies_report.sh.

Reads docs/search/strategies.csv. Writes docs/search/QUESTION.svg and, between its markers, the
table of docs/search/strategies.md.
"""
import collections
import csv
import math
import pathlib
import statistics
import sys

FOLDER = pathlib.Path("docs/search")
PAGE = FOLDER / "strategies.md"
BEGIN, END = "<!-- strategies: begin -->", "<!-- strategies: end -->"
STAMP = "<!-- written by scripts/strategies_report.sh: do not edit -->"
EXHAUSTIVE = "exhaustive"
# Okabe and Ito's colours, as in accuracy_plots.py.
COLOURS = {EXHAUSTIVE: "#333333", "coordinate_descent": "#0072b2", "mcmc": "#d55e00",
           "evolutionary": "#009e73", "random": "#cc79a7"}
WIDTH, HEIGHT, LEFT, TOP = 560, 320, 70, 74
WORST = 3.0  # times the optimum; top of the plots


def read(path):
    """Returns question -> strategy -> one [(evaluations, step time)] per seed. The time is absent
    while nothing fits."""
    found = collections.defaultdict(lambda: collections.defaultdict(dict))
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            time = float(row["best_step_time_seconds"] or "inf")
            seeds = found[row["question"]][row["strategy"]]
            seeds.setdefault(row["seed"], []).append((int(row["evaluations"]), time))
    return {question: {strategy: list(seeds.values()) for strategy, seeds in by_strategy.items()}
            for question, by_strategy in found.items()}


def best_after(trace, evaluations):
    times = [time for at, time in trace if at <= evaluations]
    return times[-1] if times else math.inf


def evaluations_until(trace, time):
    return next((at for at, best in trace if best <= time), math.inf)


def steps(traces, pick, optimum):
    """Returns the points where the curve over all seeds changes: [(evaluations, ratio)]."""
    points = sorted({at for trace in traces for at, _ in trace})
    return [(at, pick([best_after(trace, at) for trace in traces]) / optimum) for at in points]


def scales(limit):
    x = lambda at: LEFT + math.log10(at) / math.log10(limit) * WIDTH
    y = lambda ratio: TOP + HEIGHT * (1 - math.log(min(ratio, WORST)) / math.log(WORST))
    return x, y


def path_of(points, x, y, limit):
    """Returns a staircase from the first point that fits to the limit."""
    points = [p for p in points if p[1] < math.inf]
    if not points:
        return ""
    out = [f"M{x(points[0][0]):.1f} {TOP}V{y(points[0][1]):.1f}"]
    for at, ratio in points[1:]:
        out.append(f"H{x(at):.1f}V{y(ratio):.1f}")
    return "".join([*out, f"H{x(limit):.1f}"])


def axes(x, y, limit):
    out = []
    for power in range(int(math.log10(limit)) + 1):
        at = 10**power
        out.append(f'<path d="M{x(at):.1f} {TOP}v{HEIGHT}" stroke="#d8d8d8"/>'
                   f'<text x="{x(at):.1f}" y="{TOP + HEIGHT + 18}" text-anchor="middle" fill="#444444">{at:,}</text>')
    for ratio in (1.0, 1.05, 1.2, 1.5, 2.0, WORST):
        out.append(f'<path d="M{LEFT} {y(ratio):.1f}h{WIDTH}" stroke="#d8d8d8"/>'
                   f'<text x="{LEFT - 8}" y="{y(ratio) + 4.5:.1f}" text-anchor="end" fill="#444444">{ratio:g}</text>')
    out.append(f'<rect x="{LEFT}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#888888"/>')
    return out


def curves(strategies, optimum, x, y, limit):
    out = []
    for strategy, traces in strategies.items():
        colour = COLOURS[strategy]
        if len(traces) > 1:
            for pick in (min, max):
                edge = path_of(steps(traces, pick, optimum), x, y, limit)
                out.append(f'<path d="{edge}" fill="none" stroke="{colour}" stroke-opacity="0.45"'
                           ' stroke-width="1" stroke-dasharray="3 3"/>')
        end = max(at for trace in traces for at, _ in trace)
        middle = path_of(steps(traces, statistics.median_high, optimum), x, y, end)
        out.append(f'<path d="{middle}" fill="none" stroke="{colour}" stroke-width="2.2"/>')
        if strategy == EXHAUSTIVE:
            out.append(f'<circle cx="{x(end):.1f}" cy="{y(1):.1f}" r="5" fill="{colour}"/>')
    return out


def plot(question, strategies, limit):
    x, y = scales(limit)
    width, height = LEFT + WIDTH + 24, TOP + HEIGHT + 58
    optimum = strategies[EXHAUSTIVE][0][-1][1]
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
           f' viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, sans-serif" font-size="13">',
           STAMP, f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
           f'<text x="{LEFT}" y="24" font-size="15" font-weight="bold" fill="#222222">{question}</text>']
    at = LEFT
    for strategy in strategies:
        out.append(f'<path d="M{at} 48h18" stroke="{COLOURS[strategy]}" stroke-width="3"/>'
                   f'<text x="{at + 24}" y="52.5" fill="#222222">{strategy}</text>')
        at += 44 + 7 * len(strategy)
    out += axes(x, y, limit) + curves(strategies, optimum, x, y, limit)
    out.append(f'<text x="{LEFT + WIDTH / 2:.0f}" y="{TOP + HEIGHT + 42}" text-anchor="middle"'
               ' fill="#222222">evaluations</text>')
    out.append(f'<text transform="translate(18 {TOP + HEIGHT / 2:.0f}) rotate(-90)" text-anchor="middle"'
               ' fill="#222222">best step time so far / optimum</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def count_text(count):
    return "-" if count == math.inf else f"{count:,}"


def table(questions, limit):
    names = list(next(iter(questions.values())))
    out = ["| question | " + " | ".join(f"`{name}`" for name in names) + " |",
           "|---|" + "---|" * len(names)]
    for question, strategies in questions.items():
        optimum = strategies[EXHAUSTIVE][0][-1][1]
        cells = []
        for name in names:
            traces = strategies[name]
            within = [statistics.median_high(evaluations_until(trace, share * optimum) for trace in traces)
                      for share in (1.05, 1.01)]
            last = statistics.median_high(best_after(trace, limit) for trace in traces) / optimum
            end = f"proven at {traces[0][-1][0]:,}" if name == EXHAUSTIVE else f"{100 * (last - 1):.1f} %"
            cells.append(f"{count_text(within[0])} / {count_text(within[1])}; {end}")
        out.append(f"| {question} | " + " | ".join(cells) + " |")
    return out


def main():
    limit = int(sys.argv[1])
    questions = read(FOLDER / "strategies.csv")
    for question, strategies in questions.items():
        (FOLDER / f"{question}.svg").write_text(plot(question, strategies, limit))
    seeds = max(len(traces) for traces in next(iter(questions.values())).values())
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    lines = [f"Median of {seeds} seeds, at most {limit:,} evaluations; `-`: most seeds do not get there.", "",
             *table(questions, limit), "",
             *(f"![{question}]({question}.svg)" for question in questions)]
    PAGE.write_text(before + BEGIN + "\n" + "\n".join(lines) + "\n" + END + after)


main()
