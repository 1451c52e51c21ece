#include "cli/input/input_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <utility>

#include "cli/input/cluster_flags.h"
#include "cli/input/json_member.h"
#include "cli/input/json_text.h"
#include "cli/input/known_chips.h"
#include "cli/input/read_file.h"
#include "proto/json/json.h"
#include "search_space/import/hugging_face.h"
#include "server/convert/convert.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/question_resolver.h"
#include "server/tuner/question/resolved_study.h"

namespace meshwright {
namespace {

void Append(std::vector<FieldViolation>&& from, std::vector<FieldViolation>& to) {
  to.insert(to.end(), std::move_iterator(from.begin()), std::move_iterator(from.end()));
}

// Returns the name of a model: that of the folder for a config.json, and else that of the file.
std::string ModelName(const std::string& path) {
  std::error_code error;
  const std::filesystem::path file = std::filesystem::absolute(path, error);
  const bool is_config = file.filename() == "config.json";
  const std::string name = is_config ? file.parent_path().filename() : file.stem();
  return name.empty() ? "model" : name;
}

// A folder stands for the config.json in it, as a checkpoint has it.
std::string ModelFileOf(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return path;
  return (std::filesystem::path(path) / "config.json").lexically_normal();
}

void ReadModelFile(const std::string& stated, Parsed<v1::TuneRequest>& out) {
  const std::string path = ModelFileOf(stated);
  const auto text = ReadJsonFor("model", path, out.violations);
  if (!text.has_value()) return;
  if (!LooksLikeHuggingFaceConfig(*text)) {
    Append(ParseJson(*text, "model", *out.message.mutable_model()), out.violations);
    return;
  }
  const auto model = ImportHuggingFaceConfig(*text, ModelName(path));
  if (model.ok()) {
    *out.message.mutable_model() = ToWire(model->model);
    out.notes = model->notes;
  } else {
    out.message.set_hugging_face_config_json(*text);  // FromWire checks it
  }
}

std::optional<int> NumberIn(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number ? std::optional(value) : std::nullopt;
}

// Reads a restriction of a dimension: "name=a,b", "name=a..b", "name=a.." or "name=..b".
void ReadDimension(const std::string& text, Parsed<v1::TuneRequest>& out) {
  const std::string field = fmt::format("dimensions[{}]", out.message.dimensions_size());
  v1::SearchDimension& dimension = *out.message.add_dimensions();
  const std::size_t equals = text.find('=');
  dimension.set_name(text.substr(0, equals));
  if (equals == std::string::npos) return;  // has no values; reported with the other mistakes
  const std::string values = text.substr(equals + 1);
  const std::size_t dots = values.find("..");
  if (dots == std::string::npos) {
    std::istringstream parts(values);
    for (std::string part; std::getline(parts, part, ',');) dimension.add_values(part);
    return;
  }
  const std::string low = values.substr(0, dots);
  const std::string high = values.substr(dots + 2);
  const std::optional<int> least = NumberIn(low);
  const std::optional<int> most = NumberIn(high);
  if (least.has_value()) dimension.set_at_least(*least);
  if (most.has_value()) dimension.set_at_most(*most);
  if ((!low.empty() && !least.has_value()) || (!high.empty() && !most.has_value())) {
    out.violations.push_back(
        {.field = field,
         .description = values + "; must be a range of whole numbers such as 2..16"});
  }
}

// Returns the lines of a file of JSON lines without the blank ones.
std::vector<std::string> LinesOf(const std::optional<std::string>& text) {
  std::vector<std::string> kept;
  std::istringstream lines(text.value_or(""));
  for (std::string line; std::getline(lines, line);) {
    if (!IsBlank(line)) kept.push_back(std::move(line));
  }
  return kept;
}

void ReadTrialFlags(const TrialFlags& flags, Parsed<v1::TuneRequest>& out) {
  if (flags == TrialFlags()) return;
  v1::TrialRequest& trials = *out.message.mutable_trials();
  if (flags.launcher.has_value()) trials.set_launcher(*flags.launcher);
  if (flags.max_trials.has_value()) trials.set_max_trials(*flags.max_trials);
  if (flags.max_device_seconds.has_value()) {
    trials.set_max_device_seconds(*flags.max_device_seconds);
  }
  if (flags.max_seconds.has_value()) trials.set_max_seconds(*flags.max_seconds);
  if (flags.stop_within_ratio.has_value()) trials.set_stop_within_ratio(*flags.stop_within_ratio);
  if (flags.interleave_baseline) trials.set_interleave_baseline(true);
  if (flags.confirm_plans.has_value()) trials.set_confirm_plans(*flags.confirm_plans);
  if (!flags.job.empty()) {
    ReadPartFile("trials.job", flags.job, *trials.mutable_job(), out.violations);
  }
  if (flags.job_template.has_value()) {
    trials.mutable_job()->set_template_name(*flags.job_template);
  }
  if (flags.replay.empty()) return;
  for (const std::string& line : LinesOf(ReadFor("trials.replay", flags.replay, out.violations))) {
    const std::string prefix = fmt::format("trials.replay[{}]", trials.replay_size());
    Append(ParseJson(line, prefix, *trials.add_replay()), out.violations);
  }
}

void ReadRunFlags(const TuneFlags& flags, Parsed<v1::TuneRequest>& out) {
  if (!flags.token_count.has_value()) return;
  v1::TrainingRun& run = *out.message.mutable_run();
  run.set_token_count(*flags.token_count);
  if (flags.max_days.has_value()) run.set_max_days(*flags.max_days);
  for (v1::DeviceHourPrice& price : ReadPrices(flags.device_hour_prices, out.violations)) {
    *run.add_device_hour_prices() = std::move(price);
  }
}

// A line in two parts: the imported Hugging Face config, and the rest.
struct SplitLine {
  absl::StatusOr<ImportedModel> model;
  std::string rest;
};

// Returns nullopt if the line has no Hugging Face config.
std::optional<SplitLine> SplitHuggingFaceModel(std::string_view json) {
  // Most lines have none, and need not be parsed twice.
  if (json.find("\"model_type\"") == json.npos && json.find("\"architectures\"") == json.npos) {
    return std::nullopt;
  }
  const auto config = FindJsonMember(json, "model");
  if (!config.has_value() || !LooksLikeHuggingFaceConfig(*config)) return std::nullopt;
  const auto before = static_cast<std::size_t>(config->data() - json.data());
  return SplitLine{.model = ImportHuggingFaceConfig(*config, "model"),
                   .rest = fmt::format("{}null{}", json.substr(0, before),
                                       json.substr(before + config->size()))};
}

// Reads a message that has a "model". `model_status` tells how the import of its Hugging Face
// config went.
template <typename Message>
std::vector<FieldViolation> ParseLine(std::string_view json, const std::string& prefix,
                                      Message& message, absl::Status& model_status) {
  const auto split = SplitHuggingFaceModel(json);
  if (!split.has_value()) return ParseJson(json, prefix, message);
  auto violations = ParseJson(split->rest, prefix, message);
  model_status = split->model.status();
  if (split->model.ok()) *message.mutable_model() = ToWire(split->model->model);
  for (FieldViolation& violation : FieldViolations(model_status)) {
    if (!prefix.empty()) violation.field = prefix + "." + violation.field;
    violations.push_back(std::move(violation));
  }
  return violations;
}

void ReadReportedModel(const std::string& path, Parsed<v1::CreateJobReportRequest>& out) {
  Parsed<v1::TuneRequest> asked;
  ReadModelFile(path, asked);
  Append(std::move(asked.violations), out.violations);
  if (asked.message.has_model()) *out.message.mutable_model() = asked.message.model();
  if (!asked.message.has_hugging_face_config_json()) return;  // only these can be imported
  const std::string& config = asked.message.hugging_face_config_json();
  Append(FieldViolations(ImportHuggingFaceConfig(config, "model").status()), out.violations);
}

void ReadBaseline(const TuneFlags& flags, std::string_view site_chips,
                  Parsed<v1::TuneRequest>& out) {
  const std::string& path = flags.baseline;
  const auto text = ReadFor("baseline", path, out.violations);
  if (!text.has_value()) return;
  v1::TuneRequest& request = out.message;
  if (const auto own = OwnJson(*text, path, *v1::Plan::descriptor()); own.has_value()) {
    Append(ParseJson(*own, "baseline", *request.mutable_baseline()), out.violations);
    if (flags.question.from.path.empty() && !flags.question.from.variables.empty()) {
      out.violations.push_back(
          {.field = "set",
           .description = fmt::format("{}; must be left out, because {} is not a launch script",
                                      fmt::join(flags.question.from.variables, ", "), path)});
    }
    return;
  }
  StatedBeside beside = {.workload = request.workload(),
                         .cluster = request.cluster(),
                         .framework = request.workload().framework().name()};
  if (request.has_model()) beside.model = request.model();
  FillUsualNodes(site_chips, beside.cluster);
  auto job =
      ReadLaunchText({.path = path, .variables = flags.question.from.variables}, *text, beside);
  std::vector<FieldViolation> found =
      job.ok() ? std::move(job->model_violations) : FieldViolations(job.status());
  if (found.empty()) {
    *request.mutable_baseline() = std::move(job->plan);
    out.notes.insert(out.notes.end(), job->notes.begin(), job->notes.end());
    return;
  }
  for (FieldViolation& violation : found) {
    violation.field = "baseline." + violation.field;
    out.violations.push_back(std::move(violation));
  }
}

// Fills the question with what a launch script says and the other files do not.
void ReadFrom(const TuneFlags& flags, std::string_view site_chips, Parsed<v1::TuneRequest>& out) {
  v1::TuneRequest& request = out.message;
  StatedBeside beside = {.workload = request.workload(),
                         .cluster = request.cluster(),
                         .framework = flags.question.framework};
  if (request.has_model()) beside.model = request.model();
  FillUsualNodes(site_chips, beside.cluster);
  auto job = ReadLaunchFile(flags.question.from, beside);
  std::vector<FieldViolation> found =
      job.ok() ? std::move(job->model_violations) : FieldViolations(job.status());
  // A --model that cannot be read has its own mistake.
  const bool is_lost = !flags.question.model.empty() && !request.has_model();
  if (is_lost) std::erase_if(found, [](const auto& v) { return v.field == "model"; });
  const bool has_model = found.empty() && !request.has_hugging_face_config_json();  // with mistakes
  Append(std::move(found), out.violations);
  if (!job.ok()) return;
  if (has_model) *request.mutable_model() = std::move(job->model);
  *request.mutable_workload() = std::move(job->workload);
  if (flags.baseline.empty()) *request.mutable_baseline() = std::move(job->plan);
  out.notes.insert(out.notes.end(), job->notes.begin(), job->notes.end());
}

// Reads the workload's file and puts what flags state into it, with a note on what it said instead.
// Without either, the request has no workload.
void ReadWorkload(const QuestionFlags& flags, Parsed<v1::TuneRequest>& out) {
  if (!flags.workload.empty()) {
    ReadPartFile("workload", flags.workload, *out.message.mutable_workload(), out.violations);
  }
  if (!flags.sequence_length.has_value() && !flags.global_batch_size.has_value()) return;
  v1::Workload& workload = *out.message.mutable_workload();
  const auto note = [&](const char* flag, int stated, bool has_other, int other) {
    if (!has_other || other == stated) return;
    out.notes.push_back(
        fmt::format("{} {} replaces {} of {}", flag, stated, other, flags.workload));
  };
  if (flags.sequence_length.has_value()) {
    note("--sequence-length", *flags.sequence_length, workload.has_sequence_length(),
         workload.sequence_length());
    workload.set_sequence_length(*flags.sequence_length);
  }
  if (flags.global_batch_size.has_value()) {
    note("--global-batch-size", *flags.global_batch_size, workload.has_global_batch_size(),
         workload.global_batch_size());
    workload.set_global_batch_size(*flags.global_batch_size);
  }
}

// Puts the framework in place of the workload's. Facts stay if the name is the same, and so does a
// version that the flag does not state.
void SetFramework(const QuestionFlags& question, v1::TuneRequest& request) {
  if (question.framework.empty()) return;
  v1::Framework& framework = *request.mutable_workload()->mutable_framework();
  if (framework.name() != question.framework) framework.Clear();
  framework.set_name(question.framework);
  if (!question.framework_version.empty()) framework.set_version(question.framework_version);
}

// Reads the job of a report: what a launch script says, and what is stated beside it.
void ReadReportedJob(const ReportFlags& flags, std::string_view site_chips,
                     Parsed<v1::CreateJobReportRequest>& out) {
  v1::CreateJobReportRequest& report = out.message;
  const QuestionFlags& question = flags.question;
  if (!question.from.path.empty()) {
    Parsed<v1::TuneRequest> asked = ReadTuneRequest({.question = question}, site_chips);
    Append(std::move(asked.violations), out.violations);
    out.notes = std::move(asked.notes);
    report.mutable_model()->Swap(asked.message.mutable_model());
    report.mutable_workload()->Swap(asked.message.mutable_workload());
    report.mutable_cluster()->Swap(asked.message.mutable_cluster());
    if (asked.message.has_baseline()) *report.mutable_plan() = asked.message.baseline();
    return;
  }
  if (!question.model.empty()) ReadReportedModel(question.model, out);
  Parsed<v1::TuneRequest> asked;
  ReadWorkload(question, asked);
  SetFramework(question, asked.message);
  Append(std::move(asked.violations), out.violations);
  out.notes.insert(out.notes.end(), asked.notes.begin(), asked.notes.end());
  if (asked.message.has_workload()) *report.mutable_workload() = asked.message.workload();
  if (question.cluster != ClusterFlags()) {
    ReadCluster(question.cluster, *report.mutable_cluster(), out.violations);
  }
}

}  // namespace

bool IsBlank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

std::vector<v1::DeviceHourPrice> ReadPrices(const std::vector<std::string>& texts,
                                            std::vector<FieldViolation>& violations) {
  std::vector<v1::DeviceHourPrice> prices;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string& text = texts[i];
    const std::size_t equals = text.rfind('=');
    const std::string_view number =
        std::string_view(text).substr(equals == std::string::npos ? 0 : equals + 1);
    double value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (error != std::errc() || end != number.data() + number.size()) {
      violations.push_back({.field = fmt::format("run.device_hour_prices[{}]", i),
                            .description = text + "; must be a number, or CHIP=NUMBER"});
      continue;
    }
    v1::DeviceHourPrice& price = prices.emplace_back();
    price.set_price(value);
    if (equals != std::string::npos) price.set_chip(text.substr(0, equals));
  }
  return prices;
}

