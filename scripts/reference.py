#!/usr/bin/env python3
"""Writes the reference from the source: docs/reference/*.md.

    scripts/reference.py           writes the pages
    scripts/reference.py --check   says which pages are out of date; exit 1 if one is

Types and meanings come from the .proto files, ranges from the checks in search_space/spec, words from
search_space/spec/choices.cc, examples from examples/every-field/cases.jsonl, exit codes and reasons of
errors from the code. Nothing is run, and only Python's own library is needed.
"""

import json
import pathlib
import sys

from reference_errors import errors_page, exit_codes_page
from reference_limits import limits
from reference_proto import Protos, cell, table, wrapped

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = "docs/reference"
STAMP = "<!-- written by scripts/reference.py: do not edit -->"

# The sets of words that strings are taken from, by field, as they are named in choices.cc; None: any text.
WORDS = {
    "Model.name": None, "Model.mlp": "MlpKind", "Model.norm": "NormKind", "Model.biases": "LinearBiases",
    "LayerRun.mixer": "TokenMixer", "LayerRun.feed_forward": "FeedForwardKind",
    "LinearAttention.kind": "LinearAttentionKind", "Moe.router_score": "RouterScore",
    "RopeScaling.kind": "RopeScalingKind",
    "Workload.precision": "Precision", "Workload.attention_kernel": "AttentionKernel",
    "Workload.norm_kernel": "KernelFusion", "Workload.cross_entropy_kernel": "KernelFusion",
    "Workload.optimizer": "Optimizer", "Workload.gradient_dtype": "GradientDtype",
    "Workload.fp8_recipe": "Fp8Recipe",
    "MoeTraining.dispatcher": "MoeDispatcher",
    "MoeTraining.dispatch_dtype": "DispatchDtype",
    "Framework.name": None, "Framework.version": None, "FrameworkFact.name": None, "FrameworkFact.value": None,
    "Cluster.name": None, "NodePool.name": None, "NodePool.chip": None,
    "IntraNodeLink.kind": "LinkKind", "InterNodeLink.kind": "LinkKind", "Topology.kind": "ClusterTopology",
    "Plan.context_parallel_kind": "ContextParallelKind", "Plan.schedule": "Schedule", "Plan.rank_order": "RankOrder",
    "RecomputePlan.granularity": "RecomputeGranularity", "RecomputePlan.modules": None, "StagePlan.pool": None,
    "Plan.pools": None, "PoolLink.from": None, "PoolLink.to": None, "PoolLink.path": "LinkPath",
}

# The pages of inputs: file, title, first message, what comes before the tables.
INPUTS = [
    ("model.md", "Model", "Model",
     "This page describes a model in Meshwright's own keys. A `config.json` of the Hugging Face hub is accepted\n"
     "too ([models](../models.md))."),
    ("workload.md", "Workload", "Workload",
     "A workload states how the model is trained. Only the first two fields are required. The answer lists\n"
     "every default that was applied."),
    ("cluster.md", "Cluster", "Cluster",
     "A cluster states the machines. Flags, Slurm, Kubernetes and this machine can state them too\n([clusters](../clusters.md))."),
    ("plan.md", "Plan", "Plan",
     "A plan states how a training step is partitioned across the devices. `evaluate`, `compare` and `--baseline`\ntake it."),
]

# The pages of messages: file, title, .proto files.
MESSAGES = [
    ("service.md", "Questions, answers and studies", ["service.proto", "result.proto"]),
    ("trials.md", "Trials and jobs", ["trial.proto"]),
    ("estimate.md", "Estimates", ["estimate.proto"]),
    ("history.md", "History", ["history.proto", "calibration.proto"]),
    ("placement.md", "Placements", ["placement.proto"]),
    ("catalog.md", "Chips, frameworks and the server", ["catalog.proto"]),
]


def page(title, *parts):
    return "\n\n".join([STAMP, f"# {title}", *(part.strip("\n") for part in parts if part)]) + "\n"


class Examples:
    """The first value of each field in the cases, found by walking the messages along with them."""

    def __init__(self, protos):
        self.protos, self.found = protos, {}
        for line in (ROOT / "examples/every-field/cases.jsonl").read_text().splitlines():
            case = json.loads(line)
            for key, message in (("model", "Model"), ("workload", "Workload"), ("cluster", "Cluster"), ("plan", "Plan")):
                self._walk(message, case[key])

    def _walk(self, message, value):
        fields = {field.name: field for field in self.protos.messages[message].fields}
        for name, inner in value.items():
            field = fields[name]  # fails for a field that is not in the schema
            if field.type in self.protos.messages:
                for one in inner if field.is_repeated else [inner]:
                    self._walk(field.type, one)
            else:
                self.found.setdefault(f"{message}.{name}", json.dumps(inner))

    def of(self, message, field):
        if field.type in self.protos.messages:
            return ""
        key = f"{message}.{field.name}"
        if key not in self.found:
            raise SystemExit(f"examples/every-field/cases.jsonl has no {key}; add it, so that it is shown")
        return f"`{self.found[key]}`"


def range_of(message, field, bounds):
    if field.type not in ("int32", "int64", "double"):
        return ""
    if field.type == "double" and message == "Plan":
        return "0 .. 1"  # FieldFacts, search_space/spec/plan_fields.h
    return bounds.get(f"{message}.{field.name}", "")


