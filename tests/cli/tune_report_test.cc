#include "cli/reports/tune_report.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string>

#include "cli/reports/chip_table.h"
#include "cli/reports/progress_line.h"
#include "cli/reports/study_table.h"
#include "server/tuner/question/study_answer.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;
using testing::Not;

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

v1::GetStudyResponse Answer() {
  return Parse<v1::GetStudyResponse>(R"(
    study { id: "study-1" state: "succeeded" outcome: "improved" model_name: "tiny"
            cluster_name: "a100x16" device_count: 16 search_seconds: 0.25 }
    result {
      plans {
        plan { tensor_parallel: 2 data_parallel: 8 micro_batch_size: 1 zero_stage: 1 }
        estimate {
          step_time_seconds: 8 step_time_low_seconds: 7 step_time_high_seconds: 10
          tokens_per_second_per_device: 1536.7 model_flops_utilization_ratio: 0.5
          peak_memory_bytes: 64424509440 reserved_memory_bytes: 69793218560
          memory_capacity_bytes: 85899345920 fits: true fit_probability_ratio: 0.99
          breakdown_seconds { key: "matmul" value: 6 }
          breakdown_seconds { key: "host" value: 0 }
          breakdown_seconds { key: "tensor_parallel" value: 2 }
          memory_breakdown_bytes { key: "weights" value: 64424509440 }
          tier: "closed_form" provenance: "fitted" warnings: "tight"
        }
        exports { key: "megatron-core" value: "--tensor-model-parallel-size 2\n" }
        launches {
          key: "megatron-core"
          value { versions: "0.12 to 0.14" command: "torchrun $MASTER_ADDR gpt.py"
                  left_out: "data: --data-path" left_out: "--lr" }
        }
      }
      baseline {
        plan { tensor_parallel: 4 data_parallel: 4 micro_batch_size: 1 zero_stage: 1 }
        estimate { step_time_seconds: 10 fits: true }
      }
      search { space_count: 1000 evaluated_count: 250 complete: true
               pruned_count_by_rule { key: "memory" value: 500 }
               pruned_count_by_rule { key: "divisibility" value: 250 } }
      applied_defaults { field: "workload.optimizer" value: "adam" source: "profile" }
      warnings: "careful"
    })");
}

TEST(StudyReportTest, SaysAllThatMatters) {
  const std::string report =
      StudyReport(Answer(), {.columns = 120, .is_verbose = true, .recorded = "kept"});
  EXPECT_THAT(report, HasSubstr("tiny on a100x16 (16 devices)\n"));
  EXPECT_THAT(report, HasSubstr("250 of 1,000 plans were estimated in 250 ms; plan 1 is proven to "
                                "be the fastest of the space by the model"));
  // 80 - 65 GiB are left.
  EXPECT_THAT(report, HasSubstr("  1  8.00 s (7.00 .. 10.0)            1,536  50.0 %      15.0   "
                                "99 %        -  tp2 dp8 mb1 zero1, recompute none; by\n"));
  EXPECT_THAT(report, HasSubstr("Plan 1 has 1.25x the speed of the baseline (0): 2.00 s less a "
                                "step (20.0 %).\n"));
  EXPECT_THAT(report, HasSubstr("memory          500  50.0 %\n"));
  // 6 of 8 s, and 0.75 x 30 = 22.5 characters.
  EXPECT_THAT(report, HasSubstr("matmul           6.00 s  75.0 %  #######################\n"));
  EXPECT_THAT(report, Not(HasSubstr("host")));
  EXPECT_THAT(report, HasSubstr("weights  60.0 GiB  100.0 %"));
  EXPECT_THAT(report, HasSubstr("workload.optimizer  adam   profile"));
  EXPECT_THAT(report, HasSubstr("Warnings\n  careful\n  plan 1: tight\n"));
  EXPECT_THAT(
      report,
      HasSubstr("Plan 1 for megatron-core\ntorchrun $MASTER_ADDR gpt.py \\\n"
                "  --tensor-model-parallel-size 2\n\nThese flags are for megatron-core 0.12 to "
                "0.14. Run the command on every node, with the first one as MASTER_ADDR.\n"
                "Not among these flags:\n  data: --data-path\n  --lr\n"));
  EXPECT_THAT(report, HasSubstr("\nkept\n"));
  EXPECT_THAT(report, Not(HasSubstr("\x1b")));
}

