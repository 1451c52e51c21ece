#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/history_records.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/engine/queue/quota.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// Writes the requests and answers of studies as bytes for the store, and reads them. server/convert
// supplies it with protobuf, so that this folder does not know the wire types.
struct StudyCodec {
  std::function<std::string(const StudyRequest&)> encode_request = {};
  std::function<absl::StatusOr<ResolvedStudy>(std::string_view)> decode_request = {};
  // Returns the launcher of the request's trials, without reading anything else; empty if it states
  // none or cannot be read.
  std::function<std::string(std::string_view)> read_launcher = {};
  std::function<std::string(const StudyAnswer&)> encode_answer = {};
  std::function<std::string(const ParallelPlan&)> encode_plan = {};
  std::function<std::string(const Estimate&)> encode_estimate = {};
  std::function<std::string(const Progress&)> encode_progress = {};
  std::function<std::string(const CalibrationReport&)> encode_calibration = {};
  // Write and read the question of a result as it was stated.
  std::function<std::string(const Question&)> encode_question = {};
  std::function<absl::StatusOr<Question>(std::string_view)> decode_question = {};
  // Prints a case as StudyControl::print_case does.
  std::function<std::string(const Question&, const ParallelPlan&)> print_case = {};
};

struct CreateStudyOptions {
  std::optional<std::string> study_id = {};
  std::optional<std::string> request_id = {};
  std::string creator = {};  // name of the caller; empty: nobody known
};

struct EngineHooks {
  // Called from any thread with an error that no caller can be given: the store failed during a
  // study.
  std::function<void(std::string_view study_id, const absl::Status&)> on_error = {};
  // Runs a study. Tests replace it to hold a study while it runs.
  std::function<absl::StatusOr<StudyAnswer>(const ResolvedStudy&, const Knowledge&,
                                            const StudyControl&)>
      run = [](const ResolvedStudy& study, const Knowledge& knowledge,
               const StudyControl& control) { return RunStudy(study, knowledge, control); };
  // Returns the time by which the progress of studies is thinned. Tests replace it; called from any
  // thread.
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
  // Is told how long each group of writes took, from any thread; null: nobody is.
  std::function<void(std::chrono::duration<double>)> on_store_write = {};
  // Is told of each new measurement that a trial or a job report brought, once it is stored, from
  // any thread; null: nobody is.
  std::function<void(const MeasurementRecord&)> on_measurement = {};
  // On a store that several servers share, the time for which a study stays with a server that does
  // not answer.
  std::chrono::milliseconds study_lease = std::chrono::seconds(30);
  // The limits of what the studies of one creator may take.
  StudyQuota quota = {};
  // True if studies may run the commands in their requests, as this process's user.
  bool allows_jobs = false;
};

}  // namespace meshwright
