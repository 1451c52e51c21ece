#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstdint>

#include "proto/json/json.h"
#include "recorder/records.h"
#include "search_space/base/secrets.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/space/space_request.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload_settings.h"
#include "server/convert/convert.h"
#include "server/convert/fill_wire.h"
#include "server/convert/message_reader.h"
#include "server/convert/read_wire.h"
#include "server/convert/wire_time.h"
#include "server/engine/engine_options.h"
#include "server/tuner/question/job_template.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/kubernetes_options.h"
#include "server/tuner/question/launch_config.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/question/training_run.h"
#include "server/tuner/question/trial.h"

namespace meshwright {
namespace {

void Fill(const HistoryRow& row, v1::HistoryRow& wire) {
  *wire.mutable_model() = ToWire(row.question.model);
  *wire.mutable_workload() = ToWire(row.question.workload);
  *wire.mutable_cluster() = ToWire(row.question.cluster);
  *wire.mutable_plan() = ToWire(row.plan);
  wire.set_outcome(std::string(Word(row.outcome)));
  if (row.step_time) wire.set_step_time_seconds(row.step_time->count());
  if (row.peak_memory) wire.set_peak_memory_bytes(row.peak_memory->count);
}

void Fill(const JobMetrics& metrics, v1::JobMetrics& wire) {
  if (metrics.format) wire.set_format(*metrics.format);
  if (metrics.pattern) wire.set_pattern(*metrics.pattern);
  wire.mutable_fields()->Assign(metrics.fields.begin(), metrics.fields.end());
  if (metrics.measuring_rank) wire.set_measuring_rank(*metrics.measuring_rank);
  if (metrics.warmup_steps) wire.set_warmup_steps(*metrics.warmup_steps);
  if (metrics.min_steps) wire.set_min_steps(*metrics.min_steps);
  if (metrics.max_steps) wire.set_max_steps(*metrics.max_steps);
  if (metrics.interval_ratio) wire.set_interval_ratio(*metrics.interval_ratio);
  if (metrics.start_limit) wire.set_start_limit_seconds(metrics.start_limit->count());
  if (metrics.hang_limit) wire.set_hang_limit_seconds(metrics.hang_limit->count());
}

void Fill(const KubernetesOptions& options, v1::KubernetesOptions& wire) {
  wire.set_server(options.server);
  wire.set_namespace_(options.name_space);
  wire.set_job_template(options.job_template);
  wire.set_image(options.image);
  if (!options.token_file.empty()) wire.set_token_file(options.token_file);
  if (!options.ca_file.empty()) wire.set_ca_file(options.ca_file);
  if (!options.queue.empty()) wire.set_queue(options.queue);
  if (!options.device_resource.empty()) wire.set_device_resource(options.device_resource);
  if (options.devices_per_node) wire.set_devices_per_node(*options.devices_per_node);
  if (!options.volume_claim.empty()) wire.set_volume_claim(options.volume_claim);
  if (!options.mount_path.empty()) wire.set_mount_path(options.mount_path);
  for (const auto& [key, value] : options.labels) wire.add_labels(fmt::format("{}={}", key, value));
  wire.set_request_limit_seconds(options.request_limit.count());
  wire.set_hopeless_limit_seconds(options.hopeless_limit.count());
  wire.set_start_limit_seconds(options.start_limit.count());
  wire.set_deletion_limit_seconds(options.deletion_limit.count());
}

void Fill(const JobTemplate& job, v1::JobTemplate& wire) {
  wire.set_folder(job.folder);
  wire.mutable_command()->Assign(job.command.begin(), job.command.end());
  wire.mutable_environment()->Assign(job.environment.begin(), job.environment.end());
  wire.mutable_engine_flags()->Assign(job.engine_flags.begin(), job.engine_flags.end());
  if (job.processes_per_node) wire.set_processes_per_node(*job.processes_per_node);
  wire.set_time_limit_seconds(job.time_limit.count());
  wire.set_queue_limit_seconds(job.queue_limit.count());
  wire.set_python(job.python);
  if (!job.workloads_folder.empty()) wire.set_workloads_folder(job.workloads_folder);
  if (job.poll_interval) wire.set_poll_interval_seconds(job.poll_interval->count());
  if (!job.slots_folder.empty()) wire.set_slots_folder(job.slots_folder);
  if (job.memory_limit) wire.set_memory_limit_bytes(job.memory_limit->count);
  if (!job.visible_devices_variable.empty()) {
    wire.set_visible_devices_variable(job.visible_devices_variable);
  }
  if (job.kubernetes) Fill(*job.kubernetes, *wire.mutable_kubernetes());
  Fill(job.metrics, *wire.mutable_metrics());
}

void Fill(const TrialRequest& trials, v1::TrialRequest& wire) {
  wire.set_launcher(trials.launcher);
  if (trials.job) Fill(*trials.job, *wire.mutable_job());
  for (const MeasuredPlan& row : trials.replay) {
    v1::MeasuredPlan& out = *wire.add_replay();
    *out.mutable_plan() = ToWire(row.plan);
    out.set_outcome(std::string(Word(row.outcome)));
    if (row.step_time) out.set_step_time_seconds(row.step_time->count());
    if (row.peak_memory) out.set_peak_memory_bytes(row.peak_memory->count);
  }
  const TrialBudget& budget = trials.budget;
  wire.set_max_trials(budget.trials);
  if (budget.device_time) wire.set_max_device_seconds(budget.device_time->count());
  if (budget.time) wire.set_max_seconds(budget.time->count());
  if (budget.stop_within) wire.set_stop_within_ratio(*budget.stop_within);
  const TrialRepeats& repeats = trials.repeats;
  if (repeats.interleaves_baseline) wire.set_interleave_baseline(true);
  if (repeats.confirmed_plans > 0) wire.set_confirm_plans(repeats.confirmed_plans);
}

void Fill(const TrainingRun& run, v1::TrainingRun& wire) {
  wire.set_token_count(run.token_count);
  if (run.max_days) wire.set_max_days(*run.max_days);
  for (const DeviceHourPrice& price : run.device_hour_prices) {
    v1::DeviceHourPrice& added = *wire.add_device_hour_prices();
    added.set_price(price.price);
    if (!price.chip.empty()) added.set_chip(price.chip);
  }
}

void Fill(const RunCost& cost, v1::RunCost& wire) {
  wire.set_step_count(cost.step_count);
  wire.set_days(cost.days);
  wire.set_low_days(cost.low_days);
  wire.set_high_days(cost.high_days);
  wire.set_device_hours(cost.device_hours);
  if (cost.max_device_energy_kilowatt_hours) {
    wire.set_max_device_energy_kilowatt_hours(*cost.max_device_energy_kilowatt_hours);
  }
  if (cost.price) wire.set_price(*cost.price);
  if (cost.is_within_max_days) wire.set_is_within_max_days(*cost.is_within_max_days);
}

void Fill(const TriedPlan& trial, v1::Trial& wire) {
  *wire.mutable_plan() = ToWire(trial.plan);
  wire.set_plan_digest(MakePlanKey(trial.plan).digest);
  wire.set_outcome(std::string(Word(OutcomeOf(trial.outcome))));
  if (const Ran* ran = std::get_if<Ran>(&trial.outcome)) {
    wire.set_step_time_seconds(ran->step_time.count());
    wire.set_peak_memory_bytes(ran->peak_memory.value_or(Bytes{0}).count);
  }
  wire.set_expected_step_time_seconds(trial.expected_step_time.count());
  wire.set_success_probability_ratio(trial.success_probability);
  wire.set_device_seconds(trial.device_time.count());
  wire.set_failure_class(trial.failure_class);
  wire.set_failure_message(trial.failure_message);
  wire.set_purpose(std::string(Word(trial.purpose)));
  if (trial.reference_step_time) {
    wire.set_reference_step_time_seconds(trial.reference_step_time->count());
  }
  wire.mutable_suspect_reasons()->Assign(trial.suspect_reasons.begin(),
                                         trial.suspect_reasons.end());
}

void Fill(const TrialSummary& summary, v1::TrialSummary& wire) {
  wire.set_stop_reason(std::string(Word(summary.stop)));
  wire.set_candidate_count(summary.candidate_count);
  wire.set_device_seconds(summary.device_time.count());
  wire.set_seconds(summary.time.count());
  wire.set_remaining_gain_ratio(summary.remaining_gain);
  if (summary.best) wire.set_best_step_time_seconds(summary.best->count());
  if (summary.optimistic) wire.set_optimistic_step_time_seconds(summary.optimistic->count());
}

void Fill(const PastRun& run, v1::PastRun& wire) {
  if (run.measurement_id.empty()) {
    wire.set_history_index(run.history_index);
  } else {
    wire.set_measurement_id(run.measurement_id);
  }
  wire.set_model_name(run.model_name);
  wire.set_cluster_name(run.cluster_name);
  wire.set_framework_version(run.framework_version);
  wire.set_plan_key(run.plan_key);
  wire.set_outcome(std::string(Word(run.outcome)));
  if (run.time_ratio) wire.set_time_ratio(*run.time_ratio);
  if (run.memory_ratio) wire.set_memory_ratio(*run.memory_ratio);
  wire.set_similarity_ratio(run.similarity);
}

void FillPrunedCounts(const SearchSummary& search,
                      google::protobuf::Map<std::string, std::int64_t>& wire) {
  for (const auto& [rule, count] : search.pruned_count_by_rule) wire[rule] = count;
}

// An answer is stored as the response that shows it, with only the answer set.
std::string AnswerBytes(const StudyAnswer& answer) {
  v1::GetStudyResponse response;
  if (const auto* result = std::get_if<StudyResult>(&answer)) {
    *response.mutable_result() = ToWire(*result);
  } else {
    *response.mutable_infeasible() = ToWire(std::get<Infeasible>(answer));
  }
  return StableBytes(response);
}

v1::TuneRequest ToWire(const Question& question) {
  v1::TuneRequest wire;
  *wire.mutable_model() = ToWire(question.model);
  *wire.mutable_workload() = ToWire(question.workload);
  *wire.mutable_cluster() = ToWire(question.cluster);
  return wire;
}

// Passes over all fields but the trials, because a start may have to look at thousands of requests.
std::string ReadLauncher(std::string_view request) {
  using google::protobuf::internal::WireFormatLite;
  google::protobuf::io::ArrayInputStream bytes(request.data(), static_cast<int>(request.size()));
  google::protobuf::io::CodedInputStream in(&bytes);
  const std::uint32_t trials_tag = WireFormatLite::MakeTag(
      v1::TuneRequest::kTrialsFieldNumber, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  for (std::uint32_t tag = in.ReadTag(); tag != 0; tag = in.ReadTag()) {
    if (tag != trials_tag) {
      if (!WireFormatLite::SkipField(&in, tag)) return "";
      continue;
    }
    std::string text;
    v1::TrialRequest trials;
    if (!WireFormatLite::ReadBytes(&in, &text) || !trials.ParseFromString(text)) return "";
    return trials.launcher();
  }
  return "";
}

// A question is stored as a request that states nothing else.
absl::StatusOr<v1::TuneRequest> RequestFromBytes(std::string_view bytes, std::string_view what) {
  v1::TuneRequest request;
  if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::DataLossError(fmt::format("stored {} cannot be read", what));
  }
  return request;
}

void FillExport(const std::string& framework, const LaunchConfig& config, v1::RankedPlan& wire) {
  (*wire.mutable_exports())[framework] = config.text;
  v1::Launch& launch = (*wire.mutable_launches())[framework];
  launch.set_file_name(config.file_name);
  launch.set_versions(config.versions);
  launch.set_command(config.command);
  launch.mutable_left_out()->Assign(config.left_out.begin(), config.left_out.end());
  for (const ConfigFile& file : config.other_files) {
    v1::ConfigFile& out = *launch.add_other_files();
    out.set_name(file.name);
    out.set_text(file.text);
  }
}

// Returns "<host> <pid>" of an owner "<host> <pid>:<start time>"; empty for one without a host.
std::string ServerOf(const std::string& owner) {
  return owner.find(' ') == std::string::npos ? std::string() : owner.substr(0, owner.rfind(':'));
}

}  // namespace

std::string StableBytes(const google::protobuf::Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream out(&stream);
  out.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&out);
  out.Trim();
  return bytes;
}

