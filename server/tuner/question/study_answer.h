#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload_settings.h"
#include "server/tuner/question/heterogeneous.h"
#include "server/tuner/question/launch_config.h"
#include "server/tuner/question/training_run.h"
#include "server/tuner/question/trial.h"

namespace meshwright {

// Reason of a status that says that there is no plan (search_space/base/status.h).
inline constexpr char kNoFeasiblePlanReason[] = "NO_FEASIBLE_PLAN";

// The values that a field takes in plans that are shown as one.
struct FieldRange {
  std::string field = {};   // name of the field of a plan
  std::string values = {};  // "8 to 64", "none or selective"
  bool operator==(const FieldRange&) const = default;
};

struct RankedPlan {
  ParallelPlan plan = {};
  std::vector<WorkloadSetting> settings = {};  // those that the question leaves open
  Estimate estimate = {};
  std::map<std::string, LaunchConfig> exports = {};  // by framework
  // The number of other plans with the same tensor and pipeline parallelism and tokens of a
  // micro-batch a device that cannot be told apart from it, and the fields in which they differ.
  int like_count = 0;
  std::vector<FieldRange> like_ranges = {};
  // The probability that it is the fastest of the plans of the answer, if all of them run.
  std::optional<double> fastest_probability = {};
  std::optional<RunCost> run = {};  // absent if the question states no run
  // Why it stands above a faster plan or below a slower one, or, of a point of a sweep or a front,
  // why it is the plan to launch there; empty if the step times are the reason.
  std::string reason = {};
};

enum class StopCause { kFinished, kDeadline, kCancelled, kEvaluationLimit };

struct SearchSummary {
  std::int64_t space_count = 0;
  std::vector<std::pair<std::string, std::int64_t>> pruned_count_by_rule = {};  // in rule order
  std::int64_t evaluated_count = 0;
  Seconds seconds = Seconds(0);  // wall time, exact
  bool complete = false;
  double optimality_gap = 0;  // 0: proven best of the space
  // Lower bound of the plans that an incomplete search did not visit. Absent if no bound is known.
  std::optional<Seconds> least_time = {};
  StopCause stop_cause = StopCause::kFinished;
};

// A measured run that an answer relies on.
struct PastRun {
  std::string measurement_id = {};  // id in the store; empty: from the request's history
  int history_index = 0;            // row in that history
  std::string model_name = {};
  std::string cluster_name = {};
  std::string framework_version = {};
  std::string plan_key = {};
  Outcome outcome = Outcome::kOk;
  std::optional<double> time_ratio = {};  // measured / modelled; absent: not used for learning
  std::optional<double> memory_ratio = {};
  // The similarity of its step time to those of the question's job (similarity_ratio on the wire).
  double similarity = 1;
  bool operator==(const PastRun&) const = default;
};

// The changes that the history made to an answer, and the runs that caused them.
struct CalibrationReport {
  std::string id = {};  // equal for equal calibrations
  double time_ratio = 1;
  double memory_ratio = 1;
  int run_count = 0;
  std::int64_t history_sequence = 0;
  std::string model_version = {};
  // The question's chip and framework.
  std::string chip = {};
  std::string framework = {};
  std::string framework_version = {};
  std::string job_fingerprint = {};
  std::vector<PastRun> evidence = {};  // most similar first, at most 20
  bool operator==(const CalibrationReport&) const = default;
};

// The fastest plan that leaves this share of every device's memory free.
struct ParetoPoint {
  double free_memory_ratio = 0;  // highest of kFreeMemoryLevels that the plan leaves
  RankedPlan plan = {};
};

// The advice of an answer: to launch its first plan, or to keep the stated baseline.
enum class Advice { kLaunch, kKeepYours };

inline std::string_view Word(Advice advice) {
  return advice == Advice::kLaunch ? "launch" : "keep_yours";
}

// A statement of the reason for an advice.
enum class VerdictCode {
  kNoneSureToFit,       // no plan fits with the least probability that was asked for
  kModelOptimum,        // the plan is the model's fastest
  kOptimumMayNotFit,    // the model's fastest plan fits with too small a probability
  kOptimumUnconfirmed,  // that plan uses features that hardly any measured run has confirmed
  kSafestUnconfirmed,   // so does the fastest plan that fits surely enough
  kTiedWithOptimum,     // the plan cannot be told apart from the model's fastest
  kSlower,              // the plan is slower than the model's fastest
  kPlanUnconfirmed,     // the plan itself uses features that hardly any measured run has confirmed
  // The next say by which merit the plan wins a tie.
  kSurerToFit,
  kBetterFounded,
  kPlainer,
  kUsualSettings,
  kNearerToOwn,
  kPublishedRecipe,
  kMoreUsual,
  kOwnRecommended,  // the user's own plan is the one that would be recommended
  kOwnNotSlower,    // the user's own plan is tied with that one, and is not slower
  kOwnTied,         // the user's own plan is tied with that one
  // The last are for questions with open settings of the workload.
  kAmongSettings,           // the statements that follow hold among plans with these settings
  kKeepsFrameworkSettings,  // the plan is tied with one with these settings, which change more
  kSwitchesPay  // the plan has these settings of the framework, without which it is slower
};

// Returns the word of the contract.
std::string_view Word(VerdictCode code);

// A statement with its figures; those that it does not have are absent.
struct VerdictFact {
  VerdictCode code = VerdictCode::kModelOptimum;
  std::vector<std::string> features = {};
  std::string settings = {};                      // names the values of open settings
  std::optional<double> slower_ratio = {};        // step time / that of the other plan - 1
  std::optional<double> fit_probability = {};     // of the plan that the statement is about
  std::optional<double> faster_probability = {};  // of the other plan
  std::optional<int> tied_count = {};             // plans that cannot be told apart
  bool operator==(const VerdictFact&) const = default;
};

struct Recommendation {
  Advice advice = Advice::kLaunch;
  std::string reason = {};              // one or more sentences, made of the facts
  std::vector<VerdictFact> facts = {};  // one for each statement of the reason, in their order
  bool operator==(const Recommendation&) const = default;
};

struct StudyResult {
  std::vector<RankedPlan> plans = {};  // the one to launch first
  // The least step time of all plans that fit; absent in answers that rest on trials.
  std::optional<RankedPlan> model_optimum = {};
  std::optional<Recommendation> recommendation = {};  // absent in answers that rest on trials
  std::optional<RankedPlan> baseline = {};
  SearchSummary search = {};
  std::vector<AppliedDefault> applied_defaults = {};
  std::vector<std::string> warnings = {};
  std::vector<TriedPlan> trials = {};  // in the order tried
  std::optional<TrialSummary> trial_summary = {};
  std::optional<CalibrationReport> calibration = {};  // absent: nothing was learnt
  std::vector<ParetoPoint> pareto_front = {};         // only on request; the fastest first
  std::optional<Heterogeneous> heterogeneous = {};    // only for a cluster of several pools
};

// The explanation if nothing fits: the limit and the smallest changes that would help.
struct Infeasible {
  MemoryKind binding_kind = MemoryKind::kWeights;
  std::optional<RankedPlan> nearest = {};  // needs the least memory; absent: no legal plan at all
  Bytes missing = {};                      // per device, for `nearest`
  std::vector<std::string> suggestions = {};
  SearchSummary search = {};
};

using StudyAnswer = std::variant<StudyResult, Infeasible>;

}  // namespace meshwright
