#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "recorder/recorder.h"
#include "server/tuner/study_codec.h"

namespace meshwright {

struct StoreHistory {
  std::vector<HistoryRow> rows = {};
  // Measurements that were left out: this program cannot read them, or they claim more than the
  // devices' peak allows.
  int senseless_count = 0;
};

// The store's measurements, up to a number, that the question's answer may be calibrated by: those
// on its chip under its framework, of its own job first and then the newest, kMostStoreRows
// altogether. What a measured table that stands in for a cluster has given is not among them.
// Measurements are never changed, so that the same number gives the same rows at any time.
absl::StatusOr<StoreHistory> ReadStoreHistory(const Recorder& recorder, const Problem& problem,
                                              const Knowledge& knowledge, const StudyCodec& codec,
                                              std::int64_t up_to_sequence);

// The request with these rows, and in history_sequence up to which number they are: the last, or
// the one that the request states, if it is lower. history_warnings gains the drift of the chip.
struct RequestWithHistory {
  StudyRequest request = {};
  int senseless_count = 0;
};
absl::StatusOr<RequestWithHistory> AddStoreHistory(const Recorder& recorder, StudyRequest request,
                                                   const Knowledge& knowledge,
                                                   const StudyCodec& codec);

// The model prices each row: so many take about a tenth of a second. Of times and memory, 128 are
// learnt from (estimator/run_residuals.cc); failures count all.
inline constexpr int kMostStoreRows = 1000;

}  // namespace meshwright