v1::TuneRequest ToWire(const StudyRequest& request) {
  v1::TuneRequest wire = ToWire(request.question);
  if (request.baseline) *wire.mutable_baseline() = ToWire(*request.baseline);
  wire.set_plan_count(request.plan_count);
  wire.set_min_fit_probability_ratio(request.choice.min_fit_probability);
  wire.set_tie_probability_ratio(request.choice.tie_probability);
  if (request.deadline) wire.set_deadline_seconds(request.deadline->count());
  wire.set_strategy(request.strategy);
  if (request.evaluation_limit) wire.set_evaluation_limit(*request.evaluation_limit);
  wire.mutable_disabled_rules()->Assign(request.disabled_rules.begin(),
                                        request.disabled_rules.end());
  for (const HistoryRow& row : request.history) Fill(row, *wire.add_history());
  for (const DimensionRequest& dimension : request.dimensions) {
    v1::SearchDimension& out = *wire.add_dimensions();
    out.set_name(dimension.name);
    out.mutable_values()->Assign(dimension.values.begin(), dimension.values.end());
    if (dimension.at_least) out.set_at_least(*dimension.at_least);
    if (dimension.at_most) out.set_at_most(*dimension.at_most);
  }
  if (request.pareto) wire.set_pareto(true);
  if (request.mix_margin != kDefaultMixMargin) wire.set_mix_margin_ratio(request.mix_margin);
  if (request.cost_model) {
    wire.mutable_cost_model()->set_name(request.cost_model->name);
    wire.mutable_cost_model()->set_allow_fallback(request.cost_model->allow_fallback);
  }
  if (request.trials) Fill(*request.trials, *wire.mutable_trials());
  if (request.history_sequence) wire.set_history_sequence(*request.history_sequence);
  if (request.run) Fill(*request.run, *wire.mutable_run());
  return wire;
}

