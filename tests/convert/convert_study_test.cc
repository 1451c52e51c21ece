#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "meshwright/v1/service.pb.h"
#include "proto/json/json.h"
#include "recorder/records.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/convert/convert.h"
#include "server/engine/engine_options.h"
#include "server/engine/study_record.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/question/heterogeneous.h"
#include "server/tuner/question/job_template.h"
#include "server/tuner/question/kubernetes_options.h"
#include "server/tuner/question/launcher_facts.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/question/trial.h"
#include "tests/convert/full_samples.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using google::protobuf::util::MessageDifferencer;

StudyRequest FullRequest() {
  Question question = {.model = FullModel(), .workload = FullWorkload(), .cluster = FullCluster()};
  question.cluster.pools.resize(1);
  question.cluster.pool_links.clear();
  // No framework with an exporter runs all that the samples state.
  question.workload.framework_name = "generic";
  // Plans must be legal: tensor 2 x data 4 on 2 x 4 devices.
  const PlanRequest plan = {.tensor_parallel = 2, .sequence_parallel = true, .data_parallel = 4};
  return {.question = question,
          .baseline = plan,
          .plan_count = 7,
          .choice = {.min_fit_probability = 0.9, .tie_probability = 0.6},
          .deadline = Seconds(2.5),
          .strategy = StrategyNames().front(),
          .disabled_rules = {PruneRuleNames().front()},
          .dimensions = {{.name = "tensor_parallel", .values = {"2", "4"}},
                         {.name = "pipeline_parallel", .at_least = 1, .at_most = 8}},
          .history = {{.question = question,
                       .plan = plan,
                       .outcome = Outcome::kOk,
                       .step_time = Seconds(1.5),
                       .peak_memory = Bytes{1000}}},
          .history_sequence = 3,
          .mix_margin = 0.25};
}

StudyRequest ReplayRequest() {
  StudyRequest request = FullRequest();
  request.question.cluster.pools.resize(1);
  request.question.cluster.pool_links.clear();
  request.baseline.reset();
  request.disabled_rules.clear();
  request.dimensions.clear();
  request.trials = TrialRequest{
      .launcher = std::string(kReplayLauncher),
      .replay = {{.plan = {.tensor_parallel = 2, .data_parallel = 4},
                  .outcome = Outcome::kOk,
                  .step_time = Seconds(1.5),
                  .peak_memory = Bytes{1000}},
                 {.plan = {.tensor_parallel = 4, .data_parallel = 2}, .outcome = Outcome::kHang}},
      .budget = {
          .trials = 3, .device_time = Seconds(100), .time = Seconds(10), .stop_within = 0.02}};
  return request;
}

TEST(CodecTest, TrialsReadBackWhole) {
  const Knowledge knowledge = LoadKnowledge("").value();
  const StudyCodec codec = ProtobufCodec(knowledge);
  const std::string bytes = codec.encode_request(ReplayRequest());
  const auto back = codec.decode_request(bytes);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(codec.encode_request(back->request), bytes);
  ASSERT_EQ(back->request.trials->replay.size(), 2u);
  EXPECT_EQ(back->request.trials->replay[0].step_time, Seconds(1.5));
  EXPECT_EQ(back->request.trials->replay[0].peak_memory, Bytes{1000});
  EXPECT_EQ(back->request.trials->replay[1].outcome, Outcome::kHang);
  EXPECT_EQ(back->request.trials->budget.trials, 3);
  EXPECT_EQ(back->request.trials->budget.device_time, Seconds(100));
  EXPECT_EQ(back->request.trials->budget.time, Seconds(10));
  EXPECT_EQ(back->request.trials->budget.stop_within, 0.02);
}

