#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwright/v1/estimate.pb.h"
#include "meshwright/v1/history.pb.h"
#include "meshwright/v1/service.pb.h"
#include "search_space/base/status.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// A whole file, "-" for stdin. INVALID_ARGUMENT with the system's reason when it cannot be read.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

// A message as a file states it, with everything that is wrong with its JSON. FromWire
// (server/convert/convert.h) takes both and adds what is wrong with the values.
template <typename Message>
struct Parsed {
  Message message = {};
  std::vector<FieldViolation> violations = {};
  bool is_json_object = true;
  absl::Status model = absl::OkStatus();  // of the Hugging Face config in "model"
};

// What is run before the answer; nothing unless one of them is stated.
struct TrialFlags {
  std::optional<std::string> launcher = {};
  std::string replay = {};  // path; empty: none
  std::string job = {};     // path; empty: none
  std::optional<int> max_trials = {};
  std::optional<double> max_device_seconds = {};
  std::optional<double> max_seconds = {};
  std::optional<double> stop_within_ratio = {};
  bool interleave_baseline = false;
  std::optional<int> confirm_plans = {};
  bool operator==(const TrialFlags&) const = default;
};

// A vendor's model to be asked; empty name: none.
struct CostModelFlags {
  std::string name = {};
  bool allow_fallback = false;
};

// Flags of `tune` and `study create`.
struct TuneFlags {
  std::string model = {};  // paths
  std::string workload = {};
  std::string cluster = {};
  std::string baseline = {};  // empty: none
  std::string history = {};   // empty: none
  std::optional<int> plan_count = {};
  std::optional<std::int64_t> history_sequence = {};
  std::optional<double> deadline_seconds = {};
  std::optional<std::string> strategy = {};
  std::optional<int> evaluation_limit = {};
  bool pareto = false;
  std::vector<std::string> disabled_rules = {};
  std::vector<std::string> dimensions = {};  // "tensor_parallel=2,4", "pipeline_parallel=..16"
  TrialFlags trials = {};
  CostModelFlags cost_model = {};
};

// Reads all files, also when one of them is wrong. A Hugging Face config.json is imported and
// called by its folder.
Parsed<v1::TuneRequest> ReadTuneRequest(const TuneFlags& flags);

// One line of `evaluate --cases`, or the file of `export --plan`. A Hugging Face config in "model"
// is imported. A text that is no JSON object is one mistake, called "case".
Parsed<v1::EvaluateCase> ParseCase(std::string_view json);

// The request that a case states, or everything that is wrong with it. A Hugging Face config that
// is all that is wrong keeps its own reason, UNKNOWN_MODEL_FAMILY.
absl::StatusOr<EvaluateRequest> CheckCase(const Parsed<v1::EvaluateCase>& asked,
                                          const Knowledge& knowledge);

// The lines of `--history`; blank ones skipped. Paths start with history[<index>].
Parsed<v1::EvaluatePlansRequest> ReadHistoryFile(const std::string& path);

// A history file that is right: as stated, to be sent to a server, and as resolved.
struct History {
  v1::EvaluatePlansRequest stated = {};
  std::vector<HistoryRow> rows = {};
};

// Flags of `job report`; empty texts are not stated.
struct ReportFlags {
  std::string request_id = {};
  std::string study_id = {};
  std::optional<int> rank = {};
  std::string model = {};  // these four are paths
  std::string workload = {};
  std::string cluster = {};
  std::string plan = {};
  std::string framework_version = {};
  std::string outcome = {};
  std::optional<double> step_time_seconds = {};
  std::optional<std::int64_t> peak_memory_bytes = {};
  std::string job_name = {};
  std::string note = {};
  bool operator==(const ReportFlags&) const = default;
};
Parsed<v1::CreateJobReportRequest> ReadReportFlags(const ReportFlags& flags);

// The lines of `job report --file`, each a CreateJobReportRequest; blank ones skipped. Paths start
// with requests[<index>].
Parsed<v1::BatchCreateJobReportsRequest> ReadReportsFile(const std::string& path);

// Empty for the path "". Everything that is wrong with the file otherwise.
absl::StatusOr<History> ReadHistory(const std::string& path, const Knowledge& knowledge);

}  // namespace meshwright
