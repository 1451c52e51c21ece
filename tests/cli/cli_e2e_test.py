"""Tests the programs as users run them: cli_e2e_test.py MESHWRIGHT MESHWRIGHTD EXAMPLES"""

import json
import pathlib
import re
import sys
import unittest

from programs import (
    BIG_MODEL, ESTIMATE_KEYS, EXAMPLES, LLAMA, PLAN_KEYS, TINY_CLUSTER, TINY_MODEL, TINY_PLAN, TINY_WORKLOAD, Folder,
    alike, case)


class TuneTest(Folder):
    EXAMPLE = ["--model", str(LLAMA / "config.json"), "--workload", str(LLAMA / "workload.json"),
               "--cluster", str(LLAMA / "cluster.json")]

    def test_same_question_twice_gives_the_same_bytes(self):
        first = self.run_cli("tune", *self.question(), "--output", "json")
        again = self.run_cli("--output", "json", "tune", *self.question(), "--no-record")
        self.assertEqual(alike(first.stdout), alike(again.stdout))
        for answer, has_record in ((json.loads(first.stdout), True), (json.loads(again.stdout), False)):
            self.assertEqual((answer["format_version"], answer["exit_reason"]), (1, "done"))
            self.assertEqual(bool(answer["study_id"]), has_record)
            self.assertEqual(answer["question"]["workload"]["global_batch_size"],
                             TINY_WORKLOAD["global_batch_size"])
            self.assertGreater(answer["search"]["seconds"], 0)

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
        optimum = answer["model_optimum"]["estimate"]
        self.assertLessEqual(optimum["step_time_seconds"], min(times))
        self.assertEqual(answer["recommendation"], "launch")
        self.assertTrue(answer["reason"].endswith("."), answer["reason"])
        self.assertGreaterEqual(answer["plans"][0]["estimate"]["fit_probability_ratio"], 0.95)
        # Only the first run was recorded.
        listed = json.loads(self.run_cli("history", "list", "--output", "json").stdout)
        self.assertEqual([(s["model_name"], s["state"]) for s in listed["studies"]],
                         [("llama2-70b", "succeeded")])
        study = listed["studies"][0]["id"]
        shown = json.loads(self.run_cli("study", "show", study, "--output", "json").stdout)
        self.assertEqual({**shown["result"], "question": shown["question"], "study_id": study,
                          "format_version": 1, "exit_reason": "done"}, answer)

    def test_winner_is_evaluated_alike(self):
        tuned = json.loads(self.run_cli("tune", *self.question(), "--output", "json").stdout)
        self.expect_evaluated_alike(tuned["plans"][0], {})

    # Selective recomputation saves the scores of unfused attention, and there is little memory.
    def test_mixed_winner_is_evaluated_alike(self):
        tight = {"workload": {**TINY_WORKLOAD, "attention_kernel": "unfused"},
                 "cluster": {**TINY_CLUSTER, "pools": [
                     {**TINY_CLUSTER["pools"][0], "memory_capacity_bytes": 4700 << 20}]}}
        tuned = json.loads(self.run_cli(
            "tune", *self.question(**tight), "--output", "json", "--dimension", "recompute=mixed",
            "--dimension", "tensor_parallel=1", "--dimension", "zero_stage=0", "--min-fit-probability", "0", "--tie", "0.5").stdout)
        recompute = tuned["plans"][0]["plan"]["recompute"]
        self.assertGreater(sum(recompute["layer_counts"]), 0)
        self.assertGreater(sum(recompute["selective_layer_counts"]), 0)
        self.assertTrue(any("recompute mixed was asked for" in text for text in tuned["warnings"]))
        self.expect_evaluated_alike(tuned["plans"][0], tight)

    def expect_evaluated_alike(self, winner, question):
        line = json.dumps(case(**question, plan=winner["plan"]))
        again = json.loads(self.run_cli("evaluate", "--cases", "-", text_in=line).stdout)
        for key in ("step_time_seconds", "peak_memory_bytes", "tier", "breakdown_seconds"):
            self.assertEqual(again[key], winner["estimate"][key], key)

    def test_table_has_all_parts(self):
        details = ("Pruned", "Where the step of plan 1 goes", "Memory of its busiest device",
                   "Defaults that were applied")
        text = self.run_cli("tune", *self.question(), "--top", "2").stdout
        for part in ("tiny on a100x8 (8 devices)", "step time", "tokens/s/device", "MFU",
                     "free GiB", "baseline (0)", "--pipeline-model-parallel-size",
                     "history show study-"):
            self.assertIn(part, " ".join(text.split()))
        for part in details:
            self.assertNotIn(part, text)
        self.assertNotIn("\x1b", text)
        study = re.search(r"history\s+show\s+(study-\S+)\)", text).group(1)
        more = self.run_cli("history", "show", study, "--verbose").stdout
        for part in details:
            self.assertIn(part, more)

    # No word is broken at the usual widths of a terminal, but for texts that are to be copied.
    def test_reports_are_as_wide_as_asked(self):
        question = self.question(workload={**TINY_WORKLOAD, "framework": {"name": "megatron-core"}})
        for columns in (80, 100, 120):
            text = self.run_cli("tune", *question, "--no-record", "--verbose", columns=columns).stdout
            for line in text.splitlines():
                self.assertLessEqual(len(line), columns, line)

    def test_five_mistakes_are_five_lines(self):
        question = self.question(
            model={**TINY_MODEL, "layer_count": 0, "layers": 8},
            workload={**TINY_WORKLOAD, "precision": "bf17", "sequence_length": "4k"},
            cluster={"pools": [{"chip": "nvidia-a1000", "node_count": 1, "devices_per_node": 8}]})
        done = self.run_cli("tune", *question, expect=3)
        fields = ["cluster.pools[0].chip", "model.layer_count", "model.layers",
                  "workload.precision", "workload.sequence_length"]
        # People read the file and the place in it, programs the path.
        self.assertEqual(
            sorted(re.match(r"error: (.+?) = ", line).group(1) for line in done.stderr.splitlines()),
            sorted(f"{self.folder}/{field.replace('.', '.json: ', 1)}" for field in fields))
        self.assertEqual(done.stdout, "")
        error = json.loads(self.run_cli("tune", *question, "--output", "json", expect=3).stderr)
        self.assertEqual(sorted(f["field"] for f in error["error"]["fields"]), fields)
        self.assertIn(f"{self.folder}/model.json: layer_count = 0", error["error"]["message"])
        self.assertFalse(self.store.exists())

    def test_absent_files_are_mistakes(self):
        done = self.run_cli("tune", "--model", "absent", "--workload", "absent", "--cluster",
                            str(self.folder), expect=3)
        self.assertEqual(len(done.stderr.splitlines()), 3)
        self.assertIn("error: --model = absent; cannot be read: No such file", done.stderr)

    def test_infeasible_says_what_binds(self):
        done = self.run_cli("tune", *self.question(model=BIG_MODEL), expect=4)
        self.assertIn("Nothing fits: big on a100x8", done.stdout)
        self.assertIn("GiB on each device", done.stdout)
        done = self.run_cli("tune", *self.question(model=BIG_MODEL), "--output", "json", expect=4)
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
        done = self.run_cli("tune", *self.question(), "--db", foreign, "--no-record")
        self.assertIn("does not learn from the store", done.stderr)

    def test_usage(self):
        self.run_cli(expect=2)
        self.run_cli("tune", expect=2)
        self.run_cli("tune", *self.question(), "--nonsense", expect=2)
        self.run_cli("tune", *self.question(), "--output", "yaml", expect=2)
        self.run_cli("study", "watch", "study-1", expect=2)  # needs --server
        self.assertRegex(self.run_cli("--version").stdout,
                         r"^meshwright \d+\.\d+\.\d+\ncommit: .+\ngRPC: \d.*\nprotobuf: \d.*\nSQLite: \d.*\n")
        self.assertIn("tune", self.run_cli("--help").stdout)

    def test_unknown_study(self):
        self.run_cli("history", "show", "study-000000000000", expect=5)
        self.assertEqual(self.run_cli("history", "list").stdout, "no studies\n")


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

    def test_groups_and_pairs(self):
        slow = {**TINY_PLAN, "recompute": {"granularity": "full"}}
        lines = [case(id="alone"), case(id="slow", group="g", plan=slow), case(id="fast", group="g"),
                 case(id="bad", group="g", plan={**TINY_PLAN, "tensor_parallel": 3})]
        pairs = self.write("pairs.jsonl", "".join(line + "\n" for line in (
            '{"a": "fast", "b": "slow"}', "", '{"a": "slow", "b": "fast"}', '{"a": "fast", "b": "bad"}', '{"a": 1}', "no")))
        answers = self.evaluate(lines, "--pairs", pairs, expect=3)
        self.assertEqual([answer.get("choice_rank") for answer in answers], [None, 2, 1] + [None] * 6)
        first, second, failed, wrong, text = answers[4:]
        self.assertEqual((first["a"], first["b"]), ("fast", "slow"))
        self.assertGreater(first["faster_probability_ratio"], 0.9)
        self.assertAlmostEqual(first["faster_probability_ratio"] + second["faster_probability_ratio"], 1)
        self.assertEqual([field["field"] for field in failed["error"]["fields"]], ["b"])
        self.assertEqual([field["field"] for field in wrong["error"]["fields"]], ["a"])
        self.assertEqual([field["field"] for field in text["error"]["fields"]], ["pair"])
        done = self.run_cli("evaluate", "--cases", "-", "--pairs", "absent", text_in="", expect=3)
        self.assertIn("error: --pairs = absent; cannot be read", done.stderr)
        self.assertIn("--pairs = -; only one input can be stdin",
                      self.run_cli("evaluate", "--cases", "-", "--pairs", "-", expect=3).stderr)

    def test_a_group_may_span_chunks(self):
        lines = [case(id=str(i)) for i in range(1023)] + [
            case(id=str(1023 + i), group="g", plan={**TINY_PLAN, "micro_batch_size": 1 + i % 2}) for i in range(1030)]
        ranks = [answer.get("choice_rank") for answer in self.evaluate(lines)]
        self.assertEqual(sorted(rank for rank in ranks if rank), list(range(1, 1031)))

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
        self.assertIn(f"error: {history}: row 1: outcome = ", done.stderr)

    def test_absent_cases(self):
        self.run_cli("evaluate", "--cases", str(self.folder / "absent"), expect=3)

    def test_explain(self):
        text = self.run_cli("explain", *self.question()).stdout
        for part in ("It is the one to launch. ", "How 10 % more or less of a resource would change the step", "compute"):
            self.assertIn(part, text)
        answer = json.loads(self.run_cli("explain", *self.question(), "--baseline",
                                         self.write("plan.json", TINY_PLAN), "--output", "json").stdout)
        self.assertEqual(answer["plan"]["plan"]["tensor_parallel"], 2)
        self.assertEqual(len(answer["sensitivities"]), 10)

    def test_sweep(self):
        text = self.run_cli("tune", *self.question(), "--devices", "8..32", "--device-hour-price", "2").stdout
        self.assertIn("price per 1e6 tokens", text)
        self.assertEqual(sum(" mb" in line for line in text.splitlines()), 3)
        answer = json.loads(self.run_cli("tune", *self.question(), "--free-memory", "0,0.5",
                                         "--output", "json").stdout)
        self.assertEqual([point["free_memory_ratio"] for point in answer["points"]], [0, 0.5])
        self.assertTrue(all(point["best"]["exports"] for point in answer["points"]))
        for devices, part in (("12", "must be a multiple of the 8 devices"), ("8..4", "must be a range"),
                              ("x", "must be a whole number")):
            done = self.run_cli("tune", *self.question(), "--devices", devices, expect=3)
            self.assertIn(part, done.stderr)
        self.run_cli("tune", *self.question(), "--free-memory", "1", expect=2)
        self.run_cli("tune", *self.question(), "--device-hour-price", "2", expect=2)
        self.run_cli("tune", *self.question(), "--days", "3", expect=2)
        for flags in (["--top", "2"], ["--pareto"]):
            self.run_cli("tune", *self.question(), "--devices", "8", *flags, expect=2)

    def test_front_of_time_and_memory(self):
        args = ["tune", *self.question(), "--pareto"]
        self.assertIn("leave this much of each device's memory free", self.run_cli(*args).stdout)
        answer = json.loads(self.run_cli(*args, "--output", "json").stdout)
        front = answer["pareto_front"]
        self.assertEqual(front[0]["plan"]["plan"], answer["plans"][0]["plan"])
        self.assertTrue(all(point["free_memory_ratio"] in (0, 0.1, 0.2, 0.3) for point in front))
        done = self.run_cli(*args, "--strategy", "random", expect=3)
        self.assertIn("pareto = true; a front needs plans that are proven best", done.stderr)

    def test_trace(self):
        path = self.write("case.json", case())
        done = self.run_cli("trace", "--plan", path)
        self.assertIn("operations, step", done.stderr)
        self.assertTrue(any(event["ph"] == "X" for event in json.loads(done.stdout)["traceEvents"]))
        self.run_cli("trace", "--plan", "absent.json", expect=3)

    def test_dimensions(self):
        answer = json.loads(self.run_cli(
            "tune", *self.question(), "--dimension", "tensor_parallel=2,4", "--dimension",
            "pipeline_parallel=2..", "--dimension", "schedule=zb_h1", "--disable-rule", "framework",
            "--output", "json").stdout)
        for ranked in answer["plans"]:
            self.assertIn(ranked["plan"]["tensor_parallel"], (2, 4))
            self.assertGreaterEqual(ranked["plan"]["pipeline_parallel"], 2)
            self.assertEqual(ranked["plan"]["schedule"], "zb_h1")
            self.assertEqual(ranked["estimate"]["tier"], "simulated")
        self.assertTrue(any("schedule zb_h1 was asked for" in text for text in answer["warnings"]))
        # Megatron-Core itself refuses it.
        refused = json.loads(self.run_cli(
            "tune", *self.question(), "--dimension", "pipeline_parallel=2..", "--dimension",
            "schedule=zb_h1", "--output", "json", expect=4).stdout)
        self.assertGreater(refused["infeasible"]["pruned_count_by_rule"]["framework"], 0)
        done = self.run_cli("tune", *self.question(), "--dimension", "tensor_parallel=3..2",
                            "--dimension", "speed=1", "--dimension", "zero_stage", expect=3)
        for part in ("--dimension = tensor_parallel: from 3 to 2", '--dimension = "speed"',
                     "--dimension = zero_stage: states neither"):
            self.assertIn(part, done.stderr)
        for recompute in ("selective", "full"):
            answer = json.loads(self.run_cli("tune", *self.question(), "--dimension",
                                             f"recompute={recompute}", "--output", "json").stdout)
            self.assertEqual({ranked["plan"]["recompute"]["granularity"] for ranked in answer["plans"]},
                             {recompute})
        done = self.run_cli("tune", *self.question(), "--dimension", "tensor_parallel=3", expect=3)
        self.assertIn("--dimension = too narrow; must leave a plan in the space; tensor_parallel leaves none "
                      "even alone, and can be 1, ", done.stderr)

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
            self.assertIn("precision: this question takes only one value", self.run_cli(*command, expect=3).stderr)
        done = self.run_cli("tune", *question, "--dimension", "precision=int8", expect=3)
        self.assertIn('precision: "int8"; must be one of bf16', done.stderr)

    def test_open_settings(self):
        open_settings = ["--dimension", "gradient_dtype=bf16", "--dimension", "overlap.tensor_parallel=true",
                         "--dimension", "tensor_parallel=2"]
        question = self.question(workload={**TINY_WORKLOAD, "framework": {"name": "megatron-core"}})
        answer = json.loads(self.run_cli("tune", *question, *open_settings, "--output", "json").stdout)
        settings = [{"field": "gradient_dtype", "value": "bf16"},
                    {"field": "overlap.tensor_parallel", "value": "true"}]
        for ranked in answer["plans"]:
            self.assertEqual(ranked["settings"], settings)
        shown = self.run_cli("tune", *question, *open_settings).stdout
        self.assertIn("gradient_dtype=bf16 overlap.tensor_parallel=true", " ".join(shown.split()))
        # The export of the stored study has them too.
        study = json.loads(self.run_cli("study", "list", "--output", "json").stdout)["studies"][0]["id"]
        flags = self.run_cli("export", "--study", study).stdout
        self.assertIn("--tp-comm-overlap", flags)
        self.assertIn("--grad-reduce-in-bf16", flags)

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
        for part in ("x as fast", "with a probability of", "Step time", "pipeline_bubble", "Memory of the busiest device", "fits"):
            self.assertIn(part, text)
        answer = json.loads(self.run_cli("compare", first, second, "--output", "json").stdout)
        alone = [json.loads(self.run_cli("evaluate", "--cases", "-", text_in=pathlib.Path(path).read_text()).stdout)
                 for path in (first, second)]
        self.assertEqual([answer["first"]["step_time_seconds"], answer["second"]["step_time_seconds"]],
                         [estimate["step_time_seconds"] for estimate in alone])
        self.assertEqual(answer["step_time_difference_seconds"],
                         alone[1]["step_time_seconds"] - alone[0]["step_time_seconds"])
        self.assertEqual(answer["first_is_faster_probability_ratio"] > 0.5, answer["step_time_difference_seconds"] > 0)
        bad = self.write("bad.json", case(plan={**TINY_PLAN, "tensor_parallel": 0}))
        done = self.run_cli("compare", bad, "absent.json", expect=3)
        self.assertIn(f"error: {bad}: plan.tensor_parallel = 0", done.stderr)
        self.assertIn("error: second = absent.json; cannot be read", done.stderr)
        case_text = pathlib.Path(first).read_text()
        self.assertIn("second = -; only one input can be stdin, and first is", self.run_cli("compare", "-", "-", expect=3).stderr)
        done = self.run_cli("compare", "-", second, "--history", "-", text_in=case_text, expect=3)
        self.assertIn("history = -; only one input can be stdin, and first is", done.stderr)
        done = self.run_cli("compare", first, second, "--history", "absent.jsonl", expect=3)
        self.assertIn("error: --history = absent.jsonl; cannot be read", done.stderr)

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
        self.assertIn("error: --fact = speed; must be one of", done.stderr)
        done = self.run_cli("refit", "--run", path, "--fact", "fixed_per_step_seconds", "--server",
                            "127.0.0.1:1", expect=3)
        self.assertIn("refit only runs with this program's own", done.stderr)
        done = self.run_cli("refit", "--run", "absent.json", "--fact", "fixed_per_step_seconds", expect=3)
        self.assertIn("error: --run = absent.json; cannot be read", done.stderr)