TEST(CodecTest, JobsReadBackWhole) {
  const Knowledge knowledge = LoadKnowledge("").value();
  const StudyCodec codec = ProtobufCodec(knowledge);
  StudyRequest request = ReplayRequest();
  request.trials->launcher = kSlurmLauncher;
  request.trials->replay.clear();
  request.trials->job = JobTemplate{.folder = "/j",
                                    .command = {"train", "{flags}"},
                                    .environment = {"A=1", "TOKEN"},
                                    .engine_flags = {"--partition=gpu"},
                                    .processes_per_node = 1,
                                    .time_limit = Seconds(5),
                                    .queue_limit = Seconds(6),
                                    .python = "py",
                                    .workloads_folder = "/w",
                                    .metrics = {.format = "regex",
                                                .pattern = "x",
                                                .measuring_rank = "last",
                                                .warmup_steps = 1,
                                                .min_steps = 2,
                                                .max_steps = 3,
                                                .interval_ratio = 0.5,
                                                .start_limit = Seconds(7),
                                                .hang_limit = Seconds(8)},
                                    .poll_interval = Seconds(9)};
  request.trials->repeats = {.interleaves_baseline = true, .confirmed_plans = 2};
  const std::string bytes = codec.encode_request(request);
  v1::TuneRequest wire;
  ASSERT_TRUE(wire.ParseFromString(bytes));
  EXPECT_TRUE(wire.trials().interleave_baseline());
  EXPECT_EQ(wire.trials().confirm_plans(), 2);
  EXPECT_THAT(UnsetFields(wire.trials().job()),
              testing::ElementsAre("meshwright.v1.JobMetrics.fields",
                                   "meshwright.v1.JobTemplate.kubernetes",
                                   "meshwright.v1.JobTemplate.slots_folder",
                                   "meshwright.v1.JobTemplate.memory_limit_bytes",
                                   "meshwright.v1.JobTemplate.visible_devices_variable",
                                   "meshwright.v1.JobTemplate.template_name"));
  const auto back = codec.decode_request(bytes).value();
  EXPECT_EQ(codec.encode_request(back.request), bytes);
}

TEST(CodecTest, OptionsOfThisMachineReadBack) {
  const Knowledge knowledge = LoadKnowledge("").value();
  const StudyCodec codec = ProtobufCodec(knowledge);
  StudyRequest request = ReplayRequest();
  request.trials->launcher = kLocalLauncher;
  request.trials->replay.clear();
  request.trials->job = JobTemplate{.folder = "/j",
                                    .slots_folder = "/s",
                                    .memory_limit = Bytes{1 << 30},
                                    .visible_devices_variable = "HIP_VISIBLE_DEVICES"};
  const auto back = codec.decode_request(codec.encode_request(request));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->request.trials->job->slots_folder, "/s");
  EXPECT_EQ(back->request.trials->job->memory_limit, Bytes{1 << 30});
  EXPECT_EQ(back->request.trials->job->visible_devices_variable, "HIP_VISIBLE_DEVICES");
}

TEST(CodecTest, KubernetesReadsBackWhole) {
  const Knowledge knowledge = LoadKnowledge("").value();
  const StudyCodec codec = ProtobufCodec(knowledge);
  StudyRequest request = ReplayRequest();
  request.trials->launcher = kKubernetesLauncher;
  request.trials->replay.clear();
  request.trials->job = JobTemplate{.folder = "/j",
                                    .kubernetes = KubernetesOptions{.server = "https://k",
                                                                    .token_file = "/t",
                                                                    .ca_file = "/c",
                                                                    .name_space = "n",
                                                                    .job_template = "volcano",
                                                                    .image = "i",
                                                                    .queue = "q",
                                                                    .device_resource = "r",
                                                                    .devices_per_node = 2,
                                                                    .volume_claim = "v",
                                                                    .mount_path = "/m",
                                                                    .labels = {{"a", "b=c"}},
                                                                    .request_limit = Seconds(1),
                                                                    .hopeless_limit = Seconds(2),
                                                                    .start_limit = Seconds(3),
                                                                    .deletion_limit = Seconds(4)}};
  const std::string bytes = codec.encode_request(request);
  v1::TuneRequest wire;
  ASSERT_TRUE(wire.ParseFromString(bytes));
  EXPECT_THAT(UnsetFields(wire.trials().job().kubernetes()), testing::ElementsAre());
  const auto back = codec.decode_request(bytes);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(codec.encode_request(back->request), bytes);
}

