#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "recorder/recorder.h"
#include "server/engine/study_codec.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// Returns the store's measurements, up to a number, that may calibrate the question's answer: those
// on its chip under its framework, of its own job first and then the newest, kMostStoreRows
// altogether. Measurements of a table that stands in for a cluster are not among them. Measurements
// are never changed, so that the same number gives the same rows at any time. A measurement is left
// out, and a warning says so, if this program cannot read it, if today's facts refuse its plan or
// question, or if it claims more than the devices' peak allows. Another warning is of the drift of
// the chip.
absl::StatusOr<StoreHistory> ReadStoreHistory(const Recorder& recorder, const Problem& problem,
                                              const Knowledge& knowledge, const StudyCodec& codec,
                                              std::int64_t up_to_sequence);

// The most rows that are learnt from. The model prices each: all take about a tenth of a second.
// Times and memory of 128 count (estimator/learning/run_residuals.cc), and all failures.
inline constexpr int kMostStoreRows = 1000;

// The most rows that are looked at, to find these among rows that are left out.
inline constexpr int kMostStoreRowsRead = 5000;

}  // namespace meshwright
