#include "server/convert/trial_wire.h"

#include <string>
#include <utility>
#include <vector>

#include "recorder/records.h"
#include "recorder/trial_records.h"
#include "search_space/base/secrets.h"
#include "search_space/base/status.h"
#include "search_space/spec/attempt.h"
#include "search_space/spec/choices.h"
#include "server/convert/message_reader.h"
#include "server/convert/read_wire.h"
#include "server/convert/status_wire.h"
#include "server/convert/wire_time.h"

namespace meshwright {
namespace {

struct AskedTrials {
  TrialFilter filter = {};
  TrialOrder order = TrialOrder::kNumber;
};

absl::StatusOr<AskedTrials> ReadRequest(const v1::ListTrialsRequest& request) {
  std::vector<FieldViolation> found;
  const MessageReader in(request, "", found);
  AskedTrials asked = {.filter = {.study_id = request.study_id(),
                                  .state = in.Choice<TrialState>("state"),
                                  .outcome = in.Choice<Outcome>("outcome"),
                                  .purpose = in.Choice<TrialPurpose>("purpose"),
                                  .plan_digest = in.Text("plan_digest")}};
  const std::string order = in.Text("order").value_or("begun");
  if (order == "fastest") {
    asked.order = TrialOrder::kFastest;
  } else if (order != "begun") {
    in.AddWordMistake("order", order, "begun, fastest");
  }
  RETURN_IF_ERROR(FoundStatus(found));
  return asked;
}

}  // namespace

absl::StatusOr<v1::RankedPlan> ToWire(const PlanRecord& record) {
  v1::RankedPlan plan;
  plan.set_rank(record.rank);
  plan.set_state(record.state);
  plan.set_plan_digest(record.plan_digest);
  if (!plan.mutable_plan()->ParseFromString(record.plan)) {
    return DamagedInStore("plan of study", record.study_id);
  }
  if (!plan.mutable_estimate()->ParseFromString(record.estimate)) {
    return DamagedInStore("estimate of study", record.study_id);
  }
  return plan;
}

absl::StatusOr<v1::Trial> ToWire(const TrialRecord& record) {
  v1::Trial trial;
  if (!trial.mutable_plan()->ParseFromString(record.plan)) {
    return DamagedInStore("plan of study", record.study_id);
  }
  trial.set_plan_digest(record.plan_digest);
  if (record.outcome) trial.set_outcome(std::string(Word(*record.outcome)));
  if (record.step_time) trial.set_step_time_seconds(record.step_time->count());
  if (record.peak_memory) trial.set_peak_memory_bytes(record.peak_memory->count);
  trial.set_expected_step_time_seconds(record.expected_step_time.count());
  trial.set_success_probability_ratio(record.success_probability);
  trial.set_device_seconds(record.device_time.count());
  if (record.state == TrialState::kEnded) {
    trial.set_failure_class(record.failure_class);
    if (!record.failure_class.empty()) trial.set_failure_message(record.failure_message);
    MaskSecrets(*trial.mutable_failure_message());
  }
  trial.set_purpose(std::string(Word(record.purpose)));
  trial.set_number(record.number);
  trial.set_state(std::string(Word(record.state)));
  trial.set_start_time(WireTime(record.start_time_ms));
  if (record.end_time_ms) trial.set_end_time(WireTime(*record.end_time_ms));
  if (record.measurement_sequence) trial.set_measurement_sequence(*record.measurement_sequence);
  return trial;
}

absl::StatusOr<v1::ListTrialsResponse> ListTrials(const HistoryQueries& history,
                                                  const v1::ListTrialsRequest& request) {
  ASSIGN_OR_RETURN(const AskedTrials asked, ReadRequest(request));
  ASSIGN_OR_RETURN(
      const TrialPage page,
      history.ListTrials(asked.filter, asked.order, request.page_size(), request.page_token()));
  v1::ListTrialsResponse response;
  for (const TrialRecord& trial : page.trials) {
    ASSIGN_OR_RETURN(*response.add_trials(), ToWire(trial));
  }
  response.set_next_page_token(page.next_page_token);
  return response;
}

absl::StatusOr<v1::ListParetoTrialsResponse> ListParetoTrials(
    const HistoryQueries& history, const v1::ListParetoTrialsRequest& request) {
  ASSIGN_OR_RETURN(
      const TrialPage page,
      history.ListParetoTrials(request.study_id(), request.page_size(), request.page_token()));
  v1::ListParetoTrialsResponse response;
  for (const TrialRecord& trial : page.trials) {
    ASSIGN_OR_RETURN(*response.add_trials(), ToWire(trial));
  }
  response.set_next_page_token(page.next_page_token);
  return response;
}

}  // namespace meshwright
