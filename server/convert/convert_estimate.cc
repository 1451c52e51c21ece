#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/model.h"
#include "server/convert/case_answers.h"
#include "server/convert/convert.h"
#include "server/convert/fill_wire.h"
#include "server/convert/message_reader.h"
#include "server/convert/read_wire.h"
#include "server/tuner/answers/evaluate.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/learning/prepare.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/question_resolver.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/search/requested_model.h"

namespace meshwright {
namespace {

void FillBreakdowns(const Estimate& estimate, v1::Estimate& wire) {
  auto& seconds = *wire.mutable_breakdown_seconds();
  for (std::size_t i = 0; i < kTimeCauseCount; ++i) {
    seconds[std::string(Word(static_cast<TimeCause>(i)))] = estimate.breakdown[i].count();
  }
  auto& bytes = *wire.mutable_memory_breakdown_bytes();
  for (std::size_t i = 0; i < kMemoryKindCount; ++i) {
    bytes[std::string(Word(static_cast<MemoryKind>(i)))] = estimate.memory_breakdown[i].count;
  }
  for (const StageMemory& stage : estimate.stage_memory) {
    wire.add_peak_memory_bytes_by_stage(stage.peak.count);
  }
}

void FillStages(const Estimate& estimate, v1::Estimate& wire) {
  const bool has_groups = !estimate.stages.empty() && estimate.stages.back().replica_group > 0;
  for (const StageEstimate& stage : estimate.stages) {
    v1::StageEstimate& out = *wire.add_stages();
    out.set_pool(stage.pool);
    if (has_groups) out.set_replica_group(stage.replica_group);
    out.set_forward_seconds(stage.forward.count());
    out.set_backward_seconds(stage.backward.count());
    out.set_message_seconds(stage.messages.count());
    out.set_reserved_memory_bytes(stage.reserved_memory.count);
    out.set_memory_capacity_bytes(stage.memory_capacity.count);
    out.set_fits(stage.fits);
    out.set_idle_ratio(stage.idle_ratio);
  }
  auto& idle = *wire.mutable_idle_nodes_by_pool();
  for (const auto& [pool, nodes] : estimate.idle_nodes_by_pool) idle[pool] = nodes;
}

// Tells jobs apart whose step times cannot be compared.
std::string JobWords(const Problem& problem) {
  return fmt::format("{} parameters, {} sequences of {} tokens on {} devices",
                     ParameterCount(problem.model, false), problem.workload.global_batch_size,
                     problem.workload.sequence_length, DeviceCount(problem.cluster));
}

v1::EvaluatePlansResponse ResponseOf(const std::vector<CaseAnswer>& answers,
                                     const v1::EvaluatePlansRequest& request) {
  v1::EvaluatePlansResponse response;
  for (v1::EvaluateAnswer& answer : CaseAnswersToWire(answers)) {
    *response.add_answers() = std::move(answer);
  }
  for (v1::ComparedPair& pair : ComparePairs(answers, request.pairs())) {
    *response.add_pairs() = std::move(pair);
  }
  return response;
}

void FillSource(const CostModelSource& source, v1::CostModelSource& wire) {
  wire.set_name(source.name);
  wire.set_vendor(source.vendor);
  wire.set_version(source.version);
  wire.set_protocol(source.protocol);
  wire.set_checksum(source.checksum);
  wire.set_calibration_version(source.calibration);
  wire.set_state(source.is_fallback ? "fallback" : "used");
  wire.set_reason(source.reason);
  if (source.peak_memory) wire.set_peak_memory_bytes(source.peak_memory->count);
}

}  // namespace

void FillAppliedDefaults(const std::vector<AppliedDefault>& defaults,
                         google::protobuf::RepeatedPtrField<v1::AppliedDefault>& wire) {
  for (const AppliedDefault& applied : defaults) {
    v1::AppliedDefault& out = *wire.Add();
    out.set_field(applied.field);
    out.set_value(applied.value);
    out.set_source(applied.source);
  }
}

v1::Estimate ToWire(const Estimate& estimate) {
  v1::Estimate wire;
  wire.set_step_time_seconds(estimate.step_time.count());
  wire.set_step_time_low_seconds(estimate.step_time_low.count());
  wire.set_step_time_high_seconds(estimate.step_time_high.count());
  wire.set_tokens_per_second_per_device(estimate.tokens_per_second_per_device);
  wire.set_model_flops_utilization_ratio(estimate.model_flops_utilization);
  wire.set_peak_memory_bytes(estimate.peak_memory.count);
  wire.set_reserved_memory_bytes(estimate.reserved_memory.count);
  wire.set_memory_capacity_bytes(estimate.memory_capacity.count);
  wire.set_fits(estimate.fits);
  wire.set_fit_probability_ratio(estimate.fit_probability);
  FillBreakdowns(estimate, wire);
  FillStages(estimate, wire);
  wire.set_tier(std::string(Word(estimate.tier)));
  wire.set_provenance(std::string(Word(estimate.provenance)));
  for (const auto& [cause, provenance] : estimate.breakdown_provenance) {
    (*wire.mutable_breakdown_provenance())[std::string(Word(cause))] = Word(provenance);
  }
  for (const auto& [source, ratio] : estimate.uncertainty_ratio_by_source) {
    (*wire.mutable_uncertainty_ratio_by_source())[source] = ratio;
  }
  FillAppliedDefaults(estimate.applied_defaults, *wire.mutable_applied_defaults());
  wire.mutable_warnings()->Assign(estimate.warnings.begin(), estimate.warnings.end());
  if (estimate.cost_model) FillSource(*estimate.cost_model, *wire.mutable_cost_model());
  return wire;
}

v1::Estimate ToWire(const CalibratedEstimate& evaluated) {
  v1::Estimate wire = ToWire(evaluated.estimate);
  if (evaluated.calibration) *wire.mutable_calibration() = ToWire(*evaluated.calibration);
  return wire;
}

v1::CaseError ToCaseError(const absl::Status& status) {
  v1::CaseError error;
  error.set_reason(Reason(status));
  error.set_message(std::string(status.message()));
  for (const FieldViolation& violation : FieldViolations(status)) {
    v1::FieldViolation& field = *error.add_fields();
    field.set_field(violation.field);
    field.set_description(violation.description);
  }
  return error;
}

absl::Status FromCaseError(const v1::CaseError& error) {
  std::vector<FieldViolation> violations;
  for (const v1::FieldViolation& field : error.fields()) {
    violations.push_back({.field = field.field(), .description = field.description()});
  }
  return WithReason(
      violations.empty() ? absl::InvalidArgumentError(error.message()) : InvalidFields(violations),
      error.reason());
}

absl::StatusOr<std::vector<CaseAnswer>> EvaluateCases(const v1::EvaluatePlansRequest& request,
                                                      const Knowledge& knowledge,
                                                      const HistorySource& source,
                                                      const std::stop_token& cancel,
                                                      const OpenPlanModel& open) {
  const auto history = HistoryFromWire(request, knowledge);
  std::vector<FieldViolation> found;
  CaseModel model(ReadCostModelRequest(MessageReader(request, "", found)), open);
  QuestionResolver resolver(knowledge);
  std::optional<Calibrator> calibrator;
  if (history.ok()) calibrator.emplace(*history, knowledge, source);
  std::vector<CaseAnswer> answers;
  const auto answer = [&](const v1::EvaluateCase& wire,
                          CaseAnswer& out) -> absl::StatusOr<CalibratedEstimate> {
    if (!calibrator.has_value()) return history.status();
    if (!found.empty()) return InvalidFields(found);
    ASSIGN_OR_RETURN(const ResolvedCase asked, FromWire(wire, resolver));
    out.plan = asked.plan.plan;
    out.sequence_length = asked.problem->workload.sequence_length;
    out.job = JobWords(*asked.problem);
    ASSIGN_OR_RETURN(CalibratedEstimate evaluated, EvaluatePlan(asked, *calibrator));
    RETURN_IF_ERROR(model.Apply(asked, evaluated.estimate));
    return evaluated;
  };
  for (const v1::EvaluateCase& wire : request.cases()) {
    if (cancel.stop_requested()) return absl::CancelledError("the caller has disconnected");
    CaseAnswer& out = answers.emplace_back();
    if (wire.has_id()) out.id = wire.id();
    out.group = wire.group();
    out.estimate = answer(wire, out);
  }
  return answers;
}

absl::StatusOr<v1::EvaluatePlansResponse> AnswerCases(const v1::EvaluatePlansRequest& request,
                                                      const Knowledge& knowledge,
                                                      const HistorySource& source,
                                                      const std::stop_token& cancel,
                                                      const OpenPlanModel& open) {
  ASSIGN_OR_RETURN(const std::vector<CaseAnswer> answers,
                   EvaluateCases(request, knowledge, source, cancel, open));
  return ResponseOf(answers, request);
}

}  // namespace meshwright