v1::RankedPlan ToWire(const RankedPlan& plan) {
  v1::RankedPlan wire;
  *wire.mutable_plan() = ToWire(plan.plan);
  *wire.mutable_estimate() = ToWire(plan.estimate);
  for (const auto& [framework, config] : plan.exports) FillExport(framework, config, wire);
  wire.set_plan_digest(MakePlanKey(plan.plan).digest);
  for (const WorkloadSetting& setting : plan.settings) {
    if (setting.field == kPrecisionField) wire.set_precision(setting.value);
    v1::WorkloadSetting& added = *wire.add_settings();
    added.set_field(setting.field);
    added.set_value(setting.value);
  }
  wire.set_like_count(plan.like_count);
  for (const FieldRange& range : plan.like_ranges) {
    v1::FieldRange& added = *wire.add_like_ranges();
    added.set_field(range.field);
    added.set_values(range.values);
  }
  if (plan.fastest_probability) wire.set_fastest_probability_ratio(*plan.fastest_probability);
  if (plan.run) Fill(*plan.run, *wire.mutable_run());
  if (!plan.reason.empty()) wire.set_reason(plan.reason);
  return wire;
}

void FillReasons(const std::vector<VerdictFact>& facts,
                 google::protobuf::RepeatedPtrField<v1::VerdictReason>& wire) {
  for (const VerdictFact& fact : facts) {
    v1::VerdictReason& reason = *wire.Add();
    reason.set_code(std::string(Word(fact.code)));
    reason.mutable_features()->Assign(fact.features.begin(), fact.features.end());
    reason.set_settings(fact.settings);
    if (fact.slower_ratio) reason.set_slower_ratio(*fact.slower_ratio);
    if (fact.fit_probability) reason.set_fit_probability_ratio(*fact.fit_probability);
    if (fact.faster_probability) reason.set_faster_probability_ratio(*fact.faster_probability);
    if (fact.tied_count) reason.set_tied_count(*fact.tied_count);
  }
}

