#pragma once

#include <string>

#include "recorder/history_records.h"
#include "server/engine/study_codec.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"

namespace meshwright {

// What the store files results of a question under. `problem` is what the question resolves to.
QuestionRecord QuestionRecordOf(const Question& question, const Problem& problem,
                                const StudyCodec& codec);

// An id of its own: of a trial's end by its attempt, else by whatever tells it from others.
std::string MeasurementId(const MeasurementRecord& measurement, std::string_view origin);

// What the store keeps of a calibration.
CalibrationRecord CalibrationRecordOf(const CalibrationReport& report, const StudyCodec& codec,
                                      std::int64_t time_ms);

}  // namespace meshwright