Parsed<v1::TuneRequest> ReadTuneRequest(const TuneFlags& flags, std::string_view site_chips) {
  Parsed<v1::TuneRequest> out;
  v1::TuneRequest& request = out.message;
  const QuestionFlags& question = flags.question;
  if (!question.model.empty()) ReadModelFile(question.model, out);
  request.mutable_workload();  // a question has one, if only by its launch script
  ReadWorkload(question, out);
  ReadCluster(question.cluster, *request.mutable_cluster(), out.violations);
  if (!question.from.path.empty()) ReadFrom(flags, site_chips, out);
  SetFramework(question, request);
  if (!flags.baseline.empty()) ReadBaseline(flags, site_chips, out);
  if (!flags.history.empty()) {
    auto history = ReadHistoryFile(flags.history);
    request.mutable_history()->Swap(history.message.mutable_history());
    Append(std::move(history.violations), out.violations);
  }
  if (flags.plan_count.has_value()) request.set_plan_count(*flags.plan_count);
  if (flags.min_fit_probability.has_value()) {
    request.set_min_fit_probability_ratio(*flags.min_fit_probability);
  }
  if (flags.tie_probability.has_value()) {
    request.set_tie_probability_ratio(*flags.tie_probability);
  }
  if (flags.mix_margin.has_value()) request.set_mix_margin_ratio(*flags.mix_margin);
  if (flags.history_sequence.has_value()) request.set_history_sequence(*flags.history_sequence);
  if (flags.deadline_seconds.has_value()) request.set_deadline_seconds(*flags.deadline_seconds);
  if (flags.strategy.has_value()) request.set_strategy(*flags.strategy);
  if (flags.evaluation_limit.has_value()) request.set_evaluation_limit(*flags.evaluation_limit);
  if (flags.pareto) request.set_pareto(true);
  if (!flags.cost_model.name.empty()) {
    request.mutable_cost_model()->set_name(flags.cost_model.name);
    request.mutable_cost_model()->set_allow_fallback(flags.cost_model.allow_fallback);
  }
  for (const std::string& rule : flags.disabled_rules) request.add_disabled_rules(rule);
  for (const std::string& text : flags.dimensions) ReadDimension(text, out);
  ReadTrialFlags(flags.trials, out);
  ReadRunFlags(flags, out);
  return out;
}

