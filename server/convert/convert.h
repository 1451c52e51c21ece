#pragma once

#include <google/protobuf/message.h>

#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwright/v1/estimate.pb.h"
#include "meshwright/v1/problem.pb.h"
#include "meshwright/v1/service.pb.h"
#include "recorder/records.h"
#include "search_space/base/status.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload.h"
#include "server/engine/engine.h"
#include "server/engine/engine_options.h"
#include "server/tuner/answers/evaluate.h"
#include "server/tuner/answers/explain.h"
#include "server/tuner/answers/sweep.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/question_resolver.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// This folder is the only place where wire types meet domain types. Converting a request also
// validates and resolves it, so that one error names every bad field and nothing deeper checks
// again.
// `already_found` holds the mistakes that reading the JSON has shown (proto/json/json.h). Only one
// mistake per field is kept.

// Also returns UNIMPLEMENTED with reason MIXED_CLUSTER_SEARCH if the cluster has several pools.
absl::StatusOr<ResolvedStudy> FromWire(const v1::TuneRequest& request, const Knowledge& knowledge,
                                       std::vector<FieldViolation> already_found = {});
absl::StatusOr<ResolvedCase> FromWire(const v1::EvaluateCase& evaluate_case,
                                      QuestionResolver& resolver,
                                      std::vector<FieldViolation> already_found = {});
absl::StatusOr<HistoryRow> FromWire(const v1::HistoryRow& row, const Knowledge& knowledge,
                                    std::vector<FieldViolation> already_found = {});
// Reads the measured rows of a request. The paths of bad fields start with history[<index>].
absl::StatusOr<std::vector<HistoryRow>> HistoryFromWire(
    const v1::EvaluatePlansRequest& request, const Knowledge& knowledge,
    std::vector<FieldViolation> already_found = {});

v1::Model ToWire(const ModelSpec& model);
v1::Workload ToWire(const WorkloadRequest& workload);
v1::Cluster ToWire(const ClusterRequest& cluster);
v1::Plan ToWire(const ParallelPlan& plan);
v1::Plan ToWire(const PlanRequest& plan);
v1::Estimate ToWire(const Estimate& estimate);
v1::Estimate ToWire(const CalibratedEstimate& evaluated);
v1::RankedPlan ToWire(const RankedPlan& plan);
v1::TuneRequest ToWire(const StudyRequest& request);
v1::TuneResult ToWire(const StudyResult& result);
v1::Calibration ToWire(const CalibrationReport& report);
v1::Infeasible ToWire(const Infeasible& infeasible);
v1::Progress ToWire(const Progress& progress);
v1::Study ToWire(const StudyRecord& record);

// Serializes equal messages to the same bytes: maps are written in the order of their keys.
std::string StableBytes(const google::protobuf::Message& message);

// Returns {"id","error":{"reason","message","fields":[...]}} for an `evaluate` case that failed.
v1::CaseError ToCaseError(const absl::Status& status);
// Returns the status that an error of a case stands for: its fields, reason and message.
absl::Status FromCaseError(const v1::CaseError& error);

v1::ExplainPlanResponse ToWire(const Explanation& explanation);
v1::SweepResponse ToWire(const Sweep& sweep);

// Returns what a sweep varies beside its question, which has been read, with defaults for what is
// absent. Returns INVALID_ARGUMENT with every bad field.
absl::StatusOr<SweepRange> FromWire(const v1::SweepRequest& request, const StudyRequest& question,
                                    const Knowledge& knowledge);

// Answers every case in order, and gives each bad case its error. `source` adds history to every
// case. Returns CANCELLED once `cancel` is requested, which is checked between two cases.
absl::StatusOr<v1::EvaluatePlansResponse> AnswerCases(const v1::EvaluatePlansRequest& request,
                                                      const Knowledge& knowledge,
                                                      const HistorySource& source = {},
                                                      const std::stop_token& cancel = {},
                                                      const OpenPlanModel& open = {});

// Prints one case of `evaluate` on a single line.
std::string PrintCase(const Question& question, const ParallelPlan& plan);

// Returns the codec that the engine and the CLI without a server use: serialized messages.
StudyCodec ProtobufCodec(const Knowledge& knowledge);

// Fills the oneof of GetStudyResponse from a stored answer.
absl::Status FillAnswer(const std::string& stored_answer, v1::GetStudyResponse& response);

}  // namespace meshwright
