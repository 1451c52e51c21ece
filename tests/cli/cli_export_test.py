"""Tests the exports of plans as users get them: cli_export_test.py MESHWRIGHT MESHWRIGHTD EXAMPLES"""

import json
import sys
import unittest

from programs import TINY_MODEL, TINY_PLAN, TINY_WORKLOAD, Folder, case


class ExportTest(Folder):
    def test_export(self):
        plan = self.write("case.json", case())
        flags = self.run_cli("export", "--plan", plan, "--framework", "megatron-core").stdout
        self.assertIn("--pipeline-model-parallel-size 2 \\\n", flags)
        # Without a framework it is the case's.
        done = self.run_cli("export", "--plan", plan)
        self.assertEqual(done.stdout, flags)
        self.assertIn("pretrain_gpt.py <flags>\n", done.stderr)
        self.assertIn("Not among these flags:\n", done.stderr)
        exported = json.loads(self.run_cli("export", "--plan", plan, "--output", "json").stdout)
        self.assertEqual(exported["exports"], {"megatron-core": flags})
        self.assertIn("torchrun --nnodes ", exported["launches"]["megatron-core"]["command"])
        self.run_cli("export", "--plan", plan, "--framework", "horovod", expect=5)
        self.run_cli("export", expect=2)
        bad = self.write("bad.json", case(plan={**TINY_PLAN, "tensor_parallel": 3}))
        self.run_cli("export", "--plan", bad, expect=3)

    # A value that the case does not state takes the default of the framework that is exported for, and the
    # plan is held to its rules: DeepSpeed keeps 16-bit gradients, Megatron-Core 32-bit ones.
    def test_export_for_another_framework(self):
        plan = self.write("case.json", case(plan={"micro_batch_size": 1, "zero_stage": 1}))
        exported = self.run_cli("export", "--plan", plan, "--framework", "deepspeed").stdout
        self.assertEqual(json.loads(exported)["data_types"], {"grad_accum_dtype": "bf16"})
        plan = self.write("case.json", case())
        refused = self.run_cli("export", "--plan", plan, "--framework", "torchtitan", expect=3)
        self.assertIn(f"error: {plan}: plan.zero_stage = 1", refused.stderr)

    # A plan of a study's answer, for its own framework or for another one.
    def test_export_of_a_study(self):
        question = self.question(workload={**TINY_WORKLOAD, "framework": {"name": "megatron-core"}})
        answer = json.loads(self.run_cli("tune", *question, "--output", "json").stdout)
        study = json.loads(self.run_cli("study", "list", "--output", "json").stdout)["studies"][0]["id"]
        for rank, ranked in enumerate([answer["baseline"], *answer["plans"]]):
            flags = self.run_cli("export", "--study", study, "--rank", str(rank)).stdout
            self.assertEqual(flags, ranked["exports"]["megatron-core"])
        other = self.run_cli("export", "--study", study, "--framework", "megatron-bridge").stdout
        self.assertIn("tensor_model_parallel_size: ", other)
        done = self.run_cli("export", "--study", study, "--rank", "99", expect=3)
        self.assertIn("error: --rank = 99; must be between 0 and ", done.stderr)
        self.run_cli("export", "--study", "study-none", expect=5)
        self.run_cli("export", "--study", study, "--plan", "-", expect=2)

    def test_framework_in_place_of_the_workloads(self):
        answer = json.loads(self.run_cli("tune", *self.question(), "--framework", "torchtitan", "--output",
                                         "json").stdout)
        self.assertIn("data_parallel_shard_degree", answer["plans"][0]["exports"]["torchtitan"])
        done = self.run_cli("tune", *self.question(), "--framework", "torchtitn", expect=3)
        self.assertIn("error: --framework = \"torchtitn\"; must be one of torchtitan", done.stderr)

    # A version may follow the name. Those that rules and profiles tell apart are known, also with a patch number.
    def test_framework_with_a_version(self):
        plan = self.write("case.json", case())
        for version in ("0.14", "0.15", "0.15.2", "0.16"):
            self.run_cli("export", "--plan", plan, "--framework", f"megatron-core:{version}")
        for text, why in (("megatron-core:0.9", "known versions of megatron-core are 0.12, 0.13, 0.14, 0.15, 0.16"),
                          ("megatron-core:0.155", "known versions of megatron-core are "),
                          ("megatron-core:", "known versions of megatron-core are "),
                          ("nemo:2.2", "nemo runs megatron-core, whose version counts: megatron-core:VERSION"),
                          (":0.14", "is empty")):
            for command in (("export", "--plan", plan), ("tune", *self.question())):
                done = self.run_cli(*command, "--framework", text, expect=2)
                self.assertIn(why, done.stderr)
        answer = json.loads(self.run_cli("tune", *self.question(), "--framework", "megatron-core:0.15", "--output",
                                         "json").stdout)
        self.assertEqual(answer["question"]["workload"]["framework"],
                         {"name": "megatron-core", "version": "0.15", "facts": []})

    # gpt-oss has its own flags, and no others that would train another model. Gemma 2 has a recipe.
    def test_models_of_other_forms(self):
        gpt_oss = self.write("gpt_oss.json", {
            "model_type": "gpt_oss", "hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 4,
            "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 64, "num_local_experts": 8,
            "num_experts_per_tok": 4, "sliding_window": 128, "vocab_size": 4096, "attention_bias": True,
            "tie_word_embeddings": False})
        gemma2 = self.write("gemma2.json", {
            "model_type": "gemma2", "hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 4,
            "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 32, "sliding_window": 128,
            "vocab_size": 4096})
        rest = ["--sequence-length", "1024", "--global-batch-size", "64", "--chip", "NVIDIA A100-SXM4-80GB",
                "--nodes", "1", "--framework", "megatron-core", "--output", "json"]
        answer = json.loads(self.run_cli("tune", "--model", gpt_oss, *rest).stdout)
        flags = answer["plans"][0]["exports"]["megatron-core"]
        for flag in ("--quick-geglu", "--glu-linear-offset 1", "--activation-func-clamp-value 7",
                     "--softmax-type learnable", "--window-attn-skip-freq 2"):
            self.assertIn(flag, flags)
        for flag in ("--swiglu", "--disable-bias-linear"):
            self.assertNotIn(flag, flags)
        answer = json.loads(self.run_cli("tune", "--model", gemma2, *rest).stdout)
        self.assertEqual(list(answer["plans"][0]["exports"]), ["megatron-bridge"])
        self.assertTrue(any("a recipe of megatron-bridge does" in warning for warning in answer["warnings"]))

    # A setting that no plan of the framework can run is an error before the search, here and by a server.
    def test_model_that_the_framework_cannot_run(self):
        question = [*self.question(model={**TINY_MODEL, "mlp": "gelu"}), "--framework", "torchtitan"]
        address = self.start_server()
        for place in ([], ["--server", address]):
            for command in (["tune"], ["explain"], ["tune", "--devices", "8,16"]):
                done = self.run_cli(*command, *question, *place, expect=3)
                self.assertIn(f"error: {question[1]}: mlp = gelu; torchtitan has swiglu", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
