#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/history_records.h"
#include "recorder/recorder.h"
#include "search_space/base/units.h"
#include "server/engine/engine_options.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// A measurement of the store as a row of a history.
struct MeasuredRow {
  std::optional<HistoryRow> row = {};  // resolved; absent: nothing is learnt from the measurement
  absl::Status refusal = {};           // says why the row is absent
};

// A question from the store, resolved with today's facts.
struct StoredQuestion {
  Question question = {};
  std::shared_ptr<const Problem> problem = {};
  Seconds floor = Seconds(0);  // no step can be shorter
  absl::Status refusal = {};   // why this program cannot ask it; then the fields above are empty
};
using StoredQuestions = std::map<std::string, StoredQuestion>;  // by digest

// Selects the measurements of a store that calibration may use. Nothing else does, so that answers
// and reports about a history count the same runs. A measurement is refused
// if this program cannot read it, if today's facts refuse its plan or question, or if it claims
// more than the devices' peak allows. Resolves each question once. For one thread; the referents
// outlive it.
class MeasuredRows {
 public:
  // `questions` are those that were resolved before; null: none, and none are kept.
  MeasuredRows(const Recorder& recorder, const Knowledge& knowledge, const StudyCodec& codec,
               StoredQuestions* questions = nullptr)
      : recorder_(recorder),
        knowledge_(knowledge),
        codec_(codec),
        questions_(questions == nullptr ? own_questions_ : *questions) {}
  MeasuredRows(const MeasuredRows&) = delete;
  MeasuredRows& operator=(const MeasuredRows&) = delete;

  // Errors are the store's.
  absl::StatusOr<MeasuredRow> Read(const MeasurementRecord& measurement);

  [[nodiscard]] const Recorder& recorder() const { return recorder_; }

 private:
  static absl::StatusOr<HistoryRow> RowOf(const MeasurementRecord& measurement,
                                          const StoredQuestion& stored);
  absl::StatusOr<const StoredQuestion*> Stored(const std::string& digest);
  [[nodiscard]] StoredQuestion QuestionOf(const QuestionRecord& record) const;

  const Recorder& recorder_;
  const Knowledge& knowledge_;
  const StudyCodec& codec_;
  StoredQuestions own_questions_;
  StoredQuestions& questions_;
};

}  // namespace meshwright