TEST(StudyReportTest, AFileOfTheFrameworkComesBeforeItsCommand) {
  v1::GetStudyResponse answer = Answer();
  v1::RankedPlan& plan = *answer.mutable_result()->mutable_plans(0);
  (*plan.mutable_exports())["megatron-core"] = "a = 1\n";
  v1::Launch& launch = plan.mutable_launches()->at("megatron-core");
  launch.set_file_name("plan.toml");
  v1::ConfigFile& other = *launch.add_other_files();
  other.set_name("more.json");
  other.set_text("{}\n");
  EXPECT_THAT(
      StudyReport(answer, {.is_verbose = true}),
      HasSubstr(
          "Plan 1 for megatron-core\nplan.toml:\na = 1\n\nmore.json:\n{}\n\n"
          "torchrun $MASTER_ADDR gpt.py\n\nThis file is for megatron-core 0.12 to 0.14. Run the "
          "command on every node, with the first one as\nMASTER_ADDR.\n"
          "Not in this file:\n  data"));
  // A server of an older version sends the text only.
  plan.clear_launches();
  EXPECT_THAT(StudyReport(answer, {}), HasSubstr("Plan 1 for megatron-core\na = 1\n"));
}

// The report leaves details to --verbose, and says so.
TEST(StudyReportTest, IsShortUnlessAskedForMore) {
  const std::string report = StudyReport(Answer(), {});
  for (const char* detail : {"Pruned", "Defaults that were applied", "Where the step of plan 1"}) {
    EXPECT_THAT(report, Not(HasSubstr(detail)));
    EXPECT_THAT(StudyReport(Answer(), {.is_verbose = true}), HasSubstr(detail));
  }
  EXPECT_THAT(report, HasSubstr("\n--verbose shows the 1 default that was applied, what"));
  // The flags are last but for that.
  EXPECT_LT(report.find("Warnings"), report.find("Plan 1 for megatron-core"));
}

// The flags are never cut for it, and what is left out is counted.
TEST(StudyReportTest, FitsAScreen) {
  v1::GetStudyResponse answer = Answer();
  v1::TuneResult& result = *answer.mutable_result();
  result.set_recommendation("launch");
  result.mutable_plans(0)->set_plan_digest("a");
  for (int i = 0; i < 20; ++i) {
    *result.add_plans() = result.plans(0);
    result.add_warnings("a warning");
  }
  const std::string report = StudyReport(answer, {.columns = 80, .recorded = "kept-here"});
  EXPECT_LE(std::ranges::count(report, '\n'), 40);
  EXPECT_THAT(report, HasSubstr("more kinds of plans (--verbose)\n"));
  EXPECT_THAT(report, HasSubstr("more warnings (--verbose)\n"));
  EXPECT_THAT(report, HasSubstr("--tensor-model-parallel-size 2\n"));
  EXPECT_THAT(report, HasSubstr("kept-here"));
  const std::string verbose = StudyReport(answer, {.columns = 80, .is_verbose = true});
  EXPECT_THAT(verbose, Not(HasSubstr("(--verbose)")));
  // Who asks for 21 kinds gets them.
  const std::string asked = StudyReport(answer, {.columns = 80, .lists_all_kinds = true});
  EXPECT_THAT(asked, HasSubstr("\n  21  8.00 s"));
  EXPECT_THAT(asked, Not(HasSubstr("more kinds of plans")));
}