TEST(CodecTest, QuestionsOfMeasurementsReadBack) {
  const Knowledge knowledge = LoadKnowledge("").value();
  const StudyCodec codec = ProtobufCodec(knowledge);
  const Question question = ReplayRequest().question;
  const auto back = codec.decode_question(codec.encode_question(question));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, question);
  EXPECT_FALSE(codec.decode_question("\xff").ok());
}

// The limit applies to a different strategy from that of FullRequest.
TEST(CodecTest, EvaluationLimitReadsBack) {
  const Knowledge knowledge = LoadKnowledge("").value();
  const StudyCodec codec = ProtobufCodec(knowledge);
  StudyRequest request = FullRequest();
  request.strategy = "mcmc";
  request.evaluation_limit = 12;
  request.disabled_rules.clear();
  const auto back = codec.decode_request(codec.encode_request(request));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_FALSE(back->request.pareto);
  EXPECT_EQ(back->request.choice, request.choice);
  EXPECT_EQ(back->request.strategy, "mcmc");
  EXPECT_EQ(back->request.evaluation_limit, 12);
}

TEST(CodecTest, SharedDevicesAndTrialsByAVendorsModelReadBack) {
  const Knowledge knowledge = LoadKnowledge("").value();
  const StudyCodec codec = ProtobufCodec(knowledge);
  StudyRequest request = ReplayRequest();
  request.question.cluster.pools.resize(1);
  request.question.cluster.pool_links.clear();
  request.question.cluster.pools.front().physical_devices_per_node = 2;
  request.cost_model = CostModelRequest{.name = "acme"};
  const auto back = codec.decode_request(codec.encode_request(request));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->request.question.cluster, request.question.cluster);
  EXPECT_TRUE(back->request.trials.has_value());
  EXPECT_EQ(back->request.cost_model->name, "acme");
}

TEST(CodecTest, AFrontIsAskedForAgain) {
  const Knowledge knowledge = LoadKnowledge("").value();
  const StudyCodec codec = ProtobufCodec(knowledge);
  StudyRequest request = FullRequest();
  request.trials.reset();
  request.pareto = true;
  const auto back = codec.decode_request(codec.encode_request(request));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(back->request.pareto);
}

TEST(CodecTest, AModelIsAskedForAgain) {
  const Knowledge knowledge = LoadKnowledge("").value();
  const StudyCodec codec = ProtobufCodec(knowledge);
  StudyRequest request = FullRequest();
  request.trials.reset();
  request.cost_model = CostModelRequest{.name = "acme", .allow_fallback = true};
  request.evaluation_limit = 12;
  const auto back = codec.decode_request(codec.encode_request(request));
  ASSERT_TRUE(back.ok()) << back.status();
  ASSERT_TRUE(back->request.cost_model.has_value());
  EXPECT_EQ(back->request.cost_model->name, "acme");
  EXPECT_TRUE(back->request.cost_model->allow_fallback);
  EXPECT_EQ(back->request.evaluation_limit, 12);
}

TEST(CodecTest, RequestReadsBackWhole) {
  const Knowledge knowledge = LoadKnowledge("").value();
  const StudyCodec codec = ProtobufCodec(knowledge);
  const std::string bytes = codec.encode_request(FullRequest());
  EXPECT_EQ(bytes, codec.encode_request(FullRequest()));
  const auto request = codec.decode_request(bytes);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->request.question, FullRequest().question);
  EXPECT_EQ(request->request.dimensions, FullRequest().dimensions);
  EXPECT_EQ(request->request.mix_margin, 0.25);
  EXPECT_EQ(request->request.history.front().plan, FullRequest().history.front().plan);
  EXPECT_EQ(codec.encode_request(request->request), bytes);
  EXPECT_EQ(codec.decode_request("\xff").status().code(), absl::StatusCode::kDataLoss);
}

