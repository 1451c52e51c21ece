"""The programs as users run them: cli_e2e_test.py MESHWRIGHT MESHWRIGHTD EXAMPLES"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

MESHWRIGHT, MESHWRIGHTD, EXAMPLES = (pathlib.Path(arg).resolve() for arg in sys.argv[1:4])
LLAMA = EXAMPLES / "llama2-70b"

TINY_MODEL = {
    "name": "tiny", "layer_count": 8, "hidden_size": 2048, "ffn_hidden_size": 5504,
    "attention_head_count": 16, "kv_head_count": 16, "head_dim": 128, "vocab_size": 32000,
    "mlp": "swiglu", "norm": "rmsnorm", "tied_embeddings": False}
TINY_WORKLOAD = {"sequence_length": 2048, "global_batch_size": 64,
                 "framework": {"name": "megatron-core"}}
TINY_CLUSTER = {"name": "a100x8", "pools": [
    {"name": "a", "chip": "nvidia-a100-sxm4-80gb", "node_count": 1, "devices_per_node": 8}]}
TINY_PLAN = {"tensor_parallel": 2, "pipeline_parallel": 2, "micro_batch_size": 1, "zero_stage": 1}

# What the contract promises of an estimate.
ESTIMATE_KEYS = {
    "step_time_seconds", "step_time_low_seconds", "step_time_high_seconds",
    "tokens_per_second_per_device", "model_flops_utilization_ratio", "peak_memory_bytes",
    "reserved_memory_bytes", "memory_capacity_bytes", "fits", "fit_probability_ratio",
    "breakdown_seconds", "memory_breakdown_bytes", "tier", "provenance", "applied_defaults",
    "warnings"}
PLAN_KEYS = {
    "tensor_parallel", "sequence_parallel", "pipeline_parallel", "virtual_pipeline",
    "data_parallel", "context_parallel", "context_parallel_kind", "expert_parallel",
    "expert_tensor_parallel", "micro_batch_size", "zero_stage", "zero_group_size", "schedule",
    "recompute", "layers_per_stage", "optimizer_offload_ratio", "stages", "rank_order",
    "activation_offload_ratio"}


def case(**changes):
    return {"id": "1", "model": TINY_MODEL, "workload": TINY_WORKLOAD, "cluster": TINY_CLUSTER,
            "plan": TINY_PLAN, **changes}


class Folder(unittest.TestCase):
    """A folder of its own, which is also the home of the programs."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="meshwright-cli-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.store = self.folder / "state" / "meshwright" / "history.db"

    def write(self, name, content):
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    def run_cli(self, *args, text_in="", expect=0):
        environment = {**os.environ, "XDG_STATE_HOME": str(self.folder / "state")}
        done = subprocess.run([MESHWRIGHT, *args], input=text_in, capture_output=True, text=True,
                              env=environment, timeout=120, check=False)
        self.assertEqual(done.returncode, expect, done.stdout[-2000:] + done.stderr[-2000:])
        return done

    def question(self, model=None, workload=None, cluster=None):
        return ["--model", self.write("model.json", model or TINY_MODEL),
                "--workload", self.write("workload.json", workload or TINY_WORKLOAD),
                "--cluster", self.write("cluster.json", cluster or TINY_CLUSTER)]

    def start_server(self):
        """Gives its address."""
        server = subprocess.Popen(
            [MESHWRIGHTD, "--listen", "127.0.0.1:0", "--db", str(self.folder / "server.db")],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

        def stop():
            server.terminate()
            server.wait(timeout=30)
            server.stdout.close()
        self.addCleanup(stop)
        return re.fullmatch(r"listening on (\S+)\n", server.stdout.readline()).group(1)


class TuneTest(Folder):
    EXAMPLE = ["--model", str(LLAMA / "config.json"), "--workload", str(LLAMA / "workload.json"),
               "--cluster", str(LLAMA / "cluster.json")]

    def test_same_question_twice_gives_the_same_bytes(self):
        # Small, so that a slow machine cannot take it across the whole second of `seconds`.
        first = self.run_cli("tune", *self.question(), "--output", "json")
        again = self.run_cli("--output", "json", "tune", *self.question(), "--no-record")
        self.assertEqual(first.stdout, again.stdout)

    def test_example_answers_with_the_contract(self):
        first = self.run_cli("tune", *self.EXAMPLE, "--output", "json")
        self.run_cli("tune", *self.question(), "--output", "json", "--no-record")
        self.assertEqual(first.stderr, "")  # no progress without a terminal
        answer = json.loads(first.stdout)
        self.assertLessEqual({"plans", "baseline", "search", "applied_defaults", "warnings"},
                             answer.keys())
        self.assertEqual(
            answer["search"].keys(),
            {"space_count", "pruned_count_by_rule", "evaluated_count", "seconds", "complete",
             "optimality_gap_ratio"})
        self.assertEqual(len(answer["plans"]), 5)
        for ranked in [*answer["plans"], answer["baseline"]]:
            self.assertLessEqual({"plan", "estimate", "exports"}, ranked.keys())
            self.assertLessEqual(ESTIMATE_KEYS, ranked["estimate"].keys())
            self.assertEqual(ranked["plan"].keys(), PLAN_KEYS)
        self.assertIn("--tensor-model-parallel-size", answer["plans"][0]["exports"]["megatron-core"])
        times = [ranked["estimate"]["step_time_seconds"] for ranked in answer["plans"]]
        self.assertEqual(times, sorted(times))
        # Only the first run was recorded.
        listed = json.loads(self.run_cli("history", "list", "--output", "json").stdout)
        self.assertEqual([(s["model_name"], s["state"]) for s in listed["studies"]],
                         [("llama2-70b", "succeeded")])
        study = listed["studies"][0]["id"]
        shown = json.loads(self.run_cli("study", "show", study, "--output", "json").stdout)
        self.assertEqual(shown["result"], answer)

    def test_winner_is_evaluated_alike(self):
        tuned = json.loads(self.run_cli("tune", *self.question(), "--output", "json").stdout)
        winner = tuned["plans"][0]
        line = json.dumps(case(plan=winner["plan"]))
        again = json.loads(self.run_cli("evaluate", "--cases", "-", text_in=line).stdout)
        for key in ("step_time_seconds", "peak_memory_bytes", "tier", "breakdown_seconds"):
            self.assertEqual(again[key], winner["estimate"][key], key)

    def test_table_has_all_parts(self):
        text = self.run_cli("tune", *self.question(), "--top", "2").stdout
        for part in ("tiny on a100x8 (8 devices)", "step time", "tokens/s/device", "MFU",
                     "headroom", "baseline", "Pruned", "Where the step of plan 1 goes",
                     "What fills its busiest device", "Defaults that were applied",
                     "--pipeline-model-parallel-size", "history show study-"):
            self.assertIn(part, text)
        self.assertNotIn("\x1b", text)

    def test_five_mistakes_are_five_lines(self):
        question = self.question(
            model={**TINY_MODEL, "layer_count": 0, "layers": 8},
            workload={**TINY_WORKLOAD, "precision": "bf17", "sequence_length": "4k"},
            cluster={"pools": [{"chip": "nvidia-a1000", "node_count": 1, "devices_per_node": 8}]})
        done = self.run_cli("tune", *question, expect=3)
        fields = sorted(re.match(r"error: (\S+) = ", line).group(1)
                        for line in done.stderr.splitlines())
        self.assertEqual(fields, ["cluster.pools[0].chip", "model.layer_count", "model.layers",
                                  "workload.precision", "workload.sequence_length"])
        self.assertEqual(done.stdout, "")
        error = json.loads(self.run_cli("tune", *question, "--output", "json", expect=3).stderr)
        self.assertEqual(sorted(f["field"] for f in error["error"]["fields"]), fields)
        self.assertFalse(self.store.exists())

    def test_absent_files_are_mistakes(self):
        done = self.run_cli("tune", "--model", "absent", "--workload", "absent", "--cluster",
                            str(self.folder), expect=3)
        self.assertEqual(len(done.stderr.splitlines()), 3)
        self.assertIn("error: model = absent; cannot be read: No such file", done.stderr)

    def test_infeasible_says_what_binds(self):
        big = {**TINY_MODEL, "name": "big", "layer_count": 96, "hidden_size": 12288,
               "ffn_hidden_size": 49152, "attention_head_count": 96, "kv_head_count": 96}
        done = self.run_cli("tune", *self.question(model=big), expect=4)
        self.assertIn("Nothing fits: big on a100x8", done.stdout)
        self.assertIn("GiB a device", done.stdout)
        done = self.run_cli("tune", *self.question(model=big), "--output", "json", expect=4)
        infeasible = json.loads(done.stdout)["infeasible"]
        self.assertGreater(int(infeasible["missing_bytes"]), 0)
        self.assertTrue(infeasible["suggestions"])
        self.assertEqual(json.loads(done.stderr)["error"]["reason"], "NO_FEASIBLE_PLAN")
        self.assertIn("no_feasible_plan", self.run_cli("history", "list").stdout)

    def test_store_that_cannot_be_written(self):
        self.write("file", "not a folder")
        done = self.run_cli("tune", *self.question(), "--db", str(self.folder / "file" / "h.db"),
                            expect=8)
        self.assertIn("--no-record", done.stderr)
        foreign = self.write("foreign.db", "something else " * 100)
        self.run_cli("tune", *self.question(), "--db", foreign, expect=8)
        self.run_cli("tune", *self.question(), "--db", foreign, "--no-record")

    def test_usage(self):
        self.run_cli(expect=2)
        self.run_cli("tune", expect=2)
        self.run_cli("tune", *self.question(), "--nonsense", expect=2)
        self.run_cli("tune", *self.question(), "--output", "yaml", expect=2)
        self.run_cli("study", "watch", "study-1", expect=2)  # needs --server
        self.assertRegex(self.run_cli("--version").stdout, r"^meshwright \d+\.\d+\.\d+\n$")
        self.assertIn("tune", self.run_cli("--help").stdout)

    def test_unknown_study(self):
        self.run_cli("history", "show", "study-000000000000", expect=5)
        self.assertEqual(self.run_cli("history", "list").stdout, "no studies\n")


class ReplayTest(Folder):
    """tune --launcher replay: measured results stand in for a cluster."""

    ROWS = [{"plan": {"tensor_parallel": 8}, "outcome": "ok", "step_time_seconds": 4.0},
            {"plan": {"tensor_parallel": 2}, "outcome": "ok", "step_time_seconds": 2.0,
             "peak_memory_bytes": 2**34},
            {"plan": {"tensor_parallel": 2}, "outcome": "ok", "step_time_seconds": 3.0},
            {"plan": {"tensor_parallel": 1}, "outcome": "oom"},
            {"plan": {"tensor_parallel": 4}, "outcome": "crash"}]

    def replay(self, rows, *args, trials=10, expect=0):
        lines = "\n".join(json.dumps(row) for row in rows) + "\n\n"
        done = self.run_cli("tune", *self.question(), "--launcher", "replay", "--replay",
                            self.write("replay.jsonl", lines), "--max-trials", str(trials),
                            "--output", "json", *args, expect=expect)
        return done

    def test_every_plan_is_tried_once_and_ranked_by_what_was_measured(self):
        answer = json.loads(self.replay(self.ROWS).stdout)
        tried = {trial["plan"]["tensor_parallel"]: trial for trial in answer["trials"]}
        self.assertEqual(sorted(tried), [1, 2, 4, 8])
        self.assertEqual(len(answer["trials"]), 4)
        self.assertEqual({t: trial["outcome"] for t, trial in tried.items()},
                         {1: "oom", 2: "ok", 4: "crash", 8: "ok"})
        self.assertEqual(tried[2]["step_time_seconds"], 2.5)  # median of its two rows
        self.assertEqual(tried[1]["step_time_seconds"], 0)
        self.assertEqual([plan["plan"]["tensor_parallel"] for plan in answer["plans"]], [2, 8])
        self.assertEqual([plan["estimate"]["provenance"] for plan in answer["plans"]],
                         ["measured", "measured"])
        self.assertAlmostEqual(answer["plans"][0]["estimate"]["step_time_seconds"], 2.5)
        self.assertEqual(answer["trial_summary"]["stop_reason"], "all_tried")
        self.assertEqual(answer["trial_summary"]["candidate_count"], 4)

    def test_order_of_rows_and_repetition_change_no_byte(self):
        first = self.replay(self.ROWS, trials=3)
        self.assertEqual(first.stdout, self.replay(self.ROWS[::-1], trials=3).stdout)
        self.assertEqual(len(json.loads(first.stdout)["trials"]), 3)

    def test_what_a_replay_measures_teaches_nothing_else(self):
        before = self.run_cli("tune", *self.question(), "--output", "json").stdout
        trials = json.loads(self.replay(self.ROWS).stdout)["trials"]
        again = json.loads(self.replay(self.ROWS).stdout)["trials"]
        self.assertEqual(trials, again)
        self.assertEqual(before, self.run_cli("tune", *self.question(), "--output", "json").stdout)

    def test_budget_of_device_seconds(self):
        # A trial of 8 devices takes at least 8 x 120 s.
        answer = json.loads(self.replay(self.ROWS[:3], "--max-device-seconds", "1500").stdout)
        self.assertEqual(len(answer["trials"]), 1)
        self.assertEqual(answer["trial_summary"]["stop_reason"], "device_time_limit")

    def test_all_failing(self):
        done = self.replay(self.ROWS[3:], expect=10)
        self.assertIn("none of 2 trials", done.stderr)
        self.assertEqual(len(json.loads(done.stdout)["trials"]), 2)

    def test_every_bad_row_is_named(self):
        rows = [{"plan": {"tensor_parallel": 3}, "outcome": "oom"},
                {"plan": {"tensor_parallel": 2}, "outcome": "ok"},
                {"plan": {"tensor_paralel": 2}, "outcome": "oom"},
                *self.ROWS]
        errors = self.replay(rows, expect=3).stderr
        for field in ("trials.replay[0].plan.tensor_parallel",
                      "trials.replay[1].step_time_seconds", "trials.replay[2].plan.tensor_paralel"):
            self.assertIn(field, errors)
        self.assertNotIn("trials.replay[3]", errors)

    def test_table(self):
        done = self.run_cli("tune", *self.question(), "--launcher", "replay", "--replay",
                            self.write("r.jsonl", json.dumps(self.ROWS[0])), "--max-trials", "1")
        self.assertIn("1 of 1 plans tried", done.stdout)
        self.assertIn("Trials, in the order tried", done.stdout)

    def test_served_and_embedded_answers_are_equal(self):
        embedded = self.replay(self.ROWS).stdout
        self.assertEqual(embedded, self.replay(self.ROWS, "--server", self.start_server()).stdout)


class HistoryTest(Folder):
    """job report and history: what was measured comes back and moves later answers."""

    def json_of(self, *args, **keywords):
        return json.loads(self.run_cli(*args, "--output", "json", **keywords).stdout)

    def tune(self, *args):
        """Gives the answer and its study."""
        answer = self.json_of("tune", *self.question(), *args)
        studies = self.json_of("study", "list", *args)["studies"]
        return answer, studies[0]["id"]

    def report(self, study, seconds, *args, expect=0):
        return self.run_cli("job", "report", "--study", study, "--outcome", "ok", "--step-time",
                            repr(seconds), *args, expect=expect)

    def measured(self, *args):
        return self.json_of("history", "measurements", *args)["measurements"]

    def test_reports_move_later_answers_and_say_why(self):
        for args in ([], ["--server", self.start_server()]):
            with self.subTest(args):
                before, study = self.tune(*args)
                self.assertNotIn("calibration", before)
                promised = before["plans"][0]["estimate"]["step_time_seconds"]
                for _ in range(3):
                    text = self.report(study, 1.1 * promised, *args).stdout
                self.assertIn("inside the interval", text)
                self.assertIn(f"by {study}", text)
                after, _ = self.tune(*args)
                same = [plan for plan in after["plans"]
                        if plan["plan_digest"] == before["plans"][0]["plan_digest"]]
                moved = same[0]["estimate"]["step_time_seconds"] / promised
                self.assertGreater(moved, 1.05)
                self.assertLessEqual(moved, 1.1)
                learnt = after["calibration"]
                self.assertEqual(sorted(run["measurement_id"] for run in learnt["evidence"]),
                                 sorted(row["id"] for row in self.measured(*args)))
                kept = self.json_of("history", "show", learnt["id"], *args)
                self.assertEqual(kept["calibration"]["calibration"], learnt)
                self.assertIn(learnt["id"], self.run_cli("history", "calibrations", *args).stdout)

    def test_store_and_server_show_the_same_bytes(self):
        store = ["--db", str(self.folder / "server.db")]
        answer, study = self.tune(*store)
        promised = answer["plans"][0]["estimate"]["step_time_seconds"]
        for slower in (1.0, 1.1, 4.0, 4.0, 4.0):
            self.report(study, slower * promised, *store)
        measurement = self.measured(*store)[0]
        asked = [["job", "list"], ["job", "list", "--outcome", "oom"],
                 ["job", "list", "--page-size", "2"],
                 ["history", "list"], ["history", "show", study],
                 ["history", "measurements"], ["history", "measurements", "--order", "fastest"],
                 ["history", "show", measurement["id"]], ["history", "calibrations"],
                 ["history", "show", measurement["expected"]["calibration_id"]],
                 ["history", "export"]]
        wrong = [(["history", "show", "m-" + 32 * "0"], 5),
                 (["history", "show", "calibration-" + 32 * "0"], 5),
                 (["history", "measurements", "--outcome", "fine", "--source", "dream"], 3),
                 (["history", "measurements", "--page-token", "x"], 3),
                 (["job", "report", "--study", study, "--outcome", "fine", "--rank", "9"], 3),
                 (["job", "report", "--study", "study-none", "--outcome", "oom"], 5)]
        forms = [[], ["--output", "json"]]
        here = [self.run_cli(*args, *form, *store).stdout for args in asked for form in forms]
        errors = [self.run_cli(*args, *store, expect=code).stderr for args, code in wrong]
        self.assertIn("warning: drift: the newest 5 runs on nvidia-a100-sxm4-80gb", here[0])
        remote = ["--server", self.start_server()]
        there = [self.run_cli(*args, *form, *remote).stdout for args in asked for form in forms]
        self.assertEqual(here, there)
        self.assertEqual(errors, [self.run_cli(*args, *remote, expect=code).stderr
                                  for args, code in wrong])
        # Answers that lean on the chip say so too.
        later, _ = self.tune(*remote)
        self.assertTrue(any(warning.startswith("drift: ") for warning in later["warnings"]))

    def test_every_bad_field_is_a_line(self):
        args = ["job", "report", "--model", self.write("m.json", {**TINY_MODEL, "layer_count": 0, "x": 1}),
                "--workload", self.write("w.json", TINY_WORKLOAD), "--plan",
                self.write("p.json", {"tensor_paralel": 2}), "--rank", "1", "--outcome", "fine",
                "--step-time", "-1"]
        for remote in ([], ["--server", self.start_server()]):
            errors = self.run_cli(*args, *remote, expect=3).stderr
            fields = sorted(re.match(r"error: (\S+) = ", line).group(1) for line in errors.splitlines())
            self.assertEqual(fields, ["cluster", "model.layer_count", "model.x", "outcome",
                                      "plan.tensor_paralel", "rank", "step_time_seconds"])
        self.assertFalse(self.store.exists())
        self.run_cli("job", "report", "--file", "-", "--outcome", "ok", expect=2)

    def test_batch(self):
        _, study = self.tune()
        lines = [{"request_id": f"r-{i}", "study_id": study, "outcome": "ok", "step_time_seconds": 9 + i}
                 for i in range(3)]
        lines[1]["model"] = TINY_MODEL
        lines[2]["step_time"] = 1
        text = "".join(json.dumps(line) + "\n\n" for line in lines)
        errors = self.run_cli("job", "report", "--file", "-", text_in=text, expect=3).stderr
        self.assertIn("requests[1].model", errors)
        self.assertIn("requests[2].step_time", errors)
        self.assertEqual(self.run_cli("job", "list").stdout, "no job reports\n")
        del lines[1]["model"], lines[2]["step_time"]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        first = self.json_of("job", "report", "--file", "-", text_in=text)
        self.assertEqual(len(first["responses"]), 3)
        # The same ids once more change nothing and get the same answer.
        self.assertEqual(first, self.json_of("job", "report", "--file", "-", text_in=text))
        self.assertEqual(len(self.measured()), 3)
        lines[0]["note"] = "another"
        self.run_cli("job", "report", "--file", self.write("r.jsonl", json.dumps(lines[0])), expect=3)

    def test_history_goes_to_another_store(self):
        _, study = self.tune()
        for seconds in (9.0, 10.0):
            self.report(study, seconds)
        lines = self.run_cli("history", "export").stdout
        path = self.write("export.jsonl", lines)
        other = ["--db", str(self.folder / "other.db")]
        dry = self.json_of("history", "import", path, "--validate-only", *other)
        self.assertEqual(dry["imported_count"], 2)
        self.assertEqual(self.measured(*other), [])
        self.assertIn("2 measurements imported", self.run_cli("history", "import", path, *other).stdout)
        self.assertEqual(self.measured(*other), self.measured())
        self.assertIn("2 were here already", self.run_cli("history", "import", "-", *other,
                                                          text_in=lines).stdout)
        # Damaged, cut, or unreadable: nothing is taken in.
        third = ["--db", str(self.folder / "third.db")]
        cut = self.write("cut.jsonl", lines[:len(lines) // 2])
        self.run_cli("history", "import", cut, *third, expect=3)
        self.run_cli("history", "import", "absent", *third, expect=3)
        self.run_cli("history", "import", path, "--conflict", "ours", *third, expect=3)
        self.assertEqual(self.measured(*third), [])

    def test_backup(self):
        self.run_cli("history", "backup", expect=5)
        _, study = self.tune()
        self.report(study, 9.0)
        backup = self.json_of("history", "backup")
        copy = self.store.parent / backup["file_name"]
        self.assertEqual(copy.stat().st_size, int(backup["size_bytes"]))
        self.assertEqual(self.measured("--db", str(copy)), self.measured())

    def test_the_example_of_the_docs(self):
        """docs/history.md's shell lines, with what they print; figures, ids and times may differ."""
        text = (EXAMPLES.parent / "docs" / "history.md").read_text()
        section = text.split("## An example\n")[1].split("\n## ")[0]
        lines = [line[4:] for line in section.splitlines() if line.startswith("    ")]
        blocks = [block.split("\n", 1) for block in "\n".join(lines).split("$ ") if block]
        self.assertGreater(len(blocks), 5)
        script = "set -e\n" + "".join(f"{command}\necho '--'\n" for command, *_ in blocks)
        environment = {**os.environ, "XDG_STATE_HOME": str(self.folder / "state"),
                       "PATH": f"{MESHWRIGHT.parent}:{os.environ['PATH']}"}
        done = subprocess.run(["sh", "-c", script], cwd=EXAMPLES.parent, capture_output=True,
                              text=True, env=environment, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

        def shape(shown):
            masked = re.sub(r"[0-9a-f]{12,}|\d[\d,.]*|\bm?s\b", "#", shown)
            return [re.sub(r"[ #]+", " ", line).strip() for line in masked.strip().splitlines()]
        for (command, *shown), actual in zip(blocks, done.stdout.split("--\n"), strict=False):
            self.assertEqual(shape("".join(shown)), shape(actual), command)


class EvaluateTest(Folder):
    def evaluate(self, lines, *args, expect=0):
        done = self.run_cli("evaluate", "--cases", "-", *args, text_in="".join(
            (line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines),
            expect=expect)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_order_and_threads_do_not_matter(self):
        lines = [case(id=str(i), plan={**TINY_PLAN, "micro_batch_size": 1 + i % 2})
                 for i in range(2500)]  # three chunks
        one = self.evaluate(lines, "--workers", "1")
        self.assertEqual([answer["id"] for answer in one], [str(i) for i in range(2500)])
        self.assertLessEqual(ESTIMATE_KEYS, one[0].keys())
        self.assertEqual(one, self.evaluate(lines, "--workers", "4"))

    def test_errors_stay_in_their_line(self):
        answers = self.evaluate([
            case(id="good"), "",
            case(id="devices", plan={**TINY_PLAN, "tensor_parallel": 3}),
            case(id="key", planet=1),
            {"id": "empty"}])
        self.assertEqual([answer["id"] for answer in answers], ["good", "devices", "key", "empty"])
        self.assertEqual(["error" in answer for answer in answers], [False, True, True, True])
        self.assertEqual(answers[2]["error"]["fields"][0]["field"], "planet")
        self.assertEqual(answers[3]["error"].keys(), {"reason", "message", "fields"})

    def test_input_that_is_no_json_lines(self):
        answers = self.evaluate([case(), "hello", "[1]", case()], expect=3)
        self.assertEqual(["error" in answer for answer in answers], [False, True, True, False])
        for answer in answers[1:3]:
            self.assertEqual([field["field"] for field in answer["error"]["fields"]], ["case"])

    def test_hugging_face_model(self):
        config = json.loads((LLAMA / "config.json").read_text())
        cluster = json.loads((LLAMA / "cluster.json").read_text())
        plan = {**TINY_PLAN, "tensor_parallel": 8, "pipeline_parallel": 4}
        answer, = self.evaluate([case(model=config, cluster=cluster, plan=plan)])
        self.assertTrue(answer["fits"], answer)

    def test_history_with_mistakes(self):
        history = self.write("h.jsonl", json.dumps({"outcome": "okay"}) + "\n")
        done = self.run_cli("evaluate", "--cases", "-", "--history", history, expect=3)
        self.assertIn("error: history[0].outcome = ", done.stderr)

    def test_absent_cases(self):
        self.run_cli("evaluate", "--cases", str(self.folder / "absent"), expect=3)

    def test_explain(self):
        text = self.run_cli("explain", *self.question()).stdout
        for part in ("is the best of the space", "What a tenth more or less would change", "compute"):
            self.assertIn(part, text)
        answer = json.loads(self.run_cli("explain", *self.question(), "--baseline",
                                         self.write("plan.json", TINY_PLAN), "--output", "json").stdout)
        self.assertEqual(answer["plan"]["plan"]["tensor_parallel"], 2)
        self.assertEqual(len(answer["sensitivities"]), 10)

    def test_sweep(self):
        text = self.run_cli("tune", *self.question(), "--devices", "8..32", "--device-hour-price", "2").stdout
        self.assertIn("price of 1e6 tokens", text)
        self.assertEqual(sum(" mb" in line for line in text.splitlines()), 3)
        answer = json.loads(self.run_cli("tune", *self.question(), "--free-memory", "0,0.5",
                                         "--output", "json").stdout)
        self.assertEqual([point["free_memory_ratio"] for point in answer["points"]], [0, 0.5])
        for devices, part in (("12", "must be a multiple of the 8 devices"), ("8..4", "must be a range"),
                              ("x", "must be a whole number")):
            done = self.run_cli("tune", *self.question(), "--devices", devices, expect=3)
            self.assertIn(part, done.stderr)
        self.run_cli("tune", *self.question(), "--free-memory", "1", expect=2)
        self.run_cli("tune", *self.question(), "--device-hour-price", "2", expect=2)
        self.run_cli("tune", *self.question(), "--devices", "8", "--top", "2", expect=2)

    def test_trace(self):
        path = self.write("case.json", case())
        done = self.run_cli("trace", "--plan", path)
        self.assertIn("operations, step", done.stderr)
        self.assertTrue(any(event["ph"] == "X" for event in json.loads(done.stdout)["traceEvents"]))
        self.run_cli("trace", "--plan", "absent.json", expect=3)

    def test_dimensions(self):
        answer = json.loads(self.run_cli(
            "tune", *self.question(), "--dimension", "tensor_parallel=2,4", "--dimension",
            "pipeline_parallel=2..", "--dimension", "schedule=zb_h1", "--output", "json").stdout)
        for ranked in answer["plans"]:
            self.assertIn(ranked["plan"]["tensor_parallel"], (2, 4))
            self.assertGreaterEqual(ranked["plan"]["pipeline_parallel"], 2)
            self.assertEqual(ranked["plan"]["schedule"], "zb_h1")
            self.assertEqual(ranked["estimate"]["tier"], "simulated")
        self.assertTrue(any("schedule zb_h1 was asked for" in text for text in answer["warnings"]))
        done = self.run_cli("tune", *self.question(), "--dimension", "tensor_parallel=3..2",
                            "--dimension", "speed=1", "--dimension", "zero_stage", expect=3)
        for part in ("dimensions[0] = tensor_parallel: from 3 to 2", 'dimensions[1] = "speed"',
                     "dimensions[2] = zero_stage: states neither"):
            self.assertIn(part, done.stderr)
        for recompute in ("selective", "full"):
            answer = json.loads(self.run_cli("tune", *self.question(), "--dimension",
                                             f"recompute={recompute}", "--output", "json").stdout)
            self.assertEqual({ranked["plan"]["recompute"]["granularity"] for ranked in answer["plans"]},
                             {recompute})
        done = self.run_cli("tune", *self.question(), "--dimension", "tensor_parallel=3", expect=3)
        self.assertIn("dimensions = leave no plan of the space", done.stderr)

    def test_open_precision(self):
        question = self.question(cluster={"name": "h", "pools": [
            {"name": "a", "chip": "nvidia-h100-sxm5-80gb", "node_count": 1, "devices_per_node": 8}]})
        both = ["--dimension", "precision=fp32,bf16"]
        answer = json.loads(self.run_cli("tune", *question, *both, "--output", "json").stdout)
        self.assertEqual(answer["plans"][0]["precision"], "bf16")
        self.assertIn("bf16 ", self.run_cli("tune", *question, *both).stdout)
        stated = json.loads(self.run_cli("tune", *question, "--output", "json").stdout)
        self.assertNotIn("precision", stated["plans"][0])
        for command in (["explain", *question, *both], ["tune", *question, *both, "--devices", "8,16"]):
            self.assertIn("this question is about one", self.run_cli(*command, expect=3).stderr)
        done = self.run_cli("tune", *question, "--dimension", "precision=int8", expect=3)
        self.assertIn('precision: "int8"; must be one of bf16', done.stderr)

    def test_strategies(self):
        answer = json.loads(self.run_cli("tune", *self.question(), "--strategy", "evolutionary",
                                         "--evaluations", "50", "--output", "json").stdout)
        self.assertFalse(answer["search"]["complete"])
        self.assertEqual(answer["search"]["evaluated_count"], 50)
        for name in ("", "hope"):
            done = self.run_cli("tune", *self.question(), "--strategy", name, expect=3)
            self.assertIn("strategy", done.stderr)

    def test_compare(self):
        first = self.write("first.json", case())
        second = self.write("second.json", case(plan={**TINY_PLAN, "pipeline_parallel": 1}))
        text = self.run_cli("compare", first, second).stdout
        for part in ("x as fast", "Step time", "pipeline_bubble", "Memory of the busiest device", "fits"):
            self.assertIn(part, text)
        answer = json.loads(self.run_cli("compare", first, second, "--output", "json").stdout)
        alone = [json.loads(self.run_cli("evaluate", "--cases", "-", text_in=pathlib.Path(path).read_text()).stdout)
                 for path in (first, second)]
        self.assertEqual([answer["first"]["step_time_seconds"], answer["second"]["step_time_seconds"]],
                         [estimate["step_time_seconds"] for estimate in alone])
        self.assertEqual(answer["step_time_difference_seconds"],
                         alone[1]["step_time_seconds"] - alone[0]["step_time_seconds"])
        bad = self.write("bad.json", case(plan={**TINY_PLAN, "tensor_parallel": 0}))
        done = self.run_cli("compare", bad, "absent.json", expect=3)
        self.assertIn("error: first.plan.tensor_parallel = 0", done.stderr)
        self.assertIn("error: second = absent.json; cannot be read", done.stderr)
        case_text = pathlib.Path(first).read_text()
        self.assertIn("second = -; first is stdin already", self.run_cli("compare", "-", "-", expect=3).stderr)
        done = self.run_cli("compare", "-", second, "--history", "-", text_in=case_text, expect=3)
        self.assertIn("history = -; first is stdin already", done.stderr)
        done = self.run_cli("compare", first, second, "--history", "absent.jsonl", expect=3)
        self.assertIn("error: history = absent.jsonl; cannot be read", done.stderr)

    def test_refit(self):
        run = {"model": TINY_MODEL, "workload": {**TINY_WORKLOAD}, "cluster": TINY_CLUSTER, "plan": TINY_PLAN,
               "outcome": "ok", "step_time_seconds": 1.5, "peak_memory_bytes": 9000000000}
        path = self.write("run.json", run)
        done = self.run_cli("refit", "--run", path, "--fact", "fixed_per_step_seconds",
                            "--fact", "fixed_buffers_bytes")
        self.assertIn("step time: measured 1.50 s, estimated ", done.stderr)
        run["workload"]["framework"] = json.loads(done.stdout)
        again = json.loads(self.run_cli("evaluate", "--cases", "-", text_in=json.dumps(
            {key: run[key] for key in ("model", "workload", "cluster", "plan")})).stdout)
        self.assertAlmostEqual(again["step_time_seconds"], 1.5, 4)
        self.assertAlmostEqual(again["peak_memory_bytes"] / 9e9, 1, 4)
        done = self.run_cli("refit", "--run", path, "--fact", "speed", expect=3)
        self.assertIn("error: fact = speed; must be one of", done.stderr)
        done = self.run_cli("refit", "--run", path, "--fact", "fixed_per_step_seconds", "--server",
                            "127.0.0.1:1", expect=3)
        self.assertIn("refit runs here", done.stderr)
        done = self.run_cli("refit", "--run", "absent.json", "--fact", "fixed_per_step_seconds", expect=3)
        self.assertIn("error: run = absent.json; cannot be read", done.stderr)

    def test_export(self):
        plan = self.write("case.json", case())
        flags = self.run_cli("export", "--plan", plan, "--framework", "megatron-core").stdout
        self.assertIn("--pipeline-model-parallel-size 2 \\\n", flags)
        exported = json.loads(self.run_cli("export", "--plan", plan, "--output", "json").stdout)
        self.assertEqual(exported["exports"], {"megatron-core": flags})
        self.run_cli("export", "--plan", plan, "--framework", "horovod", expect=5)
        bad = self.write("bad.json", case(plan={**TINY_PLAN, "tensor_parallel": 3}))
        self.run_cli("export", "--plan", bad, expect=3)

    def test_catalogue(self):
        chips = json.loads(self.run_cli("chip", "list", "--output", "json").stdout)
        self.assertIn("nvidia-a100-sxm4-80gb", [chip["id"] for chip in chips["chips"]])
        self.assertTrue(all(chip["missing"] for chip in chips["unmodelled"]))
        self.assertIn("source", self.run_cli("chip", "show", "nvidia-a100-sxm4-80gb").stdout)
        self.run_cli("chip", "show", "nvidia-a1000", expect=5)
        self.assertIn("megatron-core", self.run_cli("server", "info").stdout)


class ServerTest(Folder):
    def test_embedded_and_served_answers_are_equal(self):
        remote = ["--server", self.start_server()]
        big = {**TINY_MODEL, "layer_count": 96, "hidden_size": 12288, "ffn_hidden_size": 49152,
               "attention_head_count": 96, "kv_head_count": 96}
        pools = {**TINY_CLUSTER, "pools": [
            {**TINY_CLUSTER["pools"][0], "name": name} for name in "ab"]}
        lines = "".join(json.dumps(c) + "\n" for c in (
            case(), case(plan={**TINY_PLAN, "tensor_parallel": 3}), case(planet=1),
            case(model={"model_type": "mamba"}), case(plan={"zero_stage": 7, "schedule": "x"})))
        bad = self.write("bad.json", case(plan={**TINY_PLAN, "tensor_parallel": 3}))
        pair = [self.write("first.json", case()),
                self.write("second.json", case(plan={**TINY_PLAN, "pipeline_parallel": 1}))]
        for name, args, text_in, code in (
                ("tune", ["tune", *self.question()], "", 0),
                ("compare", ["compare", *pair], "", 0),
                ("explain", ["explain", *self.question()], "", 0),
                ("sweep", ["tune", *self.question(), "--devices", "8,16", "--free-memory", "0,0.9"], "", 0),
                ("compare_mistakes", ["compare", pair[0], bad], "", 3),
                ("compare_no_history", ["compare", *pair, "--history", "absent.jsonl"], "", 3),
                ("chips", ["chip", "list"], "", 0),
                ("chip", ["chip", "show", "nvidia-a100-sxm4-80gb"], "", 0),
                ("absent", ["chip", "show", "nvidia-a1000"], "", 5),
                ("server", ["server", "info"], "", 0),
                ("evaluate", ["evaluate", "--cases", "-"], lines, 0)):
            with self.subTest(name):
                args += ["--output", "json"]
                here = self.run_cli(*args, text_in=text_in, expect=code)
                there = self.run_cli(*args, *remote, text_in=text_in, expect=code)
                self.assertEqual(here.stdout, there.stdout)
                self.assertEqual(here.stderr, there.stderr)
        for name, question, code in (
                ("infeasible", {"model": big}, 4),
                ("several_pools", {"cluster": pools}, 3),
                ("mistakes", {"workload": {"sequence_length": 0}, "cluster": {"pools": []}}, 3),
                ("facts", {"workload": {**TINY_WORKLOAD, "framework": {"name": "generic", "facts": [
                    {"name": "fixed_buffers_bytes", "value": "1e30"},
                    {"name": "host_per_launch_seconds", "value": "1e308"}, {"name": "speed"}]}}}, 3),
                ("json", {"workload": {"sequence_length": "4k"}, "cluster": {"nodes": 3}}, 3)):
            with self.subTest(name):
                args = ["tune", *self.question(**question), "--output", "json"]
                here = self.run_cli(*args, expect=code)
                there = self.run_cli(*args, *remote, expect=code)
                self.assertEqual(here.stdout, there.stdout)
                self.assertEqual(here.stderr, there.stderr)

    def test_studies_of_a_server(self):
        remote = ["--server", self.start_server(), "--output", "json"]
        created = json.loads(self.run_cli("study", "create", *self.question(), *remote,
                                          "--study-id", "study-mine").stdout)
        self.assertEqual(created["id"], "study-mine")
        self.run_cli("study", "create", *self.question(), *remote, "--study-id", "study-mine",
                     expect=6)
        events = [json.loads(line) for line in
                  self.run_cli("study", "watch", "study-mine", *remote).stdout.splitlines()]
        self.assertEqual(events[-1]["state"], "succeeded")
        revisions = [event["revision"] for event in events if event["kind"] != "heartbeat"]
        self.assertEqual(len(revisions), len(set(revisions)))
        listed = json.loads(self.run_cli("study", "list", *remote).stdout)["studies"]
        self.assertEqual([study["id"] for study in listed], ["study-mine"])
        shown = json.loads(self.run_cli("history", "show", "study-mine", *remote).stdout)
        self.assertEqual(shown["study"]["outcome"], "improved")
        # To cancel what has ended changes nothing.
        cancelled = json.loads(self.run_cli("study", "cancel", "study-mine", *remote).stdout)
        self.assertEqual(cancelled["state"], "succeeded")
        for verb in ("show", "watch", "cancel"):
            self.run_cli("study", verb, "study-other", *remote, expect=5)

    def test_server_that_is_down(self):
        remote = ["--server", f"unix:{self.folder}/nobody"]
        self.run_cli("tune", *self.question(), *remote, expect=8)
        self.run_cli("history", "list", *remote, expect=8)
        error = self.run_cli("server", "info", *remote, "--output", "json", expect=8).stderr
        self.assertEqual(json.loads(error)["error"]["fields"], [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