// The settings of a file that is too long for a screen stand together in lines.
TEST(StudyReportTest, AFileFitsAScreen) {
  v1::GetStudyResponse answer = Answer();
  v1::RankedPlan& plan = *answer.mutable_result()->mutable_plans(0);
  v1::Launch& launch = plan.mutable_launches()->at("megatron-core");
  launch.set_file_name("plan.yaml");
  std::string text = "model:\n";
  for (int i = 0; i < 50; ++i)
    text += "  key" + std::to_string(i) + ": " + std::to_string(i) + "\n";
  plan.mutable_exports()->at("megatron-core") = text;
  const std::string report = StudyReport(answer, {.columns = 80, .recorded = "kept-here"});
  EXPECT_LE(std::ranges::count(report, '\n'), 40);
  for (int i = 0; i < 50; ++i) {
    EXPECT_THAT(report, HasSubstr("key" + std::to_string(i) + ": " + std::to_string(i)));
  }
  EXPECT_THAT(report, HasSubstr("plan.yaml, in short (--save DIR writes it, --verbose shows it):"));
  EXPECT_THAT(StudyReport(answer, {.columns = 80, .is_verbose = true}),
              HasSubstr("plan.yaml:\n" + text));
}

class WidthTest : public testing::TestWithParam<int> {};

TEST_P(WidthTest, NoLineIsLonger) {
  v1::GetStudyResponse answer = Answer();
  v1::TuneResult& result = *answer.mutable_result();
  v1::RankedPlan& plan = *result.mutable_plans(0);
  plan.mutable_plan()->set_pipeline_parallel(8);
  plan.mutable_plan()->set_schedule("interleaved_1f1b");
  plan.set_like_count(1234);
  for (const char* field : {"sequence_parallel", "virtual_pipeline", "zero_group_size"}) {
    v1::FieldRange& range = *plan.add_like_ranges();
    range.set_field(field);
    range.set_values("1 to 64, in steps that double");
  }
  plan.mutable_launches()
      ->at("megatron-core")
      .set_command(
          "torchrun --nnodes 16 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint "
          "$MASTER_ADDR:29500 pretrain_gpt.py");
  result.add_warnings("a warning of many words " + std::string(30, '-') + " that goes on and on");
  result.set_recommendation("launch");
  result.set_reason("It is the fastest plan by the model, and fits with a probability of 99 %.");
  std::istringstream lines(
      StudyReport(answer, {.columns = GetParam(), .is_verbose = true, .recorded = "kept"}));
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(static_cast<int>(line.size()), GetParam()) << line;
  }
}

INSTANTIATE_TEST_SUITE_P(All, WidthTest, testing::Values(80, 100, 120));