TEST(EstimateTest, HasTheContractsFields) {
  EXPECT_EQ(
      PrintJson(ToWire(SampleEstimate()), {}),
      R"({"step_time_seconds": 2, "step_time_low_seconds": 1.5, "step_time_high_seconds": 2.5, )"
      R"("tokens_per_second_per_device": 100, "model_flops_utilization_ratio": 0.5, )"
      R"("peak_memory_bytes": 10, "reserved_memory_bytes": 11, "memory_capacity_bytes": 12, )"
      R"("fits": true, "fit_probability_ratio": 0.9, "breakdown_seconds": {)"
      R"("activation_offload": 0, "attention": 0, )"
      R"("context_parallel": 0, "data_parallel": 0, "expert_parallel": 0, "fixed": 0, )"
      R"("host": 0, "matmul": 2, "memory_bound": 0, "optimizer": 0, "pipeline_bubble": 0, )"
      R"("pipeline_p2p": 0, "recompute": 0, "tensor_parallel": 0, "vocabulary": 0}, )"
      R"("memory_breakdown_bytes": {"activations": 0, "framework_cache": 0, "gradients": 10, )"
      R"("optimizer_states": 0, "transient": 0, "weights": 0}, )"
      R"("peak_memory_bytes_by_stage": [9, 10], "tier": "simulated", "provenance": "fitted", )"
      R"("applied_defaults": [{"field": "f", "value": "v", "source": "s"}], "warnings": ["w"], )"
      R"("stages": [{"pool": "a", "replica_group": 1, "forward_seconds": 1, )"
      R"("backward_seconds": 2, "message_seconds": 3, "reserved_memory_bytes": 4, )"
      R"("memory_capacity_bytes": 5, "fits": true, "idle_ratio": 0.5}], )"
      R"("idle_nodes_by_pool": {"a": 1}, "breakdown_provenance": {"matmul": "fitted"}, )"
      R"("uncertainty_ratio_by_source": {"framework": 1}})");
}

