#pragma once

#include <string>

#include "recorder/history_records.h"
#include "server/engine/study_codec.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"

namespace meshwright {

// Returns the row under which the store files results of a question; `problem` is the resolved one.
QuestionRecord QuestionRecordOf(const Question& question, const Problem& problem,
                                const StudyCodec& codec);

// Returns an id of its own. `origin` is the attempt of a trial, else what tells it from others.
std::string MeasurementId(const MeasurementRecord& measurement, std::string_view origin);

// Returns what the store keeps of a calibration.
CalibrationRecord CalibrationRecordOf(const CalibrationReport& report, const StudyCodec& codec,
                                      std::int64_t time_ms);

}  // namespace meshwright