TEST(StudyReportTest, TrialsInTheOrderTried) {
  v1::GetStudyResponse answer = Answer();
  answer.mutable_result()->MergeFrom(Parse<v1::TuneResult>(R"(
    trials { plan { tensor_parallel: 8 data_parallel: 2 micro_batch_size: 1 } outcome: "oom"
             expected_step_time_seconds: 7 success_probability_ratio: 0.8 device_seconds: 1920 }
    trials { plan { tensor_parallel: 2 data_parallel: 8 micro_batch_size: 1 } outcome: "ok"
             step_time_seconds: 8 expected_step_time_seconds: 9 success_probability_ratio: 1
             device_seconds: 3200 }
    trial_summary { stop_reason: "trial_limit" candidate_count: 1200 device_seconds: 5120 })"));
  const std::string report = StudyReport(answer, {});
  // 5,120 / 3,600 hours
  EXPECT_THAT(report,
              HasSubstr("2 of 1,200 plans were tried in 1.42 device-hours; the trials ended "
                        "by trial_limit\n\n"));
  EXPECT_THAT(report, HasSubstr("1  oom      -          7.00 s     80.0 %  tp8 dp2 mb1"));
  EXPECT_THAT(report, HasSubstr("2  ok       8.00 s     9.00 s    100.0 %  tp2 dp8 mb1"));
}

TEST(StudyReportTest, WhatMoreTrialsCouldHaveGained) {
  v1::GetStudyResponse answer = Answer();
  v1::TrialSummary& summary = *answer.mutable_result()->mutable_trial_summary();
  summary = Parse<v1::TrialSummary>(R"(
    stop_reason: "within_ratio" candidate_count: 9 device_seconds: 3600 remaining_gain_ratio: 0.01
    best_step_time_seconds: 8 optimistic_step_time_seconds: 7.92)");
  EXPECT_THAT(
      StudyReport(answer, {}),
      HasSubstr(
          "ended by within_ratio\n"
          "The best measured step was 8.00 s; the most promising remaining plan takes 7.92 s at "
          "best (1.0 % less)\n"));
  summary.set_remaining_gain_ratio(0);
  summary.set_optimistic_step_time_seconds(8.2);
  EXPECT_THAT(StudyReport(answer, {}), HasSubstr("takes 8.20 s at best, which is not less time\n"));
}

TEST(StudyReportTest, RunsToCompareWithAreNotCountedAsPlans) {
  v1::GetStudyResponse answer = Answer();
  answer.mutable_result()->MergeFrom(Parse<v1::TuneResult>(R"(
    trials { plan { tensor_parallel: 8 data_parallel: 2 micro_batch_size: 1 } outcome: "ok"
             purpose: "search" step_time_seconds: 8 reference_step_time_seconds: 8
             expected_step_time_seconds: 9 success_probability_ratio: 1 }
    trials { plan { tensor_parallel: 2 data_parallel: 8 micro_batch_size: 1 } outcome: "ok"
             purpose: "search" step_time_seconds: 6 reference_step_time_seconds: 8
             expected_step_time_seconds: 9 success_probability_ratio: 1 }
    trials { plan { tensor_parallel: 8 data_parallel: 2 micro_batch_size: 1 } outcome: "oom"
             purpose: "reference" expected_step_time_seconds: 9 success_probability_ratio: 1 }
    trial_summary { stop_reason: "trial_limit" candidate_count: 1200 device_seconds: 5120 })"));
  const std::string report = StudyReport(answer, {});
  EXPECT_THAT(report, HasSubstr("2 of 1,200 plans were tried"));
  EXPECT_THAT(report, HasSubstr("2  search     ok       6.00 s           0.75  9.00 s"));
  EXPECT_THAT(report, HasSubstr("3  reference  oom      -                   -  9.00 s"));
}

TEST(StudyReportTest, NamesTheRunsItLeansOn) {
  v1::GetStudyResponse answer = Answer();
  EXPECT_THAT(StudyReport(answer, {}), Not(HasSubstr("Learnt")));
  *answer.mutable_result()->mutable_calibration() = Parse<v1::Calibration>(R"(
    id: "calibration-1" time_ratio: 1.0834 memory_ratio: 0.97 run_count: 1200
    evidence { measurement_id: "m-7" model_name: "tiny" cluster_name: "east" time_ratio: 1.1
               similarity_ratio: 0.8 }
    evidence { history_index: 0 similarity_ratio: 0.4 })");
  EXPECT_THAT(StudyReport(answer, {}),
              HasSubstr("Learnt from measured runs\n"
                        "  1,200 runs: step times x 1.083, memory x 0.970 of the model's; "
                        "calibration-1\n"
                        "  closest: measurement m-7 (tiny on east, 80.0 % alike, x 1.100)\n"));
  answer.mutable_result()->mutable_calibration()->mutable_evidence()->DeleteSubrange(0, 1);
  EXPECT_THAT(StudyReport(answer, {}), HasSubstr("closest: row 1 of the history"));
}

TEST(StudyReportTest, FrontOfTimeAndMemory) {
  v1::GetStudyResponse answer = Answer();
  answer.mutable_result()->MergeFrom(Parse<v1::TuneResult>(R"(
    pareto_front { free_memory_ratio: 0.1 plan {
      plan { tensor_parallel: 2 data_parallel: 8 micro_batch_size: 1 }
      estimate { step_time_seconds: 8 memory_capacity_bytes: 85899345920
                 reserved_memory_bytes: 75161927680 } } }
    pareto_front { free_memory_ratio: 0.3 plan {
      plan { tensor_parallel: 4 data_parallel: 4 micro_batch_size: 1 }
      estimate { step_time_seconds: 10 memory_capacity_bytes: 85899345920
                 reserved_memory_bytes: 53687091200 } } })"));
  const std::string report = StudyReport(answer, {});
  // 80 - 70 and 80 - 50 GiB; 10 / 8 - 1.
  EXPECT_THAT(report, HasSubstr("10.0 %  8.00 s         0.0 %          10.0  < 1 %  tp2 dp8 mb1"));
  EXPECT_THAT(report, HasSubstr("30.0 %  10.0 s        25.0 %          30.0  < 1 %  tp4 dp4 mb1"));
  EXPECT_THAT(StudyReport(Answer(), {}), Not(HasSubstr("this much of each device's memory")));
}

TEST(StudyReportTest, ColourOnlyWhenAsked) {
  EXPECT_THAT(StudyReport(Answer(), {.has_color = true}), HasSubstr("\x1b[1mtiny on a100x16"));
}

TEST(StudyReportTest, SaysKeepYoursWhenTheBaselineIsBest) {
  v1::GetStudyResponse answer = Answer();
  answer.mutable_result()->mutable_baseline()->mutable_estimate()->set_step_time_seconds(8);
  EXPECT_THAT(StudyReport(answer, {}), HasSubstr("keep it"));
  answer.mutable_result()->mutable_baseline()->mutable_estimate()->set_fits(false);
  EXPECT_THAT(StudyReport(answer, {}), HasSubstr("The baseline (0) does not fit"));
}

TEST(StudyReportTest, SaysWhoCutTheSearch) {
  v1::GetStudyResponse answer = Answer();
  answer.mutable_result()->mutable_search()->set_complete(false);
  answer.mutable_study()->set_outcome("deadline_cut");
  EXPECT_THAT(StudyReport(answer, {}), HasSubstr("ended by the deadline: the best so far"));
  answer.mutable_study()->set_outcome("improved");
  EXPECT_THAT(StudyReport(answer, {}),
              HasSubstr("the best of these, not proven best of the space"));
  answer.mutable_study()->set_state("cancelled");
  EXPECT_THAT(StudyReport(answer, {}), HasSubstr("cancelled: the best so far"));
}

TEST(StudyReportTest, Infeasible) {
  v1::GetStudyResponse answer = Parse<v1::GetStudyResponse>(R"(
    study { state: "succeeded" outcome: "no_feasible_plan" model_name: "big" cluster_name: "c"
            device_count: 8 }
    infeasible {
      binding_memory_kind: "optimizer_states"
      nearest {
        plan { tensor_parallel: 8 data_parallel: 1 micro_batch_size: 1 zero_stage: 3 }
        estimate { reserved_memory_bytes: 107374182400 memory_capacity_bytes: 85899345920
                   memory_breakdown_bytes { key: "optimizer_states" value: 64424509440 } }
      }
      missing_bytes: 21474836480
      suggestions: "cluster.pools[0].node_count = 2"
      pruned_count_by_rule { key: "memory" value: 30 }
      pruned_count_by_rule { key: "topology" value: 10 }
    })");
  const std::string report = StudyReport(answer, {});
  EXPECT_THAT(report, HasSubstr("Nothing fits: big on c (8 devices)"));
  EXPECT_THAT(report,
              HasSubstr("lacks 20.0 GiB on each device; optimizer_states take most of its"));
  EXPECT_THAT(report, HasSubstr("in use 100.0 GiB of 80.0 GiB"));
  EXPECT_THAT(report, HasSubstr("  cluster.pools[0].node_count = 2\n"));
  EXPECT_THAT(report, Not(HasSubstr("75.0 %")));
  EXPECT_THAT(report, HasSubstr("--verbose shows what was pruned"));
  EXPECT_THAT(StudyReport(answer, {.is_verbose = true}),
              HasSubstr("memory       30  75.0 %"));  // 30 of 40
}

TEST(StudyReportTest, StudyWithoutAnswer) {
  const auto answer = Parse<v1::GetStudyResponse>(
      "study { state: 'failed' outcome: 'failed' model_name: 'm' cluster_name: 'c' "
      "device_count: 1 error_message: 'it broke' }");
  EXPECT_EQ(StudyReport(answer, {}), "m on c (1 device)\nstate: failed (failed)\nit broke\n");
}

TEST(StudyTableTest, RunningStudiesHaveNoFigures) {
  const auto studies = Parse<v1::ListStudiesResponse>(
      "studies { id: 'study-1' state: 'running' model_name: 'm' cluster_name: 'c' "
      "device_count: 16 create_time: 'now' } next_page_token: 'abc'");
  EXPECT_EQ(StudyTable(studies, 100),
            "study    state    outcome  model  cluster  devices  step time  gain  created\n"
            "study-1  running  -        m      c             16          -     -  now\n"
            "more: --page-token abc\n");
  EXPECT_EQ(StudyTable({}, 100), "no studies\n");
}

TEST(ProgressTextTest, GrowsWithWhatIsKnown) {
  EXPECT_EQ(ProgressText(Parse<v1::Progress>("phase: 'searching'")), "searching");
  EXPECT_EQ(ProgressText(Parse<v1::Progress>("phase: 'searching' space_count: 2000 "
                                             "considered_count: 1000 best_step_time_seconds: 21")),
            "searching: 1,000 of 2,000 plans (50.0 %), best 21.0 s");
}

// A strategy and trials end at their limit, long before all plans are considered.
TEST(ProgressTextTest, TellsTheTimeThatIsLeft) {
  const auto progress = Parse<v1::Progress>(
      "phase: 'trials' space_count: 2000 considered_count: 2 limit_count: 8 job_status: 'waits'");
  // 2 of 8 in 100 s: 300 s for the other 6.
  EXPECT_EQ(ProgressText(progress, Seconds(100)),
            "trials: 2 of at most 8 plans (25.0 %); 1 min 40 s, about 5 min 0 s left; waits");
  // Nothing can be said before a fiftieth is done, or within the first second.
  EXPECT_EQ(ProgressText(Parse<v1::Progress>("phase: 'p' space_count: 100 considered_count: 1"),
                         Seconds(7300)),
            "p: 1 of 100 plans (1.0 %); 2 h 1 min");
  EXPECT_EQ(ProgressText(progress, Seconds(0.5)),
            "trials: 2 of at most 8 plans (25.0 %); 0 s; waits");
}

TEST(EventLineTest, OneLine) {
  EXPECT_EQ(EventLine(Parse<v1::WatchStudyResponse>("time: 't' kind: 'state' state: 'running'")),
            "t state running\n");
}

TEST(ChipTableTest, ListsWhatIsMissing) {
  const auto chips = Parse<v1::ListChipsResponse>(R"(
    chips { id: "a-1" name: "One" memory_capacity_bytes: 85899345920
            memory_bandwidth_bytes_per_second: 2.039e12 confidence: "high"
            peak_flops_per_second { key: "fp16" value: 312e12 } }
    unmodelled_chips { id: "b-2" missing: "memory bandwidth" })");
  const std::string table = ChipTable(chips, 100);
  EXPECT_THAT(table, HasSubstr("a-1         80.0   2.0           312.0  high        One\n"));
  EXPECT_THAT(table, HasSubstr("b-2           memory bandwidth\n"));
}

TEST(StudyReportTest, SaysWhichBaselineIsBeaten) {
  v1::GetStudyResponse answer = Answer();
  v1::AppliedDefault& applied = *answer.mutable_result()->add_applied_defaults();
  applied.set_field("baseline");
  applied.set_value("rule of thumb");
  EXPECT_THAT(
      StudyReport(answer, {.columns = 140}),
      HasSubstr("1.25x the speed of the baseline (0), a plan by rule of thumb: 2.00 s less"));
  applied.set_value("recipe");
  applied.set_source("NeMo, Llama 3 70B");
  EXPECT_THAT(StudyReport(answer, {.columns = 140}),
              HasSubstr("the baseline (0), a published recipe (NeMo, Llama 3 70B): 2.00 s less"));
}

TEST(StudyReportTest, SaysThatNoFrameworkWasNamed) {
  v1::GetStudyResponse answer = Answer();
  v1::TuneResult& result = *answer.mutable_result();
  result.set_recommendation("launch");
  result.mutable_plans(0)->clear_exports();
  answer.mutable_question()->mutable_workload()->clear_framework();
  EXPECT_THAT(StudyReport(answer, {.columns = 200}),
              HasSubstr("No framework was named, so there are no flags: --framework names one."));
  answer.mutable_question()->mutable_workload()->mutable_framework()->set_name("generic");
  EXPECT_THAT(StudyReport(answer, {.columns = 200}), HasSubstr("Plan 1 comes without flags"));
}

TEST(StudyReportTest, SaysWhetherToMixPools) {
  v1::GetStudyResponse answer = Answer();
  v1::TuneResult& result = *answer.mutable_result();
  result.mutable_search()->set_complete(true);
  result.mutable_search()->set_optimality_gap_ratio(0);
  v1::Heterogeneous& mix = *result.mutable_heterogeneous();
  (*mix.mutable_tokens_per_second_by_pool())["ix"] = 35'532;
  mix.set_efficiency_ratio(0.839);
  mix.set_gain_ratio(1.553);
  mix.set_mix_verdict("mix");
  mix.set_reason("Pool \"nv\" limits the mix");
  mix.add_best_by_pool_set()->add_pools("ix");
  mix.mutable_best_by_pool_set(0)->set_tokens_per_second(35'532);
  mix.add_generations()->set_tokens_per_second(55'167);
  EXPECT_THAT(StudyReport(answer, {.columns = 200}),
              HasSubstr("\nmix      55,167 tokens/s: 1.55 x the better pool alone (ix, 35,532), "
                        "84% of all alone; proven best (gap 0)\n"
                        "why      Pool \"nv\" limits the mix\n"));
  mix.set_mix_verdict("one_pool");
  mix.set_reason("\"nv\" alone has 30,219 tokens/s");
  EXPECT_THAT(StudyReport(answer, {.columns = 200}),
              HasSubstr("\ndo not   mix: \"nv\" alone has 30,219 tokens/s\n"));
}

TEST(StudyReportTest, BeginsWithTheVerdict) {
  v1::GetStudyResponse answer = Answer();
  v1::TuneResult& result = *answer.mutable_result();
  result.set_recommendation("launch");
  result.set_reason("It is safe.");
  result.mutable_plans(0)->set_plan_digest("a");
  result.mutable_baseline()->set_plan_digest("b");
  *result.mutable_model_optimum() = result.plans(0);
  EXPECT_THAT(
      StudyReport(answer, {}),
      HasSubstr("(16 devices)\nLaunch plan 1. It is safe. One run in ten takes longer than "
                "10.0 s a step. The estimate rests on\nfitted figures.\n250 of 1,000 plans"));

  result.mutable_model_optimum()->set_plan_digest("c");
  result.mutable_model_optimum()->mutable_estimate()->set_step_time_seconds(7);
  result.mutable_model_optimum()->mutable_estimate()->set_fit_probability_ratio(0.6);
  EXPECT_THAT(
      StudyReport(answer, {.columns = 140}),
      HasSubstr("the proven shortest estimate takes 7.00 s a step and fits with a probability of"));

  result.mutable_baseline()->mutable_estimate()->set_step_time_seconds(7.5);
  result.mutable_baseline()->mutable_estimate()->set_fit_probability_ratio(0.7);
  EXPECT_THAT(StudyReport(answer, {}),
              HasSubstr("By the model the baseline (0) is 6.7 % faster than plan 1, but it fits "
                        "with a probability of 70 %.\n"));

  result.set_recommendation("keep_yours");
  *result.mutable_plans(0) = result.baseline();
  const std::string report = StudyReport(answer, {});
  EXPECT_THAT(report, HasSubstr("\nKeep your plan. It is safe.\n"));
  EXPECT_THAT(report, HasSubstr("Plan 1 is also the baseline.\n"));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
