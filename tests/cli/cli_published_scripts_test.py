"""Tests that published launch scripts are answered as they stand, for the devices that they are for:
cli_published_scripts_test.py MESHWRIGHT MESHWRIGHTD EXAMPLES"""

import json
import sys
import unicodedata
import unittest

from programs import EXAMPLES, Folder

SCRIPTS = EXAMPLES.parent / "tests" / "data" / "launch_scripts"
LLAMA3_8B = {"layer_count": 32, "hidden_size": 4096, "ffn_hidden_size": 14336, "attention_head_count": 32,
             "kv_head_count": 8, "head_dim": 128, "vocab_size": 128256, "mlp": "swiglu", "norm": "rmsnorm"}
ASCEND = "huawei-ascend-910b-313t"
NEMO = """\
nemo llm pretrain --factory llama3_8b trainer.num_nodes=1 trainer.devices=8 \\
  trainer.strategy.tensor_model_parallel_size=8 trainer.strategy.sequence_parallel=True \\
  data.global_batch_size=64 data.micro_batch_size=1 data.seq_length=8192
"""

# Script, framework, nodes of eight devices, other flags, and what the file leaves to another one: the
# vocabulary, which the tokenizer has, or the whole model.
RUN = [
    ("llama3_8b_fp8.sh", "megatron-core", 1, [], None),
    ("gpt3_175b.sh", "megatron-core", 16, ["--set", "NUM_NODES=16"], {"vocab_size": 51200}),
    ("gpt_1.3b_deepspeed.sh", "megatron-deepspeed", 8, [], {"vocab_size": 50304}),
    ("aquila_experiment.yaml", "flagscale", 1, [], None),
    ("deepseek_16b_flagscale.yaml", "flagscale", 2, [], None),
    ("llama2_13b_mindspeed.sh", "mindspeed", 1, ["--chip", ASCEND], {"vocab_size": 32000}),
    ("llama3_70b.toml", "torchtitan", 8, [], None),
    ("deepseek_v3.toml", "torchtitan", 32, [], None),
    ("llama3_8b_paddle.json", "paddle", 1, [], LLAMA3_8B),
    ("llama2_7b_maxtext.sh", "maxtext", 16, [], None),
    ("accelerate_tp_hsdp.yaml", "pytorch-fsdp", 1, ["--sequence-length", "4096"], LLAMA3_8B),
    ("nanotron_llama3.2_3b.yaml", "nanotron", 1, ["--devices-per-node", "4"], None),
    ("nemo.sh", "megatron-core", 1, [], LLAMA3_8B),
]