v1::TuneResult ToWire(const StudyResult& result) {
  v1::TuneResult wire;
  for (const RankedPlan& plan : result.plans) *wire.add_plans() = ToWire(plan);
  if (result.model_optimum) *wire.mutable_model_optimum() = ToWire(*result.model_optimum);
  if (result.recommendation) {
    wire.set_recommendation(std::string(Word(result.recommendation->advice)));
    wire.set_reason(result.recommendation->reason);
    FillReasons(result.recommendation->facts, *wire.mutable_reasons());
  }
  if (result.baseline) *wire.mutable_baseline() = ToWire(*result.baseline);
  v1::Search& search = *wire.mutable_search();
  search.set_space_count(result.search.space_count);
  FillPrunedCounts(result.search, *search.mutable_pruned_count_by_rule());
  search.set_evaluated_count(result.search.evaluated_count);
  search.set_seconds(result.search.seconds.count());
  search.set_complete(result.search.complete);
  search.set_optimality_gap_ratio(result.search.optimality_gap);
  FillAppliedDefaults(result.applied_defaults, *wire.mutable_applied_defaults());
  wire.mutable_warnings()->Assign(result.warnings.begin(), result.warnings.end());
  for (const TriedPlan& trial : result.trials) Fill(trial, *wire.add_trials());
  for (const ParetoPoint& point : result.pareto_front) {
    v1::ParetoPoint& out = *wire.add_pareto_front();
    out.set_free_memory_ratio(point.free_memory_ratio);
    *out.mutable_plan() = ToWire(point.plan);
  }
  if (result.trial_summary) Fill(*result.trial_summary, *wire.mutable_trial_summary());
  if (result.calibration) *wire.mutable_calibration() = ToWire(*result.calibration);
  if (result.heterogeneous) FillHeterogeneous(*result.heterogeneous, *wire.mutable_heterogeneous());
  return wire;
}