StudyResult SampleResult() {
  RankedPlan plan = {.plan = FullPlan(),
                     .settings = {{.field = "precision", .value = "fp8"},
                                  {.field = "overlap.tensor_parallel", .value = "true"}},
                     .estimate = SampleEstimate(),
                     .exports = {{"megatron-core",
                                  {.text = "--x",
                                   .file_name = "f",
                                   .versions = "1",
                                   .command = "run",
                                   .left_out = {"data"},
                                   .other_files = {{.name = "g", .text = "{}"}}}}},
                     .like_count = 3,
                     .like_ranges = {{.field = "zero_group_size", .values = "0 to 8"}},
                     .fastest_probability = 0.5,
                     .run = FullRunCost(),
                     .reason = "faster than 1"};
  plan.estimate.cost_model = CostModelSource{.name = "acme",
                                             .vendor = "Acme",
                                             .version = "1.2",
                                             .protocol = "1.0",
                                             .checksum = "abc",
                                             .calibration = "7+def",
                                             .is_fallback = true,
                                             .reason = "why",
                                             .peak_memory = Bytes{7}};
  return {
      .plans = {plan, plan},
      .model_optimum = plan,
      .recommendation = Recommendation{.advice = Advice::kKeepYours,
                                       .reason = "because",
                                       .facts = {{.code = VerdictCode::kSlower,
                                                  .features = {"a", "b"},
                                                  .settings = "fp8",
                                                  .slower_ratio = 0.25,
                                                  .fit_probability = 0.5,
                                                  .faster_probability = 0.125,
                                                  .tied_count = 3}}},
      .baseline = plan,
      .search = {.space_count = 100,
                 .pruned_count_by_rule = {{"topology", 3}, {"divisibility", 40}},
                 .evaluated_count = 57,
                 .seconds = Seconds(0.02),
                 .complete = true,
                 .optimality_gap = 0.125},
      .applied_defaults = {{.field = "f", .value = "v", .source = "s"}},
      .warnings = {"w"},
      .trials = {{.plan = FullPlan(),
                  .outcome = Ran{.step_time = Seconds(2), .peak_memory = Bytes{10}},
                  .reference_step_time = Seconds(4),
                  .expected_step_time = Seconds(3),
                  .success_probability = 0.75,
                  .device_time = Seconds(1120),
                  .suspect_reasons = {"drift: slower"}}},
      .trial_summary = TrialSummary{.stop = TrialStop::kTrialLimit,
                                    .candidate_count = 4,
                                    .device_time = Seconds(1120),
                                    .time = Seconds(140),
                                    .remaining_gain = 0.5,
                                    .best = Seconds(2),
                                    .optimistic = Seconds(1)},
      .calibration = CalibrationReport{.id = "calibration-1",
                                       .time_ratio = 1.1,
                                       .memory_ratio = 0.9,
                                       .run_count = 2,
                                       .history_sequence = 7,
                                       .model_version = "1",
                                       .chip = "nvidia-a100-sxm4-80gb",
                                       .framework = "generic",
                                       .framework_version = "1",
                                       .job_fingerprint = "f",
                                       .evidence = {{.measurement_id = "m-1",
                                                     .model_name = "m",
                                                     .cluster_name = "c",
                                                     .framework_version = "1",
                                                     .plan_key = "p",
                                                     .time_ratio = 1.2,
                                                     .memory_ratio = 0.8,
                                                     .similarity = 0.5},
                                                    {.history_index = 3}}},
      .pareto_front = {{.free_memory_ratio = 0.1, .plan = plan}},
      .heterogeneous = Heterogeneous{
          .tokens_per_second_by_pool = {{"a", 2}, {"b", 3}},
          .lower_bound_tokens_per_second = 3,
          .upper_bound_tokens_per_second = 5,
          .efficiency_ratio = 0.8,
          .gain_ratio = 1.25,
          .verdict = MixVerdict::kMix,
          .reason = "why",
          .gain_low_ratio = 1.125,
          .bottleneck = MixBottleneck{.pool = "a", .stage = 1, .cause = "compute"},
          .best_by_pool_set = {{.pools = {"a", "b"}, .tokens_per_second = 4, .plan = FullPlan()}},
          .generations = {{.name = "hetero_tp", .tokens_per_second = 4, .efficiency_ratio = 0.8}}}};
}

TEST(EndingTest, SaysWhichPlansWereMeasured) {
  const Knowledge knowledge = LoadKnowledge("").value();
  const StudyCodec codec = ProtobufCodec(knowledge);
  StudyResult result = SampleResult();
  result.plans[1].plan.micro_batch_size *= 2;
  const StudyEnding ending = EndingOf("s", StudyAnswer(result), codec, 0);
  ASSERT_EQ(ending.plans.size(), 3u);  // with the baseline
  EXPECT_EQ(ending.plans[1].state, "measured");
  EXPECT_EQ(ending.plans[2].state, "estimated");
  EXPECT_EQ(ending.outcome, "baseline_best");
  result.trials[0].outcome = Crashed();
  EXPECT_EQ(EndingOf("s", StudyAnswer(result), codec, 0).outcome, "all_trials_failed");
}

