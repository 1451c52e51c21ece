#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/input/logged_report.h"
#include "cli/input/question_flags.h"
#include "meshwright/v1/estimate.pb.h"
#include "meshwright/v1/history.pb.h"
#include "meshwright/v1/service.pb.h"
#include "search_space/base/status.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/question_resolver.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// A message as a file states it, with all mistakes of its JSON. FromWire (server/convert/convert.h)
// takes both and adds the mistakes of the values.
template <typename Message>
struct Parsed {
  Message message = {};
  std::vector<FieldViolation> violations = {};
  bool is_json_object = true;
  absl::Status model = absl::OkStatus();  // for the import of the config in "model"
  std::vector<std::string> notes = {};    // on how a launch script was read, for people
};

// Trials to run before the answer; none unless one of the paths is stated.
struct TrialFlags {
  std::optional<std::string> launcher = {};
  std::string replay = {};                       // path; empty: none
  std::string job = {};                          // path; empty: none
  std::optional<std::string> job_template = {};  // name of one of the server's
  std::optional<int> max_trials = {};
  std::optional<double> max_device_seconds = {};
  std::optional<double> max_seconds = {};
  std::optional<double> stop_within_ratio = {};
  bool interleave_baseline = false;
  std::optional<int> confirm_plans = {};
  bool operator==(const TrialFlags&) const = default;
};

// The vendor's model to ask; none if the name is empty.
struct CostModelFlags {
  std::string name = {};
  bool allow_fallback = false;
};

// Flags of `tune` and `study create`.
struct TuneFlags {
  QuestionFlags question = {};
  std::string baseline = {};  // empty: none
  std::string history = {};   // empty: none
  std::optional<int> plan_count = {};
  std::optional<double> min_fit_probability = {};
  std::optional<double> tie_probability = {};
  std::optional<double> mix_margin = {};
  std::optional<std::int64_t> history_sequence = {};
  std::optional<double> deadline_seconds = {};
  std::optional<std::string> strategy = {};
  std::optional<int> evaluation_limit = {};
  bool pareto = false;
  std::vector<std::string> disabled_rules = {};
  std::vector<std::string> dimensions = {};  // "tensor_parallel=2,4", "pipeline_parallel=..16"
  TrialFlags trials = {};
  CostModelFlags cost_model = {};
  std::optional<double> token_count = {};  // of the whole training run
  std::optional<double> max_days = {};
  std::vector<std::string> device_hour_prices = {};  // "2.5", "nvidia-h100-sxm5-80gb=2.5"
};

// Reads all files even if one of them is wrong. A Hugging Face config.json is imported and named
// after its folder. The plan of a launch script is the baseline unless there is another one, which
// may be a launch script too.
Parsed<v1::TuneRequest> ReadTuneRequest(const TuneFlags& flags, std::string_view site_chips);

// Reads prices: "2.5" is that of all chips without one of their own, "CHIP=2.5" that of a chip.
// Mistakes are of the field "run.device_hour_prices[<index>]".
std::vector<v1::DeviceHourPrice> ReadPrices(const std::vector<std::string>& texts,
                                            std::vector<FieldViolation>& violations);

// Returns true if a text has nothing but blanks and line breaks.
bool IsBlank(std::string_view text);

// Parses a line of `evaluate --cases` or the file of `export --plan`. A Hugging Face config in
// "model" is imported. A text that is no JSON object counts as one mistake, named "case".
Parsed<v1::EvaluateCase> ParseCase(std::string_view json);

// Reads the lines of `evaluate --pairs` and skips blank ones; an empty path gives none. Each line
// has its own mistakes. INVALID_ARGUMENT if the file cannot be read.
absl::StatusOr<std::vector<Parsed<v1::CasePair>>> ReadPairs(const std::string& path);

// Returns the case resolved, or all mistakes in it. If the Hugging Face config is the
// only mistake, the status keeps its reason, UNKNOWN_MODEL_FAMILY.
absl::StatusOr<ResolvedCase> CheckCase(const Parsed<v1::EvaluateCase>& asked,
                                       QuestionResolver& resolver);

// Reads a file with one case (AsJson), or stdin for "-". A file that cannot be read is a mistake of
// the field "plan".
absl::StatusOr<Parsed<v1::EvaluateCase>> ParseCaseFile(const std::string& path);

// Reads the lines of `--history` and skips blank ones. Paths of mistakes start with
// history[<index>].
Parsed<v1::EvaluatePlansRequest> ReadHistoryFile(const std::string& path);

// A correct history file: as stated, to be sent to a server, and as resolved.
struct History {
  v1::EvaluatePlansRequest stated = {};
  std::vector<HistoryRow> rows = {};
};

// Flags of `job report`; an empty text means that the flag is not stated.
struct ReportFlags {
  std::string request_id = {};
  std::string study_id = {};
  std::optional<int> rank = {};
  QuestionFlags question = {};
  std::string plan = {};  // path
  std::string framework_version = {};
  std::string outcome = {};
  std::optional<double> step_time_seconds = {};
  std::optional<std::int64_t> peak_memory_bytes = {};
  std::string job_name = {};
  std::string note = {};
  bool is_confirmed = false;
  LoggedReportFlags logged = {};
  bool operator==(const ReportFlags&) const = default;
};
Parsed<v1::CreateJobReportRequest> ReadReportFlags(const ReportFlags& flags,
                                                   std::string_view site_chips);

// Reads the lines of `job report --file`, each a CreateJobReportRequest, and skips blank ones.
// Paths of mistakes start with requests[<index>].
Parsed<v1::BatchCreateJobReportsRequest> ReadReportsFile(const std::string& path);

// Reads a history file; an empty path gives an empty history. INVALID_ARGUMENT lists all mistakes.
absl::StatusOr<History> ReadHistory(const std::string& path, const Knowledge& knowledge);

}  // namespace meshwright
