#pragma once

#include <string>

#include "recorder/history_records.h"
#include "server/engine/engine_options.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"

namespace meshwright {

// Returns the row under which the store files the results of a question. `problem` is the resolved
// question.
QuestionRecord QuestionRecordOf(const Question& question, const Problem& problem,
                                const StudyCodec& codec);

// Returns a unique id. `origin` is the attempt of a trial, or other text that makes the measurement
// unique.
std::string MeasurementId(const MeasurementRecord& measurement, std::string_view origin);

// Returns the part of a calibration that the store keeps.
CalibrationRecord CalibrationRecordOf(const CalibrationReport& report, const StudyCodec& codec,
                                      std::int64_t time_ms);

}  // namespace meshwright