TEST(ResultTest, EveryFieldIsSet) {
  const v1::TuneResult wire = ToWire(SampleResult());
  // Places, states and times appear only in lists.
  EXPECT_THAT(UnsetFields(wire),
              testing::ElementsAre(
                  "meshwright.v1.Estimate.id", "meshwright.v1.Estimate.calibration",
                  "meshwright.v1.Estimate.choice_rank", "meshwright.v1.RankedPlan.rank",
                  "meshwright.v1.RankedPlan.state", "meshwright.v1.Estimate.id",
                  "meshwright.v1.Estimate.calibration", "meshwright.v1.Estimate.choice_rank",
                  "meshwright.v1.RankedPlan.rank", "meshwright.v1.RankedPlan.state",
                  "meshwright.v1.Trial.failure_class", "meshwright.v1.Trial.failure_message",
                  "meshwright.v1.Trial.number", "meshwright.v1.Trial.state",
                  "meshwright.v1.Trial.start_time", "meshwright.v1.Trial.end_time",
                  "meshwright.v1.Trial.measurement_sequence", "meshwright.v1.PastRun.history_index",
                  "meshwright.v1.Estimate.id", "meshwright.v1.Estimate.calibration",
                  "meshwright.v1.Estimate.choice_rank", "meshwright.v1.RankedPlan.rank",
                  "meshwright.v1.RankedPlan.state", "meshwright.v1.Estimate.id",
                  "meshwright.v1.Estimate.calibration", "meshwright.v1.Estimate.choice_rank",
                  "meshwright.v1.RankedPlan.rank", "meshwright.v1.RankedPlan.state"));
  EXPECT_EQ(wire.recommendation(), "keep_yours");
  EXPECT_EQ(wire.reason(), "because");
  ASSERT_EQ(wire.reasons_size(), 1);
  EXPECT_EQ(wire.reasons(0).code(), "slower");
  EXPECT_THAT(wire.reasons(0).features(), testing::ElementsAre("a", "b"));
  EXPECT_EQ(wire.reasons(0).settings(), "fp8");
  EXPECT_EQ(wire.reasons(0).slower_ratio(), 0.25);
  EXPECT_EQ(wire.reasons(0).fit_probability_ratio(), 0.5);
  EXPECT_EQ(wire.reasons(0).faster_probability_ratio(), 0.125);
  EXPECT_EQ(wire.reasons(0).tied_count(), 3);
  EXPECT_EQ(wire.calibration().evidence(1).history_index(), 3);
  EXPECT_FALSE(wire.calibration().evidence(1).has_time_ratio());
  EXPECT_EQ(wire.plans(0).plan_digest(), MakePlanKey(FullPlan()).digest);
  EXPECT_EQ(wire.search().seconds(), 0.02);
  EXPECT_EQ(wire.search().pruned_count_by_rule().at("divisibility"), 40);
  EXPECT_EQ(wire.trials(0).outcome(), "ok");
  EXPECT_EQ(wire.trial_summary().stop_reason(), "trial_limit");
  EXPECT_EQ(wire.trial_summary().best_step_time_seconds(), 2);
  EXPECT_EQ(wire.trial_summary().optimistic_step_time_seconds(), 1);
}

TEST(ResultTest, AnswersAreStoredAndShown) {
  const Knowledge knowledge = LoadKnowledge("").value();
  const StudyCodec codec = ProtobufCodec(knowledge);
  v1::GetStudyResponse response;
  response.mutable_study()->set_id("s");
  ASSERT_TRUE(FillAnswer(codec.encode_answer(SampleResult()), response).ok());
  EXPECT_EQ(response.study().id(), "s");
  EXPECT_TRUE(MessageDifferencer::Equals(response.result(), ToWire(SampleResult())));
  EXPECT_FALSE(response.has_infeasible());

  const Infeasible infeasible = {.binding_kind = MemoryKind::kActivations,
                                 .nearest = SampleResult().plans[0],
                                 .missing = Bytes{5},
                                 .suggestions = {"more nodes"},
                                 .search = SampleResult().search};
  v1::GetStudyResponse none;
  ASSERT_TRUE(FillAnswer(codec.encode_answer(infeasible), none).ok());
  EXPECT_FALSE(none.has_result());
  EXPECT_EQ(none.infeasible().binding_memory_kind(), "activations");
  EXPECT_EQ(none.infeasible().missing_bytes(), 5);
  EXPECT_THAT(
      UnsetFields(none.infeasible()),
      testing::ElementsAre("meshwright.v1.Estimate.id", "meshwright.v1.Estimate.calibration",
                           "meshwright.v1.Estimate.choice_rank", "meshwright.v1.RankedPlan.rank",
                           "meshwright.v1.RankedPlan.state"));
  EXPECT_EQ(FillAnswer("\xff", none).code(), absl::StatusCode::kDataLoss);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
