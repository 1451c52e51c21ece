"""Tests the Python client against a real server: client_test.py MESHWRIGHT MESHWRIGHTD EXAMPLES PACKAGE"""

import asyncio
import json
import random
import sys
import unittest

import servers
from programs import EXAMPLES, LLAMA, TINY_MODEL, TINY_PLAN, case
from servers import OWN_PLAN, QUESTION

import meshwright
from meshwright import questions, v1


class CallsTest(servers.Servers):
    def setUp(self):
        super().setUp()
        self.address = self.start()[1]
        self.client = meshwright.Client(self.address)
        self.addCleanup(self.client.close)

    def test_the_answer_is_that_of_the_command_line(self):
        question = meshwright.question(EXAMPLES / "two-cores" / "model.json", EXAMPLES / "two-cores" / "workload.json",
                                       EXAMPLES / "two-cores" / "cluster.json", plan_count=3)
        answer = meshwright.to_dict(self.client.recommend(question, is_unrecorded=True).result)
        folder = EXAMPLES / "two-cores"
        printed = json.loads(self.run_cli(
            "tune", "--model", str(folder / "model.json"), "--workload", str(folder / "workload.json"), "--cluster",
            str(folder / "cluster.json"), "--top", "3", "--no-record", "--output", "json").stdout)
        for name in ("plans", "baseline", "applied_defaults", "warnings", "recommendation", "reason"):
            self.assertEqual(answer[name], as_numbers(answer[name], printed[name]), name)

    def test_a_model_of_hugging_face(self):
        question = meshwright.question(LLAMA, LLAMA / "workload.json", LLAMA / "cluster.json", plan_count=1)
        self.assertIn('"model_type"', question.hugging_face_config_json)
        decision = self.client.recommend_or({"tensor_parallel": 8, "pipeline_parallel": 4}, question, deadline=60)
        self.assertEqual((decision.is_own, decision.reason), (False, ""))
        self.assertIn("--tensor-model-parallel-size", decision.flags())
        self.assertEqual(decision.flags("megatron-core"), decision.flags())
        self.assertIsNone(decision.flags("deepspeed"))
        study = self.client.get_study(decision.study_id)
        self.assertEqual(study.question.baseline.pipeline_parallel, 4)  # the job's own plan

    def test_a_study(self):
        study = self.client.create_study(QUESTION, study_id="mine", request_id="once")
        self.assertEqual(self.client.create_study(QUESTION, study_id="mine", request_id="once").id, study.id)
        events = list(self.client.watch_study("mine"))
        self.assertEqual([event.revision for event in events], list(range(1, len(events) + 1)))
        self.assertEqual(events[-1].state, "succeeded")
        self.assertEqual(list(self.client.watch_study("mine", after_revision=events[1].revision)), events[2:])
        self.assertEqual(self.client.update_study("mine", display_name="x", labels={"team": "a"}).labels["team"], "a")
        self.assertEqual(self.client.cancel_study("mine").state, "succeeded")  # it had ended
        self.assertEqual(list(self.client.list_trials("mine", order="fastest")), [])
        with self.assertRaises(meshwright.NotFound) as caught:
            self.client.get_study("absent")
        self.assertEqual(caught.exception.reason, "UNKNOWN_STUDY")
        with self.assertRaises(meshwright.NotFound):
            list(self.client.watch_study("absent"))

    def test_a_study_is_deleted_once(self):
        self.client.create_study(QUESTION, study_id="short")
        with self.assertRaises(meshwright.MeshwrightError) as caught:
            list(self.client.watch_study("short"))
            self.client.retry_trials("short", [1])
        self.assertEqual(caught.exception.reason, "UNKNOWN_TRIAL")
        deleted = self.client.delete_study("short", request_id="gone")
        self.assertEqual((deleted.study_id, deleted.trial_count), ("short", 0))
        self.assertEqual(self.client.delete_study("short", request_id="gone"), deleted)
        with self.assertRaises(meshwright.NotFound):
            self.client.delete_study("short")

    def test_lists_have_all_pages(self):
        ids = [self.client.create_study({**QUESTION, "plan_count": count}).id for count in range(1, 6)]
        listed = [study.id for study in self.client.list_studies(page_size=2)]
        self.assertEqual(listed, ids[::-1])  # newest first
        for _ in self.client.watch_study(ids[4]):
            pass
        plans = list(self.client.list_plans(ids[4], page_size=2, view="basic"))
        self.assertEqual([plan.rank for plan in plans], [0, 1, 2, 3, 4, 5])  # the baseline, and 5 plans
        self.assertEqual([one.id for one in self.client.list_studies(filter={"text": ids[1]})], [ids[1]])

    def test_evaluate_and_compare(self):
        answers = self.client.evaluate_plans([case(), case(plan={"tensor_parallel": 3})]).answers
        self.assertTrue(answers[0].estimate.fits)
        self.assertTrue(answers[1].failed.error.reason)
        many = self.client.evaluate_plans([case(id=str(number)) for number in range(1025)])  # 512 + 512 + 1
        self.assertEqual([one.estimate.id for one in many.answers], [str(number) for number in range(1025)])
        pair = self.client.evaluate_plans([case(id="a"), case(id="b", plan=OWN_PLAN)], pairs=[{"a": "a", "b": "b"}])
        self.assertEqual(len(pair.pairs), 1)
        compared = self.client.compare_plans(QUESTION, TINY_PLAN, OWN_PLAN)
        self.assertEqual(compared.second_plan.tensor_parallel, 8)
        self.assertTrue(self.client.explain_plan(QUESTION).binding_resource)

    def test_places_jobs(self):
        jobs = [{"name": name, "model": QUESTION["model"], "workload": QUESTION["workload"], "weight": weight}
                for name, weight in (("light", 1), ("heavy", 2))]
        cluster = {"pools": [{"chip": "nvidia-a100-sxm4-80gb", "node_count": 1, "devices_per_node": 8}]}
        answer = self.client.place_jobs({"jobs": jobs, "clusters": [cluster]}, deadline=60)
        self.assertEqual([len(job.nodes) for job in answer.jobs], [0, 1])  # there is one node
        self.assertEqual(answer.objective_value, 2)
        with self.assertRaises(meshwright.InvalidRequest) as caught:
            self.client.place_jobs({"jobs": jobs, "clusters": []})
        self.assertEqual([one.field for one in caught.exception.fields], ["clusters"])

    def test_reports(self):
        study = self.client.recommend(QUESTION).study_id
        report = {"study_id": study, "outcome": "ok", "step_time_seconds": 1.5, "request_id": "r1",
                  "is_confirmed": True}
        first = self.client.report_job(report).report
        self.assertEqual(self.client.report_job(report).report.id, first.id)
        self.client.report_job({**report, "request_id": None, "step_time_seconds": 1.6})
        self.assertEqual([one.step_time_seconds for one in self.client.list_job_reports(page_size=1)], [1.6, 1.5])
        self.assertEqual(list(self.client.list_job_reports(filter={"outcome": "oom"})), [])

    def test_about_the_server(self):
        self.assertTrue(self.client.get_server_info().version)
        self.assertIn("nvidia-a100-sxm4-80gb", [chip.id for chip in self.client.list_chips()])
        chip = self.client.call("CatalogService", "GetChip", v1.GetChipRequest(chip_id="nvidia-a100-sxm4-80gb"),
                                v1.GetChipResponse).chip
        self.assertTrue(chip.figures)

    def test_mistakes_of_a_question(self):
        bad = {**QUESTION, "workload": {"sequence_length": -1, "global_batch_size": 64, "precision": "int3"}}
        for ask in (self.client.recommend, lambda question: self.client.recommend_or(OWN_PLAN, question)):
            with self.assertRaises(meshwright.InvalidRequest) as caught:
                ask(bad)
            self.assertEqual({one.field for one in caught.exception.fields},
                             {"workload.sequence_length", "workload.precision"})
            self.assertEqual(caught.exception.reason, "INVALID_FIELDS")
        decision = self.client.recommend_or(OWN_PLAN, bad, raises_mistakes=False)
        self.assertEqual((decision.is_own, decision.reason), (True, "INVALID_FIELDS"))
        self.assertEqual(decision.plan, v1.Plan(tensor_parallel=8))

    def test_no_plan_fits(self):
        big = {**QUESTION, "model": {**TINY_MODEL, "hidden_size": 32768, "ffn_hidden_size": 131072,
                                     "attention_head_count": 256, "kv_head_count": 256}}
        with self.assertRaises(meshwright.NoFeasiblePlan) as caught:
            self.client.recommend_or(OWN_PLAN, big, deadline=60)
        self.assertGreater(caught.exception.infeasible.missing_bytes, 0)
        self.assertTrue(caught.exception.infeasible.binding_memory_kind)

    def test_asyncio(self):
        async def calls():
            async with meshwright.AsyncClient(self.address) as client:
                decision = await client.recommend_or(OWN_PLAN, QUESTION, deadline=60)
                self.assertFalse(decision.is_own)
                studies = [client.create_study({**QUESTION, "plan_count": count}) for count in (1, 2, 3)]
                ids = [study.id for study in await asyncio.gather(*studies)]
                events = [[event async for event in client.watch_study(one)] for one in ids]
                self.assertEqual([one[-1].state for one in events], ["succeeded"] * 3)
                self.assertEqual({study.id async for study in client.list_studies(page_size=1)},
                                 {*ids, decision.study_id})
                many = await client.evaluate_plans([case(id=str(number)) for number in range(513)])
                self.assertEqual(len(many.answers), 513)
                with self.assertRaises(meshwright.InvalidRequest) as caught:
                    await client.recommend({**QUESTION, "plan_count": -1})
                self.assertEqual([one.field for one in caught.exception.fields], ["plan_count"])
                self.assertTrue((await client.get_server_info()).version)
                again = await client.recommend_or(OWN_PLAN, QUESTION, deadline=60)
                self.assertEqual((again.plan, again.answer.source), (decision.plan, "cache"))
        asyncio.run(calls())


