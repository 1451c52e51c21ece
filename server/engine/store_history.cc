#include "server/engine/store_history.h"

#include <fmt/format.h>

#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "recorder/history_records.h"
#include "recorder/page_token.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/run_limits.h"
#include "server/engine/drift.h"
#include "server/tuner/question/checker.h"
#include "server/tuner/question/fingerprint.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_run.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {
namespace {

MeasurementFilter FilterOf(const Problem& problem, std::int64_t up_to_sequence) {
  return {.chip = problem.cluster.pools.front().chip.id,
          .framework = problem.profile.name,
          .sources = {MeasurementSource::kTrial, MeasurementSource::kJobReport,
                      MeasurementSource::kImport},
          .up_to_sequence = up_to_sequence};
}

// A question from the store, resolved with today's facts.
struct StoredQuestion {
  Question question = {};
  std::shared_ptr<const Problem> problem = {};
  Seconds floor = Seconds(0);  // no step can be shorter
  absl::Status refusal = {};   // why this program cannot ask it; then the fields above are empty
};

absl::StatusOr<HistoryRow> RowOf(const MeasurementRecord& measurement,
                                 const StoredQuestion& stored) {
  RETURN_IF_ERROR(stored.refusal);
  const std::optional<ParallelPlan> plan = ParsePlanKey(measurement.plan_key);
  if (!plan.has_value()) {
    return absl::DataLossError(fmt::format("plan = {}; cannot be read", measurement.plan_key));
  }
  if (measurement.step_time.has_value()) {
    const auto mistake = StepTimeMistake(*measurement.step_time, stored.floor);
    if (mistake.has_value()) return absl::OutOfRangeError("step_time_seconds = " + *mistake);
  }
  ASSIGN_OR_RETURN(ResolvedPlan resolved, ResolvePlan(StatedPlan(*plan), *stored.problem, "plan"));
  return HistoryRow{
      .question = stored.question,
      .plan = StatedPlan(*plan),
      .outcome = measurement.outcome,
      .step_time = measurement.step_time,
      .peak_memory = measurement.peak_memory,
      .measurement_id = measurement.id,
      .resolved = ResolvedJob{.problem = stored.problem, .plan = std::move(resolved.plan)}};
}

class Reader {
 public:
  Reader(const Recorder& recorder, const Knowledge& knowledge, const StudyCodec& codec,
         const ChipSpec& chip)
      : recorder_(recorder),
        knowledge_(knowledge),
        codec_(codec),
        chip_(chip.id),
        chip_fingerprint_(ChipFingerprint(chip)) {}

  absl::Status Add(const MeasurementFilter& filter) {
    std::string page_token;
    do {
      ASSIGN_OR_RETURN(
          const MeasurementPage page,
          recorder_.ListMeasurements(filter, MeasurementOrder::kNewest, kMaxPageSize, page_token));
      for (const MeasurementRecord& measurement : page.measurements) {
        if (IsFull()) return absl::OkStatus();
        if (!seen_.insert(measurement.sequence).second) continue;
        RETURN_IF_ERROR(AddRow(measurement));
      }
      page_token = page.next_page_token;
    } while (!page_token.empty());
    return absl::OkStatus();
  }

  StoreHistory Take() {
    if (left_out_count_ > 0) {
      history_.warnings.push_back(
          fmt::format("{} of the store's measurements were left out, because they cannot be read "
                      "or are impossible; the first is {}: {}",
                      left_out_count_, first_left_out_, std::string(why_.message())));
    }
    if (other_figures_count_ > 0) {
      history_.warnings.push_back(
          fmt::format("{} of the store's measurements were stored under other figures of {} than "
                      "this program has: they are compared with today's figures and count like the "
                      "others",
                      other_figures_count_, chip_));
    }
    return std::move(history_);
  }

 private:
  [[nodiscard]] bool IsFull() const {
    return std::ssize(history_.rows) == kMostStoreRows || std::ssize(seen_) == kMostStoreRowsRead;
  }

  absl::Status AddRow(const MeasurementRecord& measurement) {
    ASSIGN_OR_RETURN(const StoredQuestion* stored, Stored(measurement.question.digest));
    absl::StatusOr<HistoryRow> row = RowOf(measurement, *stored);
    if (row.ok()) {
      history_.rows.push_back(*std::move(row));
      const bool is_same = measurement.question.chip_fingerprint == chip_fingerprint_;
      other_figures_count_ += is_same ? 0 : 1;
    } else if (++left_out_count_ == 1) {
      first_left_out_ = measurement.id;
      why_ = row.status();
    }
    return absl::OkStatus();
  }

  absl::StatusOr<const StoredQuestion*> Stored(const std::string& digest) {
    const auto [place, is_new] = questions_.try_emplace(digest);
    if (is_new) {
      ASSIGN_OR_RETURN(const QuestionRecord record, recorder_.GetQuestion(digest));
      place->second = Read(record);
    }
    return &place->second;
  }

  [[nodiscard]] StoredQuestion Read(const QuestionRecord& record) const {
    absl::StatusOr<Question> question = codec_.decode_question(record.question);
    if (!question.ok()) return {.refusal = question.status()};
    absl::StatusOr<Problem> problem = ResolveProblem(*question, knowledge_);
    if (!problem.ok()) return {.refusal = problem.status()};
    const Seconds floor = LeastStep(*problem);
    return {.question = *std::move(question),
            .problem = std::make_shared<const Problem>(*std::move(problem)),
            .floor = floor};
  }

  const Recorder& recorder_;
  const Knowledge& knowledge_;
  const StudyCodec& codec_;
  const std::string chip_;
  const std::string chip_fingerprint_;
  StoreHistory history_;
  int other_figures_count_ = 0;
  int left_out_count_ = 0;
  std::string first_left_out_;
  absl::Status why_;
  std::set<std::int64_t> seen_;
  std::map<std::string, StoredQuestion> questions_;
};

}  // namespace

absl::StatusOr<StoreHistory> ReadStoreHistory(const Recorder& recorder, const Problem& problem,
                                              const Knowledge& knowledge, const StudyCodec& codec,
                                              std::int64_t up_to_sequence) {
  if (up_to_sequence == 0) return StoreHistory();
  Reader reader(recorder, knowledge, codec, problem.cluster.pools.front().chip);
  MeasurementFilter filter = FilterOf(problem, up_to_sequence);
  filter.job_fingerprint = JobFingerprint(problem);
  RETURN_IF_ERROR(reader.Add(filter));
  filter.job_fingerprint.reset();
  RETURN_IF_ERROR(reader.Add(filter));
  StoreHistory history = reader.Take();
  ASSIGN_OR_RETURN(std::optional<std::string> drift,
                   DriftWarning(recorder, *filter.chip, *filter.framework, up_to_sequence));
  if (drift.has_value()) history.warnings.push_back(*std::move(drift));
  return history;
}

}  // namespace meshwright
