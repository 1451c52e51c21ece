"""Reports what pruning removes and if it keeps the best plan; called by scripts/pruning.sh, which
has the usage."""
import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile
import textwrap

BENCH = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(BENCH), str(BENCH / "replay")]
import competitors  # noqa: E402
import replay_report  # noqa: E402
import search_report  # noqa: E402
import simulated  # noqa: E402
from measured import digits  # noqa: E402

PAGES = {"measured": "docs/pruning/measured.md", "spaces": "docs/pruning/measured.md",
         "orders": "docs/pruning/memory_order.md"}
STAMP = "<!-- written by scripts/pruning.sh: do not edit -->"
RULES = ("memory", "history", "bound")  # rules for trials; the static rules are for the space
MODELLED = ("memory", "history", "dominance", "bound")
SIZES = "1,2,4,8"


# --- Trials: which measured plans need not be run?


def pruned(binary, group):
    """Returns the answer after the fewest trials after which every other plan is ruled out."""
    def after(trials):
        return simulated.answer(binary, group.case, group.rows, limit=trials)

    def leaves_none(found):
        return sum(count_of(found, rule) for rule in RULES) == untried(found)

    def untried(found):
        return found["trial_summary"]["candidate_count"] - len(found["trials"])

    least, most = 1, len(group.rows)
    while least < most:
        middle = (least + most) // 2
        least, most = (least, middle) if leaves_none(after(middle)) else (middle + 1, most)
    return after(most)


def count_of(found, rule):
    return int(found["search"]["pruned_count_by_rule"].get(rule, 0))


def measured(groups, binary):
    sums = collections.defaultdict(collections.Counter)
    for group in groups:
        found = pruned(binary, group)
        ran = [float(trial["step_time_seconds"]) for trial in found["trials"] if competitors.ran(trial)]
        of = sums[group.source]
        of.update(groups=1, plans=found["trial_summary"]["candidate_count"], tried=len(found["trials"]),
                  failed=len(found["trials"]) - len(ran), fail=len(group.rows) - len(group.times),
                  kept=min(ran) == min(map(float, group.times)), **{rule: count_of(found, rule) for rule in RULES})
    lines = ["| runs | groups | best kept | plans | removed | by memory | by history | by bound | of them failed: all / tried |",
             "|---" * 9 + "|"]
    for source in (*sorted(sums), "all"):
        of = sums[source] if source in sums else sum(sums.values(), collections.Counter())
        lines.append(f"| {source} | {of['groups']} | {share(of['kept'], of['groups'])} | {of['plans']} | "
                     f"{share(of['plans'] - of['tried'], of['plans'])} | {of['memory']} | {of['history']} | "
                     f"{of['bound']} | {of['fail']} / {of['failed']} |")
    return lines


def oversized(groups, binary):
    """Returns the groups whose best measured plan does not fit by the model, which the memory limit
    would lose."""
    lost = []
    for group in groups:
        best = min((row for row in group.rows if competitors.ran(row)), key=lambda row: float(row["step_time_seconds"]))
        case = json.dumps({**group.case, "id": "best", "plan": best["plan"]})
        done = subprocess.run([binary, "evaluate", "--cases", "-"], input=case, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout)
        if not found["fits"]:
            lost.append(f"{group.name} (estimated at {int(found['reserved_memory_bytes']) / 2**30:.1f} GiB)")
    text = f"Best plans that do not fit by the model: of {len(lost)} of {len(groups)} groups" + "".join(f"; {name}" for name in lost)
    return textwrap.wrap(text, 100, break_on_hyphens=False)


def share(part, whole):
    return f"{100 * part / whole:.1f} %" if part != whole else "100 %"


# --- Orders of memory: does a plan that ran out of memory rule out plans that ran?


def ruled_out(binary, group, failed):
    """Returns the plans of the group that ran but that one failure rules out: by modelled size, and
    by the order."""
    ran = [row for row in group.rows if competitors.ran(row)]
    cases = "".join(json.dumps({**group.case, "id": str(i), "plan": row["plan"]}) + "\n" for i, row in enumerate(ran))
    with tempfile.TemporaryDirectory() as folder:
        history = pathlib.Path(folder) / "history"
        history.write_text(json.dumps({**{key: group.case[key] for key in ("model", "workload", "cluster")},
                                       "plan": failed["plan"], "outcome": "oom"}) + "\n")
        done = subprocess.run([binary, "evaluate", "--cases", "-", "--history", history], input=cases,
                              capture_output=True, text=True, check=True)
    said = [" ".join(w for w in json.loads(line).get("warnings", []) if w.startswith("rule history"))
            for line in done.stdout.splitlines()]
    return {"size": sum("estimated at" in text for text in said),
            "order": sum("needs at least as much" in text for text in said),
            "grid": sum(competitors.needs_as_much_memory(row["plan"], failed["plan"]) for row in ran),
            "best": sum("estimated at" in text and float(row["step_time_seconds"]) == min(map(float, group.times))
                        for row, text in zip(ran, said))}