class ServerTest(Folder):
    def test_embedded_and_served_answers_are_equal(self):
        remote = ["--server", self.start_server()]
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
                ("front", ["tune", *self.question(), "--pareto"], "", 0),
                ("compare", ["compare", *pair], "", 0),
                ("explain", ["explain", *self.question()], "", 0),
                ("sweep", ["tune", *self.question(), "--devices", "8,16", "--free-memory", "0,0.9"], "", 0),
                ("compare_mistakes", ["compare", pair[0], bad], "", 3),
                ("compare_no_history", ["compare", *pair, "--history", "absent.jsonl"], "", 3),
                ("chips", ["chip", "list"], "", 0),
                ("chip", ["chip", "show", "nvidia-a100-sxm4-80gb"], "", 0),
                ("absent", ["chip", "show", "nvidia-a1000"], "", 5),
                ("evaluate", ["evaluate", "--cases", "-"], lines, 0)):
            with self.subTest(name):
                args += ["--output", "json"]
                here = self.run_cli(*args, text_in=text_in, expect=code)
                there = self.run_cli(*args, *remote, text_in=text_in, expect=code)
                self.assertEqual(alike(here.stdout), alike(there.stdout))
                self.assertEqual(here.stderr, there.stderr)
        # Only a server bounds requests.
        info = ("server", "info", "--output", "json")
        here, there = (json.loads(self.run_cli(*info, *at).stdout) for at in ((), remote))
        self.assertEqual([here.pop(name) for name in ("limits", "job_templates", "launchers")], [[], [], []])
        self.assertEqual([(load["launcher"], load["is_allowed"], load["running_job_count"])
                          for load in there.pop("launchers")],
                         [(name, False, 0) for name in ("local", "slurm", "kubernetes")])
        self.assertEqual(there.pop("job_templates"), [])
        self.assertGreater(there.pop("store_bytes"), 0)
        self.assertGreater(there.pop("store_free_bytes"), 0)
        self.assertIn({"name": "request_bytes", "value": 16 << 20},
                      [{key: limit[key] for key in ("name", "value")} for limit in there.pop("limits")])
        self.assertEqual(here, there)
        for name, question, code in (
                ("infeasible", {"model": BIG_MODEL}, 4),
                ("several_pools", {"cluster": pools}, 0),
                ("mistakes", {"workload": {"sequence_length": 0}, "cluster": {"pools": []}}, 3),
                ("facts", {"workload": {**TINY_WORKLOAD, "framework": {"name": "generic", "facts": [
                    {"name": "fixed_buffers_bytes", "value": "1e30"},
                    {"name": "host_per_launch_seconds", "value": "1e308"}, {"name": "speed"}]}}}, 3),
                ("json", {"workload": {"sequence_length": "4k"}, "cluster": {"nodes": 3}}, 3)):
            with self.subTest(name):
                args = ["tune", *self.question(**question), "--output", "json"]
                here = self.run_cli(*args, expect=code)
                there = self.run_cli(*args, *remote, expect=code)
                self.assertEqual(alike(here.stdout), alike(there.stdout))
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
        # Cancelling a study that has ended changes nothing.
        cancelled = json.loads(self.run_cli("study", "cancel", "study-mine", *remote).stdout)
        self.assertEqual(cancelled["state"], "succeeded")
        for verb in ("pause", "resume"):
            self.assertIn("has ended", self.run_cli("study", verb, "study-mine", *remote, expect=6).stderr)
        for verb in ("show", "watch", "cancel", "pause", "resume"):
            self.run_cli("study", verb, "study-other", *remote, expect=5)
        self.run_cli("study", "pause", "study-mine", expect=2)  # without a server

    def test_server_that_is_down(self):
        remote = ["--server", f"unix:{self.folder}/nobody"]
        self.run_cli("tune", *self.question(), *remote, expect=8)
        self.run_cli("history", "list", *remote, expect=8)
        error = self.run_cli("server", "info", *remote, "--output", "json", expect=8).stderr
        self.assertEqual(json.loads(error)["error"]["fields"], [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