class RequestsTest(unittest.TestCase):
    """Mistakes that are found before anything is sent. Nothing listens at the address."""

    def test_all_mistakes_at_once(self):
        question = {"modell": {}, "model": {"layers": 3, "hidden_size": 2**31, "moe": {"expert_count": "x"}},
                    "cluster": {"pools": [{}, {"node_count": 1.5}]}, "plan_count": True, "trials": "none"}
        with self.assertRaises(meshwright.InvalidRequest) as caught:
            meshwright.Client("127.0.0.1:1").recommend(question)
        self.assertEqual([str(one) for one in caught.exception.fields], [
            "modell = unknown; not a field of TuneRequest, of which the closest is model",
            "model.layers = a number; must be a list",
            "model.hidden_size = 2147483648; must be a whole number of 32 bits",
            'model.moe.expert_count = "x"; must be a whole number of 32 bits',
            "cluster.pools[1].node_count = 1.5; must be a whole number of 32 bits",
            "plan_count = true; must be a whole number of 32 bits",
            "trials = a text; must be an object (TrialRequest)"])

    def test_no_value_raises_anything_else(self):
        """Puts odd values into random places of a question."""
        chance = random.Random(30)
        odd = [None, True, -1, 2**31, 2**63, 2**70, 1.5, float("nan"), float("inf"), "", "x", "--5", "9" * 40, "\u00b2",
               "\ud800", b"x", [], [[]], [None], {}, {"": 0}, {3: 4}, (), object(), v1.Plan(), Ellipsis]
        known = [*v1.TuneRequest.DESCRIPTOR.fields_by_name, "odd", 3]
        refused = 0
        for _ in range(3000):
            question = json.loads(json.dumps(QUESTION))
            place = chance.choice([question, question["model"], question["workload"], question["cluster"]["pools"][0]])
            place[chance.choice([*known, *place])] = chance.choice(odd)
            try:
                questions.to_question(question).SerializeToString()
            except meshwright.InvalidRequest as error:
                self.assertTrue(error.fields)
                refused += 1
        self.assertGreater(refused, 1000)

    def test_files(self):
        for name in ("absent.json", LLAMA / "config.json" / "x"):
            with self.assertRaises(meshwright.InvalidRequest) as caught:
                meshwright.question(LLAMA, name, LLAMA / "cluster.json")
            self.assertEqual([one.field for one in caught.exception.fields], ["workload"])

    def test_a_case_with_a_config_of_hugging_face(self):
        with self.assertRaises(meshwright.InvalidRequest) as caught:
            meshwright.Client("127.0.0.1:1").evaluate_plans([case(), case(model={"model_type": "llama"})])
        self.assertEqual([one.field for one in caught.exception.fields], ["cases[1].model"])

    def test_arguments(self):
        for arguments in ({"cert": "x"}, {"token": "a", "token_file": "b"}, {"deadline": 0},
                          {"deadline": float("nan")}):
            with self.assertRaises(ValueError):
                meshwright.Client("127.0.0.1:1", **arguments)
        with self.assertRaises(ValueError):
            meshwright.Client("")

    def test_there_and_back(self):
        plan = v1.Plan(tensor_parallel=2, layers_per_stage=[3, 4], recompute=v1.RecomputePlan(granularity="full"))
        stated = meshwright.to_dict(plan)
        self.assertEqual(stated["layers_per_stage"], [3, 4])
        self.assertEqual(stated["stages"], [])
        self.assertNotIn("zero_stage", stated)  # not stated, which differs from 0
        self.assertEqual(questions.parse(v1.Plan, stated), plan)


def as_numbers(like, value):
    """Returns JSON of the command line with 64-bit integers, which it prints as texts, as numbers."""
    if isinstance(like, dict) and isinstance(value, dict):
        return {key: as_numbers(like.get(key), one) for key, one in value.items()}
    if isinstance(like, list) and isinstance(value, list):
        return [as_numbers(one, other) for one, other in zip(like, value)] + value[len(like):]
    return int(value) if isinstance(like, int) and isinstance(value, str) else value


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]])