def orders(groups, binary):
    sums = collections.defaultdict(collections.Counter)
    for group in groups:
        for row in group.rows:
            if row["outcome"] == "oom":
                sums[group.source].update({"failures": 1, "pairs": len(group.times), **ruled_out(binary, group, row)})
    lines = ["| runs | out of memory | pairs with a plan that ran | estimated at no less | of them the best of its group | "
             "ours by the order | FlagScale's rules |", "|---" * 7 + "|"]
    lines += [f"| {source} | {of['failures']} | {of['pairs']} | {of['size']} | {of['best']} | {of['order']} | {of['grid']} |"
              for source, of in sorted(sums.items())]
    return lines


# --- Spaces: how much of them is examined?


def answer_of(binary, flags):
    done = subprocess.run([binary, "tune", *flags, "--no-record", "--output", "json"],
                          capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"scripts/pruning.sh: {done.stderr[-300:]}")
    return json.loads(done.stdout)


def off(*rules):
    return [text for rule in rules for text in ("--disable-rule", rule)]


def example_lines(binary):
    shown = ("memory", "dominance", "bound")  # have a column each
    lines = []
    for question in search_report.questions():
        with tempfile.TemporaryDirectory() as folder:
            search = answer_of(binary, search_report.write_question(question, folder))["search"]
        space, seen = int(search["space_count"]), int(search.get("evaluated_count", 0))
        by = {rule: int(count) for rule, count in search["pruned_count_by_rule"].items()}
        assert sum(by.values()) + seen == space, question["name"]
        # There is no history; the other rules share the first column.
        others = [rule for rule in by if rule not in (*shown, "history")]
        if not lines:
            names = " | ".join((", ".join(others), *shown))
            lines = [f"| question | plans of the space | {names} | simulated | removed |", "|---" * 8 + "|"]
        shares = " | ".join(share(part, space) for part in (sum(by[rule] for rule in others), *(by[r] for r in shown)))
        lines.append(f"| {question['name']} | {digits(space)} | {shares} | {seen:,} | {at_least(space - seen, space)} |")
    return lines


def at_least(part, whole):
    """Formats a share so that it is not rounded up to 100 %."""
    places = 2
    while places < 12 and float(f"{100 * part / whole:.{places}f}") == 100 and part < whole:
        places += 2
    return f"{100 * part / whole:.{places}f} %"


def grid_lines(binary):
    """Reports FlagScale's examples in our terms. Every legal plan is counted by evaluating it."""
    lines = ["| space | legal plans | left by memory and dominance | removed | left by all rules | removed | best kept |",
             "|---" * 7 + "|"]
    dimensions = [f"{name}={SIZES}" for name in ("tensor_parallel", "pipeline_parallel", "micro_batch_size",
                                                 "expert_parallel")]
    dimensions += ["context_parallel=1", "expert_tensor_parallel=1", "zero_stage=0,1", "largest_stage_layers=0"]
    narrowed = [text for dimension in dimensions for text in ("--dimension", dimension)]
    for name, model, devices, batch, *_ in simulated.PROBLEMS:
        problem = simulated.problem_of(name, model, devices, batch)
        with tempfile.TemporaryDirectory() as folder:
            flags = list(narrowed)
            for key, value in problem.items():
                path = pathlib.Path(folder) / f"{key}.json"
                path.write_text(json.dumps(value))
                flags += [f"--{key}", str(path)]
            legal, by_memory, by_all = (answer_of(binary, [*flags, *off(*rules)])
                                        for rules in (MODELLED, ("bound",), ()))
        seen = [int(found["search"]["evaluated_count"]) for found in (legal, by_memory, by_all)]
        best = [found["plans"][0]["estimate"]["step_time_seconds"] for found in (legal, by_all)]
        lines.append(f"| {name} | {seen[0]:,} | {seen[1]:,} | {share(seen[0] - seen[1], seen[0])} | {seen[2]:,} | "
                     f"{at_least(seen[0] - seen[2], seen[0])} | {'yes' if best[0] == best[1] else 'no'} |")
    return lines


def write(lines, name):
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    page = pathlib.Path(PAGES[name])
    before, rest = page.read_text().split(begin)
    _, after = rest.split(end)
    page.write_text("\n".join([before + begin, STAMP, "", *lines, end + after]))


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/pruning.sh")
    parser.add_argument("--exam", help="absent: spaces only")
    parser.add_argument("--data")
    parser.add_argument("--bin", required=True)
    parser.add_argument("--only", nargs="+", help="sources; prints their tables, writes nothing")
    return parser.parse_args()


def main():
    asked = arguments()
    found = {}
    if asked.exam:
        groups = replay_report.load_groups(asked.exam, asked.data, asked.only)
        found.update(measured=[*measured(groups, asked.bin), "", *oversized(groups, asked.bin)], orders=orders(groups, asked.bin))
    if not asked.only:
        found["spaces"] = [*example_lines(asked.bin), "", *grid_lines(asked.bin)]
    for name, lines in found.items():
        print("\n".join(lines), end="\n\n", flush=True)
        if not asked.only:
            write(lines, name)


if __name__ == "__main__":
    main()
