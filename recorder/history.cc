// stubs
#include "recorder/recorder.h"

namespace meshwright {
namespace {
absl::Status NotYet() { return absl::UnimplementedError("not yet"); }
}  // namespace
absl::StatusOr<std::int64_t> Recorder::SetStudyHistory(std::string_view, std::int64_t) { return NotYet(); }
absl::StatusOr<BegunTrial> Recorder::BeginTrial(const TrialIntent&) { return NotYet(); }
absl::StatusOr<AttemptRecord> Recorder::AddAttempt(const AttemptIntent&) { return NotYet(); }
absl::StatusOr<AttemptRecord> Recorder::UpdateAttempt(const AttemptUpdate&) { return NotYet(); }
absl::StatusOr<AttemptRecord> Recorder::FinishAttempt(const AttemptEnding&) { return NotYet(); }
absl::StatusOr<EndedTrial> Recorder::FinishTrial(const TrialEnding&) { return NotYet(); }
absl::StatusOr<TrialPage> Recorder::ListTrials(const TrialFilter&, TrialOrder, int, std::string_view) const { return NotYet(); }
absl::StatusOr<std::vector<AttemptRecord>> Recorder::ListAttempts(std::string_view, int) const { return NotYet(); }
absl::StatusOr<std::vector<InsertedMeasurement>> Recorder::InsertMeasurements(std::span<const MeasurementRecord>) { return NotYet(); }
absl::StatusOr<MeasurementRecord> Recorder::GetMeasurement(std::string_view) const { return NotYet(); }
absl::StatusOr<MeasurementPage> Recorder::ListMeasurements(const MeasurementFilter&, MeasurementOrder, int, std::string_view) const { return NotYet(); }
absl::StatusOr<std::int64_t> Recorder::LastMeasurementSequence() const { return NotYet(); }
absl::StatusOr<QuestionRecord> Recorder::GetQuestion(std::string_view) const { return NotYet(); }
absl::StatusOr<ClusterPage> Recorder::ListClusters(int, std::string_view) const { return NotYet(); }
absl::StatusOr<ChipPage> Recorder::ListChips(int, std::string_view) const { return NotYet(); }
absl::Status Recorder::InsertCalibration(const CalibrationRecord&) { return NotYet(); }
absl::StatusOr<CalibrationRecord> Recorder::GetCalibration(std::string_view) const { return NotYet(); }
absl::StatusOr<CalibrationPage> Recorder::ListCalibrations(const std::optional<std::string>&, int, std::string_view) const { return NotYet(); }
absl::StatusOr<DeletedEstimates> Recorder::DeleteEstimates(std::int64_t) { return NotYet(); }
absl::Status Recorder::Export(const MeasurementFilter&, const LineSink&) const { return NotYet(); }
absl::StatusOr<ImportCounts> Recorder::Import(const LineSource&, const ImportOptions&) { return NotYet(); }
std::vector<absl::Status> Recorder::RunTogether(std::span<const StoreCall> calls) { return {calls.size(), NotYet()}; }
}  // namespace meshwright
