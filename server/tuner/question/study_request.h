#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/base/units.h"
#include "search_space/space/space_request.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_run.h"
#include "server/tuner/question/training_run.h"
#include "server/tuner/question/trial.h"

namespace meshwright {

// A measured result that comes with a question. It calibrates and prunes the answer to that
// question.
struct HistoryRow {
  Question question = {};
  PlanRequest plan = {};
  Outcome outcome = Outcome::kOk;
  std::optional<Seconds> step_time = {};
  std::optional<Bytes> peak_memory = {};
  std::string measurement_id =
      {};                     // id in the store that it was read from; empty: the request's own
  ResolvedJob resolved = {};  // `question` and `plan`, resolved by whoever made the row
};

// Rows that many answers share.
using SharedRows = std::vector<std::shared_ptr<const HistoryRow>>;

// Measurements of a store that may calibrate a problem's answer, and warnings about them.
struct StoreHistory {
  SharedRows rows = {};
  std::vector<std::string> warnings = {};
};

// The measurements of a store up to a sequence number, selected for each problem (store_history.h).
struct HistorySource {
  std::int64_t sequence = 0;
  // May be called from any thread; empty: there is no store.
  std::function<absl::StatusOr<StoreHistory>(const Problem&)> read = {};
};

// A vendor's model that the times of an answer are requested from.
struct CostModelRequest {
  std::string name = {};
  bool allow_fallback = false;  // fall back to the built-in model, marked on every plan
};

// How the plan to launch is chosen among those that a search has found (docs/choice.md).
struct ChoiceLimits {
  // Plans that are less likely to fit leave while one that is as likely exists.
  double min_fit_probability = 0.95;
  // Two plans are tied if neither is faster with at least this probability.
  double tie_probability = 0.7;
  bool operator==(const ChoiceLimits&) const = default;
};

// No estimate is certain, so no plan fits with a probability of 1.
inline constexpr double kMaxFitProbability = 0.9999;

// The limits under which the first plan is the fastest by the model.
inline constexpr ChoiceLimits kModelOrder = {.min_fit_probability = 0, .tie_probability = 0.5};

// A mix of pools is recommended if it gains more than this share over the best pool alone, with the
// probability kSureMix (docs/mixed-clusters.md).
inline constexpr double kDefaultMixMargin = 0.05;
inline constexpr double kMaxMixMargin = 10;
inline constexpr double kSureMix = 0.9;

// The default strategy, which searches the whole space.
inline constexpr std::string_view kExhaustive = "exhaustive";

// Everything that decides a study's answer.
struct StudyRequest {
  Question question = {};
  std::optional<PlanRequest> baseline = {};  // absent: DefaultBaseline
  int plan_count = 5;
  ChoiceLimits choice = {};
  std::optional<Seconds> deadline = {};  // for the search
  std::string strategy = std::string(kExhaustive);
  // Largest number of plans that a strategy may ask for; absent: kDefaultEvaluationLimit. The
  // exhaustive strategy has no limit.
  std::optional<int> evaluation_limit = {};
  std::vector<std::string> disabled_rules = {};
  std::vector<DimensionRequest> dimensions = {};
  std::vector<HistoryRow> history = {};
  std::optional<TrialRequest> trials = {};  // absent: only the cost model answers
  bool pareto = false;                      // also returns the front of step time and free memory
  // The store's measurements up to this number join `history` (history_runs.h). The owner of the
  // store supplies them (StudyControl). Absent: all measurements.
  std::optional<std::int64_t> history_sequence = {};
  // Warnings about the history and the model's file; they join the answer's warnings.
  std::vector<std::string> warnings = {};
  std::optional<CostModelRequest> cost_model = {};  // absent: the built-in model
  std::optional<TrainingRun> run = {};              // every plan says what it costs
  double mix_margin = kDefaultMixMargin;            // only for a cluster of several pools
};

struct EvaluateRequest {
  Question question = {};
  PlanRequest plan = {};
};

}  // namespace meshwright
