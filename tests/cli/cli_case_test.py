"""Tests of questions that flags state and of stores that are not there:
cli_case_test.py MESHWRIGHT MESHWRIGHTD EXAMPLES"""

import json
import sys
import unittest

from programs import TINY_CLUSTER, TINY_MODEL, TINY_PLAN, TINY_WORKLOAD, Folder, case

CHIP = ["--chip", "NVIDIA A100-SXM4-80GB", "--nodes", "1"]
SCRIPT = """\
torchrun --nproc_per_node 8 pretrain_gpt.py \\
  --num-layers 8 --hidden-size 2048 --ffn-hidden-size 5504 --num-attention-heads 16 \\
  --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1 --global-batch-size 64 \\
  --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --bf16 --swiglu \\
  --normalization RMSNorm --disable-bias-linear --position-embedding-type rope \\
  --untie-embeddings-and-output-weights --vocab-size 32000
"""


class CaseTest(Folder):
    def question_flags(self):
        return ["--model", self.write("model.json", TINY_MODEL), "--sequence-length", "2048",
                "--global-batch-size", "64", "--framework", "megatron-core", *CHIP]

    def estimate(self, *args):
        return json.loads(self.run_cli("evaluate", *args, "--output", "json").stdout)

    def test_the_same_estimate_by_flags_as_by_files(self):
        plan = self.write("plan.json", TINY_PLAN)
        by_case = json.loads(self.run_cli("evaluate", "--cases", "-", text_in=json.dumps(case())).stdout)
        by_flags = self.estimate(*self.question_flags(), "--plan", plan)
        by_file = self.estimate("--plan", self.write("case.yaml", case()))
        self.assertEqual(by_flags["id"], "plan.json")
        for other in (by_flags, by_file):
            self.assertEqual(other["step_time_seconds"], by_case["step_time_seconds"])
            self.assertEqual(other["peak_memory_bytes"], by_case["peak_memory_bytes"])

    def test_people_get_a_report(self):
        plan = self.write("plan.json", TINY_PLAN)
        for columns in (80, 120):
            told = self.run_cli("evaluate", *self.question_flags(), "--plan", plan, columns=columns).stdout
            self.assertTrue(told.startswith("plan.json: "), told)
            self.assertIn("a step; between", " ".join(told.split()))
            self.assertIn("fits (", told)
            self.assertIn("matmul", told)
            self.assertLessEqual(max(len(line) for line in told.splitlines()), columns)

    def test_the_server_says_the_same(self):
        address = self.start_server()
        flags = [*self.question_flags(), "--plan", self.write("plan.json", TINY_PLAN)]
        self.assertEqual(self.run_cli("evaluate", *flags, "--server", address).stdout,
                         self.run_cli("evaluate", *flags).stdout)
        wrong = [*flags, "--nic", "-1"]
        self.assertEqual(self.run_cli("evaluate", *wrong, "--server", address, expect=3).stderr,
                         self.run_cli("evaluate", *wrong, expect=3).stderr)

    def test_a_plan_alone_asks_for_its_question(self):
        plan = self.write("plan.json", TINY_PLAN)
        errors = self.run_cli("evaluate", "--plan", plan, expect=3).stderr.splitlines()
        self.assertEqual(len(errors), 1, errors)
        self.assertIn("question = missing; the file has only a plan; state a model", errors[0])
        self.assertIn("plan.json", errors[0])
        # A case with a mistake is still told its mistakes.
        errors = self.run_cli("evaluate", "--plan", self.write("case.json", {"plan": TINY_PLAN, "modle": {}}),
                              expect=3).stderr
        self.assertIn("modle", errors)
        self.assertNotIn("only a plan", errors)

    def test_mistakes_name_flags(self):
        flags = self.question_flags()
        plan = self.write("plan.json", {**TINY_PLAN, "tensor_parallel": 3})
        done = self.run_cli("evaluate", *flags, "--plan", plan, expect=3)
        self.assertIn("plan.json: tensor_parallel = 3", done.stderr)
        done = self.run_cli("evaluate", *flags[:8], "--plan", plan, "--chip", "A100", "--nodes", "1", expect=3)
        self.assertIn("--chip = A100; names several chips", done.stderr)
        for args, missing in (((), "--cases, or --model with --plan, or --from, is required"),
                              (flags, "--plan is required"),
                              (flags[2:], "--model is required"),
                              (flags[:8], "--cluster, or --chip with --nodes, is required"),
                              (("--cases", "-", "--plan", plan), "--cases excludes --plan")):
            self.assertIn(missing, self.run_cli("evaluate", *args, expect=2).stderr)

    def test_two_plans_of_a_question_are_compared(self):
        plans = [self.write("a.json", TINY_PLAN), self.write("b.yaml", "tensor_parallel: 8\n")]
        told = self.run_cli("compare", *plans, *self.question_flags()).stdout
        self.assertIn("as fast", told)
        mixed = self.run_cli("compare", plans[0], self.write("case.json", case()), *self.question_flags()).stdout
        self.assertIn("Both take", mixed)

    def test_other_commands_take_the_question_too(self):
        plan = ["--plan", self.write("plan.json", TINY_PLAN)]
        flags = self.run_cli("export", *self.question_flags(), *plan).stdout
        self.assertIn("--tensor-model-parallel-size 2", flags)
        whole = self.run_cli("export", "--plan", self.write("case.json", case()), "--framework",
                             "megatron-core").stdout
        self.assertIn("--tensor-model-parallel-size 2", whole)
        trace = self.run_cli("trace", *self.question_flags(), *plan).stdout
        self.assertIn("traceEvents", trace)
        script = self.write("run.sh", SCRIPT)
        self.assertIn("tensor_model_parallel_size: 2", self.run_cli(
            "export", "--from", script, *CHIP, "--framework", "flagscale").stdout)


