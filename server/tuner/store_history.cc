#include "server/tuner/store_history.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "search_space/status.h"
#include "server/tuner/checker.h"
#include "server/tuner/drift.h"
#include "server/tuner/fingerprint.h"

namespace meshwright {
namespace {

MeasurementFilter FilterOf(const Problem& problem, std::int64_t up_to_sequence) {
  return {.chip = problem.cluster.pools.front().chip.id,
          .framework = problem.profile.name,
          .sources = {MeasurementSource::kTrial, MeasurementSource::kJobReport,
                      MeasurementSource::kImport},
          .up_to_sequence = up_to_sequence};
}

// A question of the store and what it is today; nothing when this program cannot ask it.
struct StoredQuestion {
  Question question = {};
  Problem problem = {};
  Seconds floor = Seconds(0);  // no step is shorter
};

class Reader {
 public:
  Reader(const Recorder& recorder, const Knowledge& knowledge, const StudyCodec& codec)
      : recorder_(recorder), knowledge_(knowledge), codec_(codec) {}

  absl::Status Add(const MeasurementFilter& filter) {
    ASSIGN_OR_RETURN(
        const MeasurementPage page,
        recorder_.ListMeasurements(filter, MeasurementOrder::kNewest, kMostStoreRows, ""));
    for (const MeasurementRecord& measurement : page.measurements) {
      if (std::ssize(seen_) == kMostStoreRows) break;
      if (!seen_.insert(measurement.sequence).second) continue;
      RETURN_IF_ERROR(AddRow(measurement));
    }
    return absl::OkStatus();
  }

  StoreHistory Take() { return std::move(history_); }

 private:
  absl::Status AddRow(const MeasurementRecord& measurement) {
    ASSIGN_OR_RETURN(const StoredQuestion* stored, Stored(measurement.question.digest));
    const std::optional<ParallelPlan> plan = ParsePlanKey(measurement.plan_key);
    const bool makes_sense = stored != nullptr && plan.has_value() &&
                             measurement.step_time.value_or(stored->floor) >= stored->floor &&
                             ResolvePlan(StatedPlan(*plan), stored->problem, "plan").ok();
    if (!makes_sense) {
      ++history_.senseless_count;
      return absl::OkStatus();
    }
    history_.rows.push_back({.question = stored->question,
                             .plan = StatedPlan(*plan),
                             .outcome = measurement.outcome,
                             .step_time = measurement.step_time,
                             .peak_memory = measurement.peak_memory,
                             .measurement_id = measurement.id});
    return absl::OkStatus();
  }

  absl::StatusOr<const StoredQuestion*> Stored(const std::string& digest) {
    const auto [place, is_new] = questions_.try_emplace(digest);
    std::optional<StoredQuestion>& stored = place->second;
    if (is_new) {
      ASSIGN_OR_RETURN(const QuestionRecord record, recorder_.GetQuestion(digest));
      absl::StatusOr<Question> question = codec_.decode_question(record.question);
      absl::StatusOr<Problem> problem =
          question.ok() ? ResolveProblem(*question, knowledge_) : question.status();
      if (problem.ok()) {
        stored = {.question = *std::move(question), .problem = *std::move(problem)};
        stored->floor = LeastStep(stored->problem);
      }
    }
    return stored.has_value() ? &*stored : nullptr;
  }

  const Recorder& recorder_;
  const Knowledge& knowledge_;
  const StudyCodec& codec_;
  StoreHistory history_;
  std::set<std::int64_t> seen_;
  std::map<std::string, std::optional<StoredQuestion>> questions_;
};

}  // namespace

absl::StatusOr<StoreHistory> ReadStoreHistory(const Recorder& recorder, const Problem& problem,
                                              const Knowledge& knowledge, const StudyCodec& codec,
                                              std::int64_t up_to_sequence) {
  if (up_to_sequence == 0) return StoreHistory();
  Reader reader(recorder, knowledge, codec);
  MeasurementFilter filter = FilterOf(problem, up_to_sequence);
  filter.job_fingerprint = JobFingerprint(problem);
  RETURN_IF_ERROR(reader.Add(filter));
  filter.job_fingerprint.reset();
  RETURN_IF_ERROR(reader.Add(filter));
  return reader.Take();
}

absl::StatusOr<RequestWithHistory> AddStoreHistory(const Recorder& recorder, StudyRequest request,
                                                   const Knowledge& knowledge,
                                                   const StudyCodec& codec) {
  ASSIGN_OR_RETURN(const Problem problem, ResolveProblem(request.question, knowledge));
  ASSIGN_OR_RETURN(const std::int64_t last, recorder.LastMeasurementSequence());
  const std::int64_t sequence = std::min(last, request.history_sequence.value_or(last));
  ASSIGN_OR_RETURN(StoreHistory history,
                   ReadStoreHistory(recorder, problem, knowledge, codec, sequence));
  request.history_sequence = sequence;
  ASSIGN_OR_RETURN(std::optional<std::string> drift,
                   DriftWarning(recorder, problem.cluster.pools.front().chip.id,
                                problem.profile.name, sequence));
  if (drift.has_value()) request.history_warnings.push_back(*std::move(drift));
  std::ranges::move(history.rows, std::back_inserter(request.history));
  return RequestWithHistory{.request = std::move(request),
                            .senseless_count = history.senseless_count};
}

}  // namespace meshwright