Parsed<v1::EvaluateCase> ParseCase(std::string_view json) {
  Parsed<v1::EvaluateCase> out;
  out.violations = ParseLine(json, "", out.message, out.model);
  // If the text is no object, ParseJson reports one mistake of the whole message.
  for (FieldViolation& violation : out.violations) {
    if (!violation.field.empty()) continue;
    violation.field = "case";
    out.is_json_object = false;
  }
  return out;
}

absl::StatusOr<std::vector<Parsed<v1::CasePair>>> ReadPairs(const std::string& path) {
  std::vector<Parsed<v1::CasePair>> pairs;
  if (path.empty()) return pairs;
  std::vector<FieldViolation> unreadable;
  const auto text = ReadFor("pairs", path, unreadable);
  if (!unreadable.empty()) return InvalidFields(unreadable);
  for (const std::string& line : LinesOf(text)) {
    Parsed<v1::CasePair>& pair = pairs.emplace_back();
    pair.violations = ParseJson(line, "", pair.message);
    for (FieldViolation& violation : pair.violations) {
      if (!violation.field.empty()) continue;
      violation.field = "pair";
      pair.is_json_object = false;
    }
  }
  return pairs;
}

absl::StatusOr<ResolvedCase> CheckCase(const Parsed<v1::EvaluateCase>& asked,
                                       QuestionResolver& resolver) {
  // The file was not read, so its missing fields are no mistakes.
  if (!asked.is_json_object) return InvalidFields(asked.violations);
  auto resolved = FromWire(asked.message, resolver, asked.violations);
  if (resolved.ok() || asked.model.ok()) return resolved;
  const bool is_model_only = FieldViolations(resolved.status()) == FieldViolations(asked.model);
  return is_model_only ? asked.model : resolved.status();
}