def width_of(line):
    """The columns of a line on a terminal: characters of East Asian width take two."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in line)


class PublishedScriptsTest(Folder):
    def flags_of(self, script, nodes, others, model):
        path = self.write(script, NEMO) if script == "nemo.sh" else str(SCRIPTS / script)
        chip = [] if "--chip" in others else ["--chip", "h100-sxm5-80gb"]
        beside = ["--model", self.write("model.json", model)] if model else []
        return ["--from", path, *chip, "--nodes", str(nodes), *others, *beside]

    def test_scripts_that_run_are_answered(self):
        for script, framework, nodes, others, model in RUN:
            with self.subTest(script):
                flags = self.flags_of(script, nodes, others, model)
                own = json.loads(self.run_cli("evaluate", *flags, "--output", "json").stdout)
                self.assertGreater(own["step_time_seconds"], 0)
                answer = json.loads(self.run_cli("tune", *flags, "--no-record", "--output", "json").stdout)
                self.assertEqual(answer["question"]["workload"]["framework"]["name"], framework)
                self.assertAlmostEqual(answer["baseline"]["estimate"]["step_time_seconds"] / own["step_time_seconds"],
                                       1, delta=1e-6)

    def test_a_script_is_a_baseline_of_the_question_in_files(self):
        for script in ("gpt3_175b.sh", "deepseek_16b_flagscale.yaml", "llama3_8b_paddle.json"):
            with self.subTest(script):
                _, _, nodes, others, model = next(row for row in RUN if row[0] == script)
                flags = self.flags_of(script, nodes, others, model)
                asked = json.loads(self.run_cli("tune", *flags, "--no-record", "--output", "json").stdout)
                files = [text for name in ("model", "workload", "cluster")
                         for text in (f"--{name}", self.write(f"{name}.json", asked["question"][name]))]
                answer = json.loads(self.run_cli("tune", *files, "--baseline", flags[1], *others, "--no-record",
                                                 "--output", "json").stdout)
                self.assertEqual(answer["baseline"]["plan"], asked["baseline"]["plan"])
        # A variable needs a script that may have it.
        self.assertIn("--set requires --from or --baseline",
                      self.run_cli("tune", *files, "--set", "NNODES=1", expect=2).stderr)
        plan = self.write("plan.json", asked["baseline"]["plan"])
        self.assertIn("is not a launch script", self.run_cli("tune", *files, "--baseline", plan, "--set", "NNODES=1",
                                                       expect=3).stderr)

    def test_verdict_and_flags_are_on_one_screen(self):
        shown = {"llama3_8b_fp8.sh": "--tensor-model-parallel-size", "aquila_experiment.yaml": "tensor_model_parallel_size:",
                 "deepseek_v3.toml": "tensor_parallel_degree =", "llama3_8b_paddle.json": '"tensor_parallel_degree":',
                 "nanotron_llama3.2_3b.yaml": "tp:", "llama2_7b_maxtext.sh": "ici_"}
        for script, _, nodes, others, model in RUN:
            if script not in shown:
                continue
            with self.subTest(script):
                said = self.run_cli("tune", *self.flags_of(script, nodes, others, model), "--no-record", columns=80).stdout
                lines = said.splitlines()
                self.assertLessEqual(len(lines), 40, said)
                self.assertRegex(said, r"\n(Launch plan 1|Keep your plan)\.")
                self.assertIn(shown[script], said)
                self.assertLessEqual(max(width_of(line) for line in lines), 80, said)

    def test_chinese_names_keep_to_the_columns(self):
        model = self.write("model.json", {**LLAMA3_8B, "name": "通义千问测试模型八十亿参数"})
        workload = self.write("workload.json", {"sequence_length": 4096, "global_batch_size": 64,
                                                "framework": {"name": "flagscale"}})
        cluster = self.write("cluster.json", {"name": "北京机房训练集群", "pools": [
            {"name": "甲池", "chip": "nvidia-a800-sxm4-80gb", "node_count": 2, "devices_per_node": 8},
            {"name": "乙池", "chip": "nvidia-a100-sxm4-80gb", "node_count": 2, "devices_per_node": 8}]})
        question = ["--model", model, "--workload", workload, "--cluster", cluster]
        for columns in (80, 100, 120, 200):
            for command in (["tune"], ["tune", "--verbose"], ["study", "list"], ["history", "list"]):
                with self.subTest(columns=columns, command=command):
                    flags = question if command[0] == "tune" else []
                    said = self.run_cli(*command, *flags, columns=columns).stdout
                    self.assertIn("通义千问", said)
                    wide = [line for line in said.splitlines() if width_of(line) > columns]
                    self.assertEqual(wide, [])

    def test_what_a_script_leaves_open_is_named(self):
        script, _, nodes, others, _ = RUN[1]
        said = self.run_cli("evaluate", *self.flags_of(script, nodes, others, None), expect=3).stderr
        self.assertIn("does not state vocab_size (--vocab-size)", said)

    def test_contradictory_and_unknown_keys_are_named(self):
        script = (SCRIPTS / "llama3_8b_fp8.sh").read_text()
        self.assertIn("--bf16", script)
        both = self.write("both.sh", script.replace("--bf16", "--bf16 --fp16 --frobnicate 3"))
        chip = ["--chip", "h100-sxm5-80gb", "--nodes", "1"]
        said = self.run_cli("evaluate", "--from", both, *chip, expect=3).stderr
        self.assertIn("bf16 = together with fp16", said)
        unknown = self.write("unknown.sh", script.replace("--bf16", "--bf16 --frobnicate 3"))
        self.assertIn("not known, and not used: frobnicate", self.run_cli("evaluate", "--from", unknown, *chip).stderr)

    def test_a_refusal_names_the_rule_and_its_source(self):
        # Four ranks for two key-value heads, in the release before Megatron-Core could copy them.
        model = {**LLAMA3_8B, "kv_head_count": 2}
        workload = self.write("workload.json", {"sequence_length": 4096, "global_batch_size": 64,
                                                "framework": {"name": "megatron-core", "version": "0.14"}})
        question = ["--model", self.write("model.json", model), "--workload", workload,
                    "--chip", "h100-sxm5-80gb", "--nodes", "1"]
        reason = "tensor parallelism must divide the key-value heads (megatron/core/transformer/transformer_config.py"
        plan = self.write("plan.json", {"tensor_parallel": 4})
        said = self.run_cli("evaluate", *question, "--plan", plan, expect=3).stderr
        self.assertIn(reason, said)
        only = self.run_cli("tune", *question, "--no-record", "--dimension", "tensor_parallel=4", expect=4).stdout
        self.assertIn("No plan is legal for this model, workload and cluster.\n\nWhy\n", only)
        words = " ".join(only.split())
        self.assertRegex(words, r"\d+ of \d+ plans are left out: megatron-core 0\.14 refuses tensor_parallel: ")
        self.assertIn(reason, words)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
