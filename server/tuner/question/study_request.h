#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/base/units.h"
#include "search_space/space/space_request.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_run.h"
#include "server/tuner/question/trial.h"

namespace meshwright {

// A measured result that comes with a question; it calibrates and prunes that question's answer.
struct HistoryRow {
  Question question = {};
  PlanRequest plan = {};
  Outcome outcome = Outcome::kOk;
  std::optional<Seconds> step_time = {};
  std::optional<Bytes> peak_memory = {};
  std::string measurement_id = {};  // of the store that it was read from; empty: the request's own
  // Result of the check at the edge, so that nothing resolves the row again; absent: not checked.
  std::optional<ResolvedJob> resolved = {};
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
  // Of the store, the measurements up to this number join `history` (history_runs.h); whoever has
  // a store gives them (StudyControl). Absent: all that there are.
  std::optional<std::int64_t> history_sequence = {};
  // What there is to say of them; joins the answer's warnings.
  std::vector<std::string> history_warnings = {};
  std::optional<CostModelRequest> cost_model = {};  // absent: the built-in model
};

struct EvaluateRequest {
  Question question = {};
  PlanRequest plan = {};
};

}  // namespace meshwright
