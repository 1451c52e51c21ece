"""Tests the programs as users run them: cli_history_test.py MESHWRIGHT MESHWRIGHTD EXAMPLES"""

import json
import os
import re
import subprocess
import sys
import unittest

from programs import EXAMPLES, MESHWRIGHT, TINY_CLUSTER, TINY_MODEL, TINY_WORKLOAD, Folder


class HistoryTest(Folder):
    """Tests `job report` and `history`: measurements are stored and change later answers."""

    def json_of(self, *args, **keywords):
        return json.loads(self.run_cli(*args, "--output", "json", **keywords).stdout)

    def tune(self, *args):
        """Returns the answer and its study."""
        answer = self.json_of("tune", *self.question(), *args)
        studies = self.json_of("study", "list", *args)["studies"]
        return answer, studies[0]["id"]

    def report(self, study, seconds, *args, expect=0):
        return self.run_cli("job", "report", "--study", study, "--outcome", "ok", "--step-time",
                            repr(seconds), *args, expect=expect)

    def measured(self, *args):
        return self.json_of("history", "measurements", *args)["measurements"]

    def test_a_job_by_its_script_and_its_log(self):
        script = self.write("pretrain.sh", """
torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py \\
  --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --micro-batch-size 1 --global-batch-size 64 \\
  --num-layers 8 --hidden-size 2048 --ffn-hidden-size 5504 --num-attention-heads 16 --seq-length 2048 \\
  --max-position-embeddings 2048 --swiglu --normalization RMSNorm --disable-bias-linear --vocab-size 32000 \\
  --untie-embeddings-and-output-weights --position-embedding-type rope --bf16 --use-distributed-optimizer
""")
        log = "".join(f" iteration {step}/ 50 | elapsed time per iteration (ms): {9000 if step < 6 else 600 + step} | x\n"
                      for step in range(1, 12))
        log += "[Rank 0] (after 1 iterations) memory (MB) | max allocated: 4096.0 | max reserved: 5000.0\n"
        job = ["job", "report", "--from", script, "--cluster", self.write("cluster.json", TINY_CLUSTER)]
        done = self.run_cli(*job, "--log", self.write("train.log", log))
        self.assertIn("format megatron; the median of 6 times of steps is 0.6085 s; 5 before them were left out", done.stderr)
        (kept,) = self.measured()
        self.assertAlmostEqual(kept["step_time_seconds"], 0.6085)
        self.assertEqual((kept["outcome"], kept["peak_memory_bytes"]), ("ok", 4096 * 2**20))
        self.assertIn("tp2", self.run_cli("history", "measurements").stdout)
        for flags, part in ((("--log", self.write("empty.log", "loss\n")), "--log = "),
                            (("--log", self.write("t.log", log), "--log-format", "mine"), "--log-format = mine; must be one of"),
                            (("--log", self.write("o.log", log), "--outcome", "oom"), "stated beside the outcome oom")):
            self.assertIn(part, self.run_cli(*job, *flags, expect=3).stderr)
        self.run_cli(*job, "--log-format", "megatron", expect=2)

    def test_studies_are_named_found_and_compared(self):
        for args in ([], ["--server", self.start_server()]):
            with self.subTest(args):
                _, first = self.tune(*args)
                question = self.question(workload={**TINY_WORKLOAD, "global_batch_size": 32})
                self.run_cli("tune", *question, *args)
                second = self.json_of("study", "list", *args)["studies"][0]["id"]
                named = self.json_of("study", "update", first, "--name", "first try", "--note", "a\nb",
                                     "--label", "team=llm", *args)
                self.assertEqual((named["display_name"], named["note"], named["labels"]),
                                 ("first try", "a\nb", {"team": "llm"}))
                self.assertIn("first try", self.run_cli("study", "list", *args).stdout)

                def found(*filters):
                    return [study["id"] for study in
                            self.json_of("study", "list", *filters, *args)["studies"]]
                self.assertEqual(found("--label", "team=llm"), [first])
                self.assertEqual(found("--text", "FIRST", "--state", "succeeded"), [first])
                self.assertEqual(found("--since", "2020-01-01"), [second, first])
                self.assertEqual(found("--until", "2020-01-01"), [])
                self.assertEqual(self.json_of("study", "update", first, "--remove-label", "team",
                                              *args)["labels"], {})
                difference = self.json_of("study", "diff", first, second, *args)
                self.assertEqual([(one["field"], one["second"]) for one in difference["question"]],
                                 [("workload.global_batch_size", "32")])
                self.assertNotEqual(difference["plans"]["step_time_difference_seconds"], 0)
                shown = self.run_cli("study", "diff", first, second, *args).stdout
                self.assertRegex(shown, r"workload.global_batch_size +\d+ +32")
                self.assertIn("The questions are the same.",
                              self.run_cli("study", "diff", first, first, *args).stdout)
        wrong = self.run_cli("study", "update", first, "--label", "team", "--name", "x", expect=3).stderr
        self.assertIn('--label = "team"; must be key=value', wrong)

    def test_reports_move_later_answers_and_say_why(self):
        for args in ([], ["--server", self.start_server()]):
            with self.subTest(args):
                before, study = self.tune(*args)
                self.assertNotIn("calibration", before)
                promised = before["plans"][0]["estimate"]["step_time_seconds"]
                for _ in range(3):
                    text = self.report(study, 1.1 * promised, *args).stdout
                self.assertIn("inside the interval", text)
                self.assertIn(f"{study} recommended its plan with", text)
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
                # Other answers to the same question use the same runs and say so.
                explained = self.json_of("explain", *self.question(), *args)
                self.assertEqual(explained["calibration"], learnt)
                shown = self.run_cli("explain", *self.question(), *args).stdout
                self.assertIn("Learnt from measured runs\n  3 runs: ", shown)
                case = json.dumps({"model": TINY_MODEL, "workload": TINY_WORKLOAD,
                                   "cluster": TINY_CLUSTER, "plan": same[0]["plan"]})
                evaluated = self.run_cli("evaluate", "--cases", "-", *args, text_in=case).stdout
                self.assertEqual(json.loads(evaluated)["calibration"], learnt)
                path = self.write("case.json", case)
                compared = self.json_of("compare", path, path, *args)
                self.assertEqual(compared["first"]["calibration"], learnt)
                self.assertEqual(compared["first"]["step_time_seconds"],
                                 json.loads(evaluated)["step_time_seconds"])

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
        # Answers about the chip say so too.
        later, _ = self.tune(*remote)
        self.assertTrue(any(warning.startswith("drift: ") for warning in later["warnings"]))

    def test_a_wrong_measurement_is_retracted(self):
        for args in ([], ["--server", self.start_server()]):
            with self.subTest(args):
                before, study = self.tune(*args)
                promised = before["plans"][0]["estimate"]["step_time_seconds"]
                for slower in (1.1, 1.4):
                    self.report(study, slower * promised, *args)
                wrong, right = (row["id"] for row in self.measured(*args))
                self.assertNotIn("retracted", self.run_cli("job", "list", *args, columns=250).stdout)
                up_to_two = ["tune", *self.question(), "--history-sequence", "2", *args]
                learnt = self.json_of(*up_to_two)
                said = self.run_cli("history", "retract", wrong, "--reason", "another job was there", *args).stdout
                self.assertIn(f"Measurement {wrong} of ", said)
                self.assertIn("is retracted as number 3", said)
                for command in (["job", "list"], ["history", "measurements"]):
                    lines = self.run_cli(*command, *args, columns=250).stdout.splitlines()
                    self.assertIn("retracted", lines[0])
                    self.assertRegex("\n".join(lines[1:]), f"{wrong} .* another job was there ")
                self.assertRegex(self.run_cli("history", "show", wrong, *args).stdout,
                                 r"retracted +\S+ \(number 3\): another job was there")
                rows = self.run_cli("history", "measurements", "--output", "csv", *args).stdout.splitlines()
                self.assertTrue(rows[0].endswith(",retraction.reason"))
                self.assertTrue(rows[1].endswith(",another job was there"))
                self.assertTrue(rows[2].endswith(","))
                self.assertEqual([row["id"] for row in self.measured("--retracted", "true", *args)], [wrong])
                self.assertEqual([row["id"] for row in self.measured("--retracted", "false", *args)], [right])
                # An answer up to an earlier number stays; a new one learns from the other run only.
                early = self.json_of(*up_to_two)
                self.assertEqual(early["plans"], learnt["plans"])
                self.assertEqual(early["calibration"], learnt["calibration"])
                later, _ = self.tune(*args)
                self.assertEqual([run["measurement_id"] for run in later["calibration"]["evidence"]], [right])
                # It can be repeated, but not with another reason, and the mark is exported.
                retract = ["history", "retract", wrong, "--reason"]
                self.assertEqual(said, self.run_cli(*retract, "another job was there", *args).stdout)
                self.assertIn("another job was there", self.run_cli(*retract, "x", *args, expect=6).stderr)
                self.assertIn("error: --reason = ", self.run_cli(*retract, "", *args, expect=3).stderr)
                self.run_cli("history", "retract", "m-none", "--reason", "x", *args, expect=5)
                self.run_cli("history", "retract", wrong, *args, expect=2)
                other = ["--db", str(self.folder / f"other{len(args)}.db")]
                lines = self.run_cli("history", "export", *args).stdout
                self.run_cli("history", "import", "-", *other, text_in=lines)
                self.assertEqual([row["id"] for row in self.measured("--retracted", "true", *other)], [wrong])
                self.assertEqual(self.run_cli("history", "export", *other).stdout, lines)

    def test_an_answer_that_is_not_kept_learns_too(self):
        before, study = self.tune()
        expected = before["plans"][0]["estimate"]["step_time_seconds"]
        self.report(study, 1.5 * expected)
        ask = ["tune", *self.question(), "--no-record"]
        learnt = self.json_of(*ask)["plans"]
        self.assertNotEqual(learnt, before["plans"])
        self.assertEqual(self.json_of(*ask, "--history-sequence", "0")["plans"], before["plans"])
        self.assertEqual(len(self.json_of("study", "list")["studies"]), 1)
        self.assertEqual(self.tune()[0]["plans"], learnt)

    def test_no_store_is_made_to_retract_from(self):
        self.run_cli("history", "retract", "m-none", "--reason", "x", expect=5)
        self.assertFalse(self.store.exists())

    def test_an_implausibly_long_step_is_asked_about(self):
        for args in ([], ["--server", self.start_server()]):
            with self.subTest(args):
                before, study = self.tune(*args)
                seconds = 1000 * before["plans"][0]["estimate"]["step_time_seconds"]
                asked = self.report(study, seconds, *args, expect=3).stderr
                self.assertRegex(asked, r"error: --step-time = \S+; the plan is expected to take .*--confirm")
                error = json.loads(self.report(study, seconds, "--output", "json", *args, expect=3).stderr)["error"]
                self.assertEqual(error["reason"], "UNLIKELY_STEP_TIME")
                line = {"study_id": study, "outcome": "ok", "step_time_seconds": seconds}
                self.run_cli("job", "report", "--file", "-", *args, expect=3, text_in=json.dumps(line))
                self.assertEqual(self.measured(*args), [])
                self.report(study, seconds, "--confirm", *args)
                self.assertEqual(len(self.measured(*args)), 1)
                self.run_cli("job", "report", "--file", "-", "--confirm", *args, expect=2, text_in=json.dumps(line))

    def test_every_bad_field_is_a_line(self):
        args = ["job", "report", "--model", self.write("m.json", {**TINY_MODEL, "layer_count": 0, "x": 1}),
                "--workload", self.write("w.json", TINY_WORKLOAD), "--plan",
                self.write("p.json", {"tensor_paralel": 2}), "--rank", "1", "--outcome", "fine",
                "--step-time", "-1"]
        for remote in ([], ["--server", self.start_server()]):
            errors = self.run_cli(*args, *remote, expect=3).stderr
            fields = sorted(re.match(r"error: (?:\S+/)?(.+?) = ", line).group(1) for line in errors.splitlines())
            self.assertEqual(fields, ["--outcome", "--rank", "--step-time", "cluster", "m.json: layer_count",
                                      "m.json: x", "p.json: tensor_paralel"])
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
        self.assertIn("stdin: row 2: model = stated beside study_id", errors)
        self.assertIn("stdin: row 3: step_time = unknown field", errors)
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
        self.assertIn("2 already stored", self.run_cli("history", "import", "-", *other,
                                                          text_in=lines).stdout)
        # A file that is damaged, cut or unreadable is not imported at all.
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
        """Runs the shell lines of docs/history.md; figures, ids and times may differ from what is printed there."""
        text = (EXAMPLES.parent / "docs" / "history.md").read_text()
        section = text.split("## An example\n")[1].split("\n## ")[0]
        lines = [line[4:] for line in section.splitlines() if line.startswith("    ")]
        blocks = [block.split("\n", 1) for block in "\n".join(lines).split("$ ") if block]
        self.assertGreater(len(blocks), 5)
        script = "set -e\n" + "".join(f"{command}\necho '--'\n" for command, *_ in blocks)
        environment = {**os.environ, "XDG_STATE_HOME": str(self.folder / "state"),
                       "PATH": f"{MESHWRIGHT.parent}:{os.environ['PATH']}"}
        done = subprocess.run(["sh", "-c", script], cwd=EXAMPLES.parent, capture_output=True,
                              text=True, env=environment, timeout=600, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

        def shape(shown):
            masked = re.sub(r"[0-9a-f]{12,}|\d[\d,.]*|\bm?s\b", "#", shown)
            return [re.sub(r"[ #]+", " ", line).strip() for line in masked.strip().splitlines()]
        for (command, *shown), actual in zip(blocks, done.stdout.split("--\n"), strict=False):
            self.assertEqual(shape("".join(shown)), shape(actual), command)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
