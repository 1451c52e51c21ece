"""Measures how fast Calculon (github.com/calculon-ai/calculon) searches on a question of ours, on
one core.

CALCULON_SRC names its source folder, which is only run. CALCULON_PYTHON names the interpreter that
has what it imports (psutil, and numpy for its newest version). The default is the interpreter that
runs this.
"""
import json
import os
import pathlib
import re
import sys

from measured import fail, must_run

SAMPLE = pathlib.Path(__file__).with_name("calculon_sample.py")

# The names that Calculon gives our chips. Each is a file in its folder systems/.
SYSTEMS = {"nvidia-a100-sxm4-80gb": "a100_80g.json"}


def source():
    folder = os.environ.get("CALCULON_SRC")
    if not folder:
        return None
    folder = pathlib.Path(folder).resolve()
    if not (folder / "bin/calculon").is_file():
        fail(f"no bin/calculon in CALCULON_SRC ({folder})")
    return folder


def system_file(folder, chip):
    if chip not in SYSTEMS:
        fail(f"Calculon has no system for {chip}")
    for place in ("systems", "examples/systems", "examples"):
        path = folder / place / SYSTEMS[chip]
        if path.is_file():
            return path
    return fail(f"no {SYSTEMS[chip]} in CALCULON_SRC ({folder})")


def application(question, model):
    """Returns the model of the question in Calculon's terms: a decoder like GPT-2's, because it
    knows no other."""
    if model.get("model_type") != "gpt2":
        fail(f"{question['name']}: Calculon knows models like GPT only")
    return {"hidden": model["n_embd"], "feedforward": model["n_inner"],
            "seq_size": question["sequence_length"], "attn_heads": model["n_head"],
            "attn_size": model["n_embd"] // model["n_head"], "num_blocks": model["n_layer"]}


def count_of(words, out):
    found = re.search(rf"^{words}: (\d+)$", out, re.MULTILINE)
    return int(found[1]) if found else fail(f"Calculon did not print '{words}'")


def search(question, model, scratch, seconds):
    """Runs a part of `llm-optimal-execution`, as calculon_sample.py does. The options are those of
    Calculon's README."""
    folder = source()
    asked = pathlib.Path(scratch) / "application.json"
    asked.write_text(json.dumps(application(question, model)))
    devices = question["node_count"] * question["devices_per_node"]
    command = [os.environ.get("CALCULON_PYTHON", sys.executable), SAMPLE, str(seconds),
               folder / "bin/calculon", "llm-optimal-execution", asked, str(devices),
               str(question["global_batch_size"]), "float16", system_file(folder, question["chip"]),
               pathlib.Path(scratch) / "calculon.json", "--mbs-break", "--noneok"]
    done = must_run(command, env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"})
    ran = json.loads(done.out.splitlines()[-1])
    executions, good = count_of("Total executions", done.out), count_of("Good executions", done.out)
    return {"question": question["name"], "executions": executions, "good_executions": good, **ran,
            "executions_per_second": executions / ran["cpu_seconds"],
            "good_executions_per_second": good / ran["cpu_seconds"],
            "whole_cpu_seconds": ran["cpu_seconds"] * ran["all_pieces"] / ran["pieces"]}