v1::Calibration ToWire(const CalibrationReport& report) {
  v1::Calibration wire;
  wire.set_id(report.id);
  wire.set_time_ratio(report.time_ratio);
  wire.set_memory_ratio(report.memory_ratio);
  wire.set_run_count(report.run_count);
  wire.set_history_sequence(report.history_sequence);
  wire.set_model_version(report.model_version);
  for (const PastRun& run : report.evidence) Fill(run, *wire.add_evidence());
  wire.set_chip(report.chip);
  wire.set_framework(report.framework);
  wire.set_framework_version(report.framework_version);
  wire.set_job_fingerprint(report.job_fingerprint);
  return wire;
}

v1::Infeasible ToWire(const Infeasible& infeasible) {
  v1::Infeasible wire;
  wire.set_recommendation("nothing_fits");
  wire.set_binding_memory_kind(std::string(Word(infeasible.binding_kind)));
  if (infeasible.nearest) *wire.mutable_nearest() = ToWire(*infeasible.nearest);
  wire.set_missing_bytes(infeasible.missing.count);
  wire.mutable_suggestions()->Assign(infeasible.suggestions.begin(), infeasible.suggestions.end());
  FillPrunedCounts(infeasible.search, *wire.mutable_pruned_count_by_rule());
  return wire;
}

