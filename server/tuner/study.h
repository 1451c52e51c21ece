#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/estimate.h"
#include "search_space/plan.h"
#include "search_space/space_request.h"
#include "search_space/units.h"
#include "server/tuner/plan_model.h"
#include "server/tuner/problem.h"
#include "server/tuner/trial.h"

namespace meshwright {

// A measured result that comes with a question; it calibrates and prunes that question's answer.
struct HistoryRow {
  Question question = {};
  PlanRequest plan = {};
  Outcome outcome = Outcome::kOk;
  std::optional<Seconds> step_time = {};
  std::optional<Bytes> peak_memory = {};
  std::string measurement_id = {};  // of the store that it was read from; empty: the request's own
};

// What a store has measured that a problem's answer may be calibrated by, and what to say of it.
struct StoreHistory {
  std::vector<HistoryRow> rows = {};
  std::vector<std::string> warnings = {};
};

// The measurements of a store up to a number, for each problem its own (store_history.h).
struct HistorySource {
  std::int64_t sequence = 0;
  // From any thread; none: there is no store.
  std::function<absl::StatusOr<StoreHistory>(const Problem&)> read = {};
};

// A vendor's model that an answer's times shall come from.
struct CostModelRequest {
  std::string name = {};
  bool allow_fallback = false;  // to the built-in model, marked on every plan
};

// Everything that decides a study's answer.
struct StudyRequest {
  Question question = {};
  std::optional<PlanRequest> baseline = {};  // absent: DefaultBaseline
  int plan_count = 5;
  std::optional<Seconds> deadline = {};  // of the search
  std::string strategy = "exhaustive";
  // Plans that a strategy may ask for; absent: kDefaultEvaluationLimit. None of the exhaustive one.
  std::optional<int> evaluation_limit = {};
  std::vector<std::string> disabled_rules = {};
  std::vector<DimensionRequest> dimensions = {};
  std::vector<HistoryRow> history = {};
  std::optional<TrialRequest> trials = {};  // absent: the cost model alone answers
  bool pareto = false;                      // also the front of step time and free memory
  // Of the store, the measurements up to this number join `history` (joined_history.h); whoever has
  // a store gives them (StudyControl). Absent: all that there are.
  std::optional<std::int64_t> history_sequence = {};
  // What there is to say of them; joins the answer's warnings.
  std::vector<std::string> history_warnings = {};
  std::optional<CostModelRequest> cost_model = {};  // absent: the built-in model
};

struct RankedPlan {
  ParallelPlan plan = {};
  std::optional<Precision> precision = {};  // where the question leaves it open
  Estimate estimate = {};
  std::map<std::string, std::string> exports = {};  // framework -> launch flags
};

enum class StopCause { kFinished, kDeadline, kCancelled, kEvaluationLimit };

struct SearchSummary {
  std::int64_t space_count = 0;
  std::vector<std::pair<std::string, std::int64_t>> pruned_count_by_rule = {};  // in rule order
  std::int64_t evaluated_count = 0;
  Seconds seconds = Seconds(0);  // wall time, exact
  bool complete = false;
  double optimality_gap = 0;  // 0: proven best of the space
  // Of a search that is not complete: no plan that it left is faster. Absent where no bound is
  // known.
  std::optional<Seconds> least_time = {};
  StopCause stop_cause = StopCause::kFinished;
};

// A measured run that an answer leans on.
struct PastRun {
  std::string measurement_id = {};  // of the store; empty: of the request's history
  int history_index = 0;            // its row there
  std::string model_name = {};
  std::string cluster_name = {};
  std::string framework_version = {};
  std::string plan_key = {};
  Outcome outcome = Outcome::kOk;
  std::optional<double> time_ratio = {};  // measured / modelled; absent: not learnt from
  std::optional<double> memory_ratio = {};
  double similarity = 1;  // to the question's job, of step times; contract: similarity_ratio
  bool operator==(const PastRun&) const = default;
};

// What the history has changed in an answer, and by which of its runs.
struct CalibrationReport {
  std::string id = {};  // equal for equal calibrations
  double time_ratio = 1;
  double memory_ratio = 1;
  int run_count = 0;
  std::int64_t history_sequence = 0;
  std::string model_version = {};
  // Of the question's job.
  std::string chip = {};
  std::string framework = {};
  std::string framework_version = {};
  std::string job_fingerprint = {};
  std::vector<PastRun> evidence = {};  // most alike first, at most 20
  bool operator==(const CalibrationReport&) const = default;
};

// No plan that leaves this share of every device's memory free is faster.
struct ParetoPoint {
  double free_memory_ratio = 0;  // the most of kFreeMemoryLevels that the plan leaves
  RankedPlan plan = {};
};

struct StudyResult {
  std::vector<RankedPlan> plans = {};  // best first
  std::optional<RankedPlan> baseline = {};
  SearchSummary search = {};
  std::vector<AppliedDefault> applied_defaults = {};
  std::vector<std::string> warnings = {};
  std::vector<TriedPlan> trials = {};  // in the order tried
  std::optional<TrialSummary> trial_summary = {};
  std::optional<CalibrationReport> calibration = {};  // absent: nothing was learnt
  std::vector<ParetoPoint> pareto_front = {};         // when asked for; the fastest first
};

// Nothing fits: what binds and the smallest changes that would help.
struct Infeasible {
  MemoryKind binding_kind = MemoryKind::kWeights;
  std::optional<RankedPlan> nearest = {};  // needs least memory; absent: no legal plan at all
  Bytes missing = {};                      // per device, of `nearest`
  std::vector<std::string> suggestions = {};
  SearchSummary search = {};
};

using StudyAnswer = std::variant<StudyResult, Infeasible>;

struct Progress {
  std::string phase = {};
  std::int64_t space_count = 0;
  std::int64_t considered_count = 0;  // evaluated or pruned
  std::int64_t evaluated_count = 0;
  std::optional<Seconds> best_step_time = {};
  std::string job_status = {};  // of the job that runs, in its engine's words
};

struct TrialJournal;  // trial_journal.h

// How a running study is watched and stopped, and what else it may learn from. `on_progress` is
// called on the study's thread, at most every 100 ms.
struct StudyControl {
  std::stop_token cancel = {};
  // With `cancel`: the process ends, and jobs that outlive it are left to the next one.
  std::stop_token leave = {};
  std::function<void(const Progress&)> on_progress = {};
  const TrialJournal* trials = nullptr;  // none: trials are kept in the answer alone
  HistorySource history = {};
  // A question with a plan as one case of `evaluate`, JSON: what a job may read. For launchers of
  // jobs.
  std::function<std::string(const Question&, const ParallelPlan&)> print_case = {};
  OpenPlanModel open_model = {};  // none: there are no vendors' models here
};

// One study from question to answer: history -> calibrate -> ask, prune, estimate, keep -> check ->
// answer. Pure but for the wall clock of the deadline; needs no recorder. Same request, same
// answer. A cancelled or late study answers with the best so far and says so; when it has found
// nothing by then the status is CANCELLED or DEADLINE_EXCEEDED; RESOURCE_EXHAUSTED with reason
// EVALUATION_LIMIT when a strategy found nothing with the evaluations that it had. Trials are
// refused: whoever has launchers calls RunStudyWithTrials (server/launchers/).
absl::StatusOr<StudyAnswer> RunStudy(const StudyRequest& request, const Knowledge& knowledge,
                                     const StudyControl& control);

struct EvaluateRequest {
  Question question = {};
  PlanRequest plan = {};
};

// The estimate of one given plan, with all applied defaults and warnings. `history` calibrates it.
absl::StatusOr<Estimate> EvaluatePlan(const EvaluateRequest& request, const Knowledge& knowledge,
                                      const std::vector<HistoryRow>& history);

// Wall time rounded up to 10, 100, 1000 ... s: what an answer reports, so that equal requests give
// equal bytes.
Seconds RoundedUpSeconds(Seconds wall_time);

// Names of the prune rules in the order in which they run, and of the strategies.
std::vector<std::string> PruneRuleNames();
std::vector<std::string> StrategyNames();

}  // namespace meshwright