def input_page(protos, examples, bounds, title, first, words):
    parts, seen, queue = [wrapped(words)], set(), [first]
    while queue:
        name = queue.pop(0)
        if name in seen:
            continue
        seen.add(name)
        message = protos.messages[name]
        rows = []
        for field in message.fields:
            if not field.comment:
                raise SystemExit(f"{message.file}: {name}.{field.name} has no comment; say what it means")
            shown = range_of(name, field, bounds)
            if field.type == "string":
                set_name = WORDS[f"{name}.{field.name}"]  # fails for a new field without a row
                shown = " ".join(f"`{word}`" for word in bounds[set_name]) if set_name else "text"
            if field.type in protos.messages and field.type not in seen:
                queue.append(field.type)
            rows.append([f"`{field.name}`", protos.type_of(field), field.unit, shown, field.default,
                         examples.of(name, field), cell(field.meaning)])
        parts.append(f"## {name}\n\n{message.comment}" if message.comment else f"## {name}")
        parts.append(table(["field", "type", "unit", "range", "if absent", "example", "meaning"], rows))
    return page(title, *parts)


def message_page(protos, title, files):
    parts = ["Fields of messages that are not described here are on the pages of [model](model.md),\n"
             "[workload](workload.md), [cluster](cluster.md) and [plan](plan.md)."]
    for message in protos.messages.values():
        if message.file not in files or not message.fields:
            continue
        parts.append(f"## {message.name}" + (f"\n\n{message.comment}" if message.comment else ""))
        rows = [[f"`{f.name}`", protos.type_of(f), f.unit, f.default, cell(f.meaning)] for f in message.fields]
        parts.append(table(["field", "type", "unit", "if absent", "meaning"], rows))
    return page(title, *parts)


def rpc_page(protos):
    parts = ["`meshwrightd` speaks these services of `meshwright.v1` over gRPC, with reflection and health.\n"
             "A field that is not known is an error, and each error has a reason ([errors](errors.md))."]
    for service in protos.services:
        parts.append(f"## {service.name}" + (f"\n\n{service.comment}" if service.comment else ""))
        rows = [[f"`{rpc.name}`", f"`{rpc.request}`", ("stream of " if rpc.is_stream else "") + f"`{rpc.response}`",
                 cell(rpc.comment)] for rpc in service.rpcs]
        parts.append(table(["call", "request", "response", "meaning"], rows))
    return page("Calls over gRPC", *parts)


def configuration_page():
    """The keys of meshwrightd's configuration file, from the example that the program has printed."""
    text = (ROOT / "packaging/meshwrightd.toml").read_text()
    rows = []
    for block in text.split("\n\n")[1:]:
        *words, last = [line.removeprefix("# ") for line in block.strip().splitlines()]
        key, value = last.split(" = ", 1)
        meaning = " ".join(words)
        rows.append([f"`{key}`", f"`{value}`", cell(meaning[0].upper() + meaning[1:] + ".")])
    return page("Configuration of the server",
                "Each key of the configuration file is also a flag of `meshwrightd`\n"
                "([configuration](../configuration.md)). Replace values in capitals by your own.",
                table(["key", "default or form", "meaning"], rows))


def index_page():
    rows = [[f"[{name}]({file})", words] for file, name, words in (
        [(file, title.lower(), "every field of this input") for file, title, *_ in INPUTS]
        + [("rpcs.md", "calls", "the services and their calls")]
        + [(file, title.lower(), "every field of these messages") for file, title, _ in MESSAGES]
        + [("configuration.md", "configuration of the server", "every key of the file"),
           ("exit_codes.md", "exit codes", "how the programs end"),
           ("errors.md", "errors", "the reasons that errors name")])]
    return page("Reference", "A script writes these pages from the source. `meshwright COMMAND --help` describes the command\n"
                "line. In JSON, 64-bit integers may be strings. The names of fields contain their units.",
                table(["page", "content"], rows))


def pages():
    """Returns the text of every page by its name."""
    protos = Protos(ROOT / "proto/meshwright/v1")
    examples, bounds = Examples(protos), limits(ROOT / "search_space/spec")
    made = {"README.md": index_page(), "rpcs.md": rpc_page(protos), "configuration.md": configuration_page(),
            "exit_codes.md": page("Exit codes", *exit_codes_page(ROOT)), "errors.md": page("Errors", *errors_page(ROOT))}
    for file, title, first, words in INPUTS:
        made[file] = input_page(protos, examples, bounds, title, first, words)
    for file, title, files in MESSAGES:
        made[file] = message_page(protos, title, files)
    return made


def main(arguments):
    if arguments not in ([], ["--check"]):
        sys.exit("usage: scripts/reference.py [--check]")
    folder = ROOT / FOLDER
    made = pages()
    old = {path.name: path.read_text() for path in folder.glob("*.md")}
    if not arguments:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in made.items():
            (folder / name).write_text(text)
        for name in old.keys() - made.keys():
            (folder / name).unlink()
        return
    stale = sorted(name for name in made.keys() | old.keys() if made.get(name) != old.get(name))
    for name in stale:
        print(f"{FOLDER}/{name} is not what the source says; run scripts/reference.py")
    sys.exit(1 if stale else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