v1::Progress ToWire(const Progress& progress) {
  v1::Progress wire;
  wire.set_phase(progress.phase);
  wire.set_space_count(progress.space_count);
  wire.set_considered_count(progress.considered_count);
  wire.set_evaluated_count(progress.evaluated_count);
  if (progress.best_step_time) wire.set_best_step_time_seconds(progress.best_step_time->count());
  wire.set_job_status(progress.job_status);
  wire.set_limit_count(progress.limit_count);
  return wire;
}

v1::Study ToWire(const StudyRecord& record) {
  v1::Study wire;
  wire.set_id(record.id);
  wire.set_state(std::string(Word(record.state)));
  wire.set_outcome(record.outcome);
  wire.set_model_name(record.model_name);
  wire.set_cluster_name(record.cluster_name);
  wire.set_device_count(record.device_count);
  wire.set_create_time(WireTime(record.create_time_ms));
  if (record.end_time_ms) wire.set_end_time(WireTime(*record.end_time_ms));
  if (record.search_time) wire.set_search_seconds(record.search_time->count());
  if (record.best_step_time) wire.set_best_step_time_seconds(record.best_step_time->count());
  if (record.gain_over_baseline) wire.set_gain_over_baseline_ratio(*record.gain_over_baseline);
  wire.set_best_plan_digest(record.best_plan_digest);
  wire.set_error_message(record.error_message);
  MaskSecrets(*wire.mutable_error_message());
  wire.set_revision(record.revision);
  wire.set_display_name(record.remarks.display_name);
  wire.set_note(record.remarks.note);
  MaskSecrets(*wire.mutable_display_name());
  MaskSecrets(*wire.mutable_note());
  wire.mutable_labels()->insert(record.remarks.labels.begin(), record.remarks.labels.end());
  wire.set_etag(fmt::format("{}", record.remarks.edit_count));
  wire.set_chip(record.chip);
  wire.mutable_other_chips()->Assign(record.other_chips.begin(), record.other_chips.end());
  wire.set_creator(record.creator);
  wire.set_server(ServerOf(record.owner));
  return wire;
}

std::string PrintCase(const Question& question, const ParallelPlan& plan) {
  v1::EvaluateCase wire;
  *wire.mutable_model() = ToWire(question.model);
  *wire.mutable_workload() = ToWire(question.workload);
  *wire.mutable_cluster() = ToWire(question.cluster);
  *wire.mutable_plan() = ToWire(plan);
  return PrintJson(wire, {});
}

StudyCodec ProtobufCodec(const Knowledge& knowledge) {
  const auto encode = [](const auto& value) { return StableBytes(ToWire(value)); };
  return {.encode_request = encode,
          .decode_request = [&knowledge](std::string_view bytes) -> absl::StatusOr<ResolvedStudy> {
            ASSIGN_OR_RETURN(const v1::TuneRequest request,
                             RequestFromBytes(bytes, "request of the study"));
            return FromWire(request, knowledge);
          },
          .read_launcher = ReadLauncher,
          .encode_answer = AnswerBytes,
          .encode_plan = encode,
          .encode_estimate = encode,
          .encode_progress = encode,
          .encode_calibration = encode,
          .encode_question = encode,
          .decode_question = [](std::string_view bytes) -> absl::StatusOr<Question> {
            ASSIGN_OR_RETURN(const v1::TuneRequest request,
                             RequestFromBytes(bytes, "question of a measurement"));
            std::vector<FieldViolation> found;
            Question question = ReadUncheckedQuestion(MessageReader(request, "", found));
            RETURN_IF_ERROR(FoundStatus(found));
            return question;
          },
          .print_case = PrintCase};
}

absl::Status FillAnswer(const std::string& stored_answer, v1::GetStudyResponse& response) {
  v1::GetStudyResponse answer;
  if (!answer.ParseFromString(stored_answer)) {
    return absl::DataLossError("stored answer of the study cannot be read");
  }
  response.MergeFrom(answer);
  return absl::OkStatus();
}

}  // namespace meshwright