class MissingStoreTest(Folder):
    def test_a_mistyped_store_is_named(self):
        absent = str(self.folder / "typo.db")
        for command in (["history", "list"], ["history", "measurements"], ["history", "calibrations"],
                        ["history", "export"], ["study", "list"], ["job", "list"],
                        ["history", "show", "study-0123456789ab"]):
            done = self.run_cli(*command, "--db", absent, expect=5)
            self.assertIn(f"store '{absent}' does not exist", done.stderr)
            self.assertEqual(done.stdout, "")

    def test_the_own_store_may_be_missing(self):
        self.assertIn("no studies", self.run_cli("history", "list").stdout)

    def test_what_only_learns_says_so_and_answers(self):
        absent = str(self.folder / "typo.db")
        lines = json.dumps(case())
        done = self.run_cli("evaluate", "--cases", "-", "--db", absent, text_in=lines)
        self.assertIn(f"does not learn from the store: store '{absent}' does not exist", done.stderr)
        self.assertNotIn("does not learn", self.run_cli("evaluate", "--cases", "-", text_in=lines).stderr)

    def test_what_writes_makes_it(self):
        made = str(self.folder / "new.db")
        self.run_cli("tune", *self.question(), "--db", made)
        self.assertIn("tiny", self.run_cli("history", "list", "--db", made).stdout)


class LogImportTest(Folder):
    def setUp(self):
        super().setUp()
        self.script = self.write("run.sh", SCRIPT)
        self.log = self.write("train.log", "".join(
            f" iteration {step}/ 50 | elapsed time per iteration (ms): {9000 if step < 6 else 600 + step} | x\n"
            for step in range(1, 12)))

    def job(self):
        return [self.log, "--from", self.script, *CHIP]

    def test_a_log_becomes_a_measurement_once(self):
        told = self.run_cli("history", "import", *self.job(), "--format", "megatron")
        self.assertIn("format megatron; the median of 6 times of steps is 0.6085 s", told.stderr)
        self.assertIn("is stored", told.stdout)
        again = self.run_cli("history", "import", *self.job(), "--format", "megatron")
        self.assertEqual(again.stdout, told.stdout)
        rows = json.loads(self.run_cli("history", "measurements", "--output", "json").stdout)
        self.assertEqual([row["step_time_seconds"] for row in rows["measurements"]], [0.6085])

    def test_mistakes(self):
        done = self.run_cli("history", "import", *self.job(), "--format", "mine", expect=3)
        self.assertIn("--format = mine; must be one of deepspeed, ", done.stderr)
        done = self.run_cli("history", "import", *self.job(), "--format", "torchtitan", expect=3)
        self.assertIn("has no line with the time of a step in the format torchtitan", done.stderr)
        self.assertIn("--from requires --format", self.run_cli("history", "import", *self.job(), expect=2).stderr)
        self.run_cli("history", "list")  # nothing was stored, and no store was made
        self.assertFalse(self.store.exists())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
