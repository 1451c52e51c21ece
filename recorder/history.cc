// stubs
#include "recorder/recorder.h"

namespace meshwright {
namespace {
absl::Status NotYet() { return absl::UnimplementedError("not yet"); }
}  // namespace
absl::StatusOr<DeletedEstimates> Recorder::DeleteEstimates(std::int64_t) { return NotYet(); }
absl::Status Recorder::Export(const MeasurementFilter&, const LineSink&) const { return NotYet(); }
absl::StatusOr<ImportCounts> Recorder::Import(const LineSource&, const ImportOptions&) {
  return NotYet();
}
std::vector<absl::Status> Recorder::RunTogether(std::span<const StoreCall> calls) {
  return {calls.size(), NotYet()};
}
}  // namespace meshwright