absl::StatusOr<Parsed<v1::EvaluateCase>> ParseCaseFile(const std::string& path) {
  const auto text = ReadTextFile(path);
  if (!text.ok()) {
    return InvalidFields({{.field = "plan", .description = std::string(text.status().message())}});
  }
  const auto json = AsJson(*text, path);
  if (json.ok()) return ParseCase(*json);
  return InvalidFields({{.field = "case", .description = std::string(json.status().message())}});
}

Parsed<v1::EvaluatePlansRequest> ReadHistoryFile(const std::string& path) {
  Parsed<v1::EvaluatePlansRequest> out;
  for (const std::string& line : LinesOf(ReadFor("history", path, out.violations))) {
    const std::string prefix = fmt::format("history[{}]", out.message.history_size());
    absl::Status model;  // its mistakes are in the list
    Append(ParseLine(line, prefix, *out.message.add_history(), model), out.violations);
  }
  return out;
}

Parsed<v1::CreateJobReportRequest> ReadReportFlags(const ReportFlags& flags,
                                                   std::string_view site_chips) {
  Parsed<v1::CreateJobReportRequest> out;
  v1::CreateJobReportRequest& report = out.message;
  const auto set = [&report](const std::string& text, auto field) {
    if (!text.empty()) *(report.*field)() = text;
  };
  using Report = v1::CreateJobReportRequest;
  set(flags.request_id, &Report::mutable_request_id);
  set(flags.study_id, &Report::mutable_study_id);
  set(flags.framework_version, &Report::mutable_framework_version);
  set(flags.outcome, &Report::mutable_outcome);
  set(flags.job_name, &Report::mutable_job_name);
  set(flags.note, &Report::mutable_note);
  if (flags.is_confirmed) report.set_is_confirmed(true);
  if (flags.rank.has_value()) report.set_rank(*flags.rank);
  if (flags.step_time_seconds.has_value()) report.set_step_time_seconds(*flags.step_time_seconds);
  if (flags.peak_memory_bytes.has_value()) report.set_peak_memory_bytes(*flags.peak_memory_bytes);
  ReadReportedJob(flags, site_chips, out);
  if (!flags.plan.empty()) {
    report.clear_plan();
    ReadPartFile("plan", flags.plan, *report.mutable_plan(), out.violations);
  }
  ReadReportedLog(flags.logged, site_chips, report, out.violations, out.notes);
  return out;
}

Parsed<v1::BatchCreateJobReportsRequest> ReadReportsFile(const std::string& path) {
  Parsed<v1::BatchCreateJobReportsRequest> out;
  for (const std::string& line : LinesOf(ReadFor("file", path, out.violations))) {
    const std::string prefix = fmt::format("requests[{}]", out.message.requests_size());
    absl::Status model;  // its mistakes are in the list
    Append(ParseLine(line, prefix, *out.message.add_requests(), model), out.violations);
  }
  return out;
}

absl::StatusOr<History> ReadHistory(const std::string& path, const Knowledge& knowledge) {
  History history;
  if (path.empty()) return history;
  Parsed<v1::EvaluatePlansRequest> file = ReadHistoryFile(path);
  ASSIGN_OR_RETURN(history.rows,
                   HistoryFromWire(file.message, knowledge, std::move(file.violations)));
  history.stated = std::move(file.message);
  return history;
}

}  // namespace meshwright
