#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "meshwright/v1/catalog.pb.h"
#include "meshwright/v1/history.pb.h"
#include "meshwright/v1/placement.pb.h"
#include "meshwright/v1/service.pb.h"

namespace meshwright {

// The longest time that a call may take, and a token that cancels it.
struct CallOptions {
  std::optional<std::chrono::milliseconds> timeout = {};  // absent: none (Recommend: the server's)
  std::stop_token cancel = {};
};

// A client shows who it is, and knows the server by its authority. Certificates and keys are texts
// in PEM.
struct ClientIdentity {
  std::string token = {};        // empty: none
  std::string authority = {};    // that signs the server's certificate; empty: no TLS
  std::string certificate = {};  // its own; empty: none
  std::string private_key = {};
};

// Called with each event. Returns true to go on watching.
using WatchSink = std::function<bool(const v1::WatchStudyResponse&)>;

// Called with each part of an export. A part may end anywhere.
using PartSink = std::function<absl::Status(const std::string& part)>;
using PartSource = std::function<std::string()>;  // the next part; empty at the end

// A thin client of a running server. It blocks and may be used from several threads. Its errors are
// those of an embedded engine: code, message, reason and field violations
// (search_space/base/status.h), and InfeasibleOf (server/convert/status_wire.h) if nothing fits.
class Client {
 public:
  // Connects to "127.0.0.1:50551" or "unix:/path". Returns UNAVAILABLE, which names the address, if
  // no server answers there within `timeout`.
  static absl::StatusOr<Client> Connect(
      const std::string& address, std::chrono::milliseconds timeout = std::chrono::seconds(2));
  // The same with a token or over TLS.
  static absl::StatusOr<Client> Connect(
      const std::string& address, const ClientIdentity& identity,
      std::chrono::milliseconds timeout = std::chrono::seconds(2));
  ~Client();
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;

  absl::StatusOr<v1::RecommendResponse> Recommend(const v1::RecommendRequest& request,
                                                  const CallOptions& options = {});
  // Evaluates any number of cases. They are sent in parts, and the answers come in the order of the
  // cases.
  absl::StatusOr<v1::EvaluatePlansResponse> EvaluatePlans(const v1::EvaluatePlansRequest& request,
                                                          const CallOptions& options = {});

  absl::StatusOr<v1::ExplainPlanResponse> ExplainPlan(const v1::ExplainPlanRequest& request,
                                                      const CallOptions& options = {});
  absl::StatusOr<v1::SweepResponse> Sweep(const v1::SweepRequest& request,
                                          const CallOptions& options = {});

  absl::StatusOr<v1::PlaceJobsResponse> PlaceJobs(const v1::PlaceJobsRequest& request,
                                                  const CallOptions& options = {});

  absl::StatusOr<v1::CreateStudyResponse> CreateStudy(const v1::CreateStudyRequest& request);
  absl::StatusOr<v1::GetStudyResponse> GetStudy(const std::string& study_id);
  absl::StatusOr<v1::ListStudiesResponse> ListStudies(const v1::ListStudiesRequest& request);
  absl::StatusOr<v1::CancelStudyResponse> CancelStudy(const std::string& study_id);
  absl::StatusOr<v1::CancelStudyResponse> CancelStudy(const v1::CancelStudyRequest& request);
  absl::StatusOr<v1::PauseStudyResponse> PauseStudy(const std::string& study_id);
  absl::StatusOr<v1::PauseStudyResponse> PauseStudy(const v1::PauseStudyRequest& request);
  absl::StatusOr<v1::ResumeStudyResponse> ResumeStudy(const std::string& study_id);
  absl::StatusOr<v1::ResumeStudyResponse> ResumeStudy(const v1::ResumeStudyRequest& request);
  absl::StatusOr<v1::DeleteStudyResponse> DeleteStudy(const v1::DeleteStudyRequest& request);
  absl::StatusOr<v1::RetryTrialsResponse> RetryTrials(const v1::RetryTrialsRequest& request);
  absl::StatusOr<v1::UpdateStudyResponse> UpdateStudy(const v1::UpdateStudyRequest& request);
  absl::StatusOr<v1::ListPlansResponse> ListPlans(const v1::ListPlansRequest& request);
  absl::StatusOr<v1::GetPlanResponse> GetPlan(const v1::GetPlanRequest& request);
  absl::StatusOr<v1::ComparePlansResponse> ComparePlans(const v1::ComparePlansRequest& request,
                                                        const CallOptions& options = {});
  absl::StatusOr<v1::ComparePlansResponse> CompareStudyPlans(
      const v1::CompareStudyPlansRequest& request, const CallOptions& options = {});
  absl::StatusOr<v1::GetTrialResponse> GetTrial(const v1::GetTrialRequest& request);
  absl::StatusOr<v1::ListParetoTrialsResponse> ListParetoTrials(
      const v1::ListParetoTrialsRequest& request);
  absl::StatusOr<v1::GetTrialLogsResponse> GetTrialLogs(const v1::GetTrialLogsRequest& request);
  absl::StatusOr<v1::ListTrialsResponse> ListTrials(const v1::ListTrialsRequest& request);
  absl::StatusOr<v1::ListAttemptsResponse> ListAttempts(const v1::ListAttemptsRequest& request);
  // Calls `sink` with each event until the study ends, `sink` returns false or the call fails.
  absl::Status WatchStudy(const v1::WatchStudyRequest& request, const WatchSink& sink,
                          const CallOptions& options = {});

  absl::StatusOr<v1::CreateJobReportResponse> CreateJobReport(
      const v1::CreateJobReportRequest& request);
  absl::StatusOr<v1::BatchCreateJobReportsResponse> BatchCreateJobReports(
      const v1::BatchCreateJobReportsRequest& request);
  absl::StatusOr<v1::ListJobReportsResponse> ListJobReports(
      const v1::ListJobReportsRequest& request);

  absl::StatusOr<v1::ListMeasurementsResponse> ListMeasurements(
      const v1::ListMeasurementsRequest& request);
  absl::StatusOr<v1::GetMeasurementResponse> GetMeasurement(const std::string& id);
  absl::StatusOr<v1::RetractMeasurementResponse> RetractMeasurement(
      const v1::RetractMeasurementRequest& request);
  absl::StatusOr<v1::ListCalibrationsResponse> ListCalibrations(
      const v1::ListCalibrationsRequest& request);
  absl::StatusOr<v1::GetCalibrationResponse> GetCalibration(const std::string& id);
  // Calls `sink` with each part until all have arrived. If `sink` fails, returns its error.
  absl::Status ExportHistory(const v1::ExportHistoryRequest& request, const PartSink& sink);
  // Sends the lines that `source` returns. `options` has no lines of its own.
  absl::StatusOr<v1::ImportHistoryResponse> ImportHistory(const v1::ImportHistoryRequest& options,
                                                          const PartSource& source);
  absl::StatusOr<v1::BackupStoreResponse> BackupStore();
  absl::StatusOr<v1::ListAuditEventsResponse> ListAuditEvents(
      const v1::ListAuditEventsRequest& request);

  absl::StatusOr<v1::ListChipsResponse> ListChips();
  absl::StatusOr<v1::GetChipResponse> GetChip(const std::string& id);
  absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo();
  absl::StatusOr<v1::ListCallersResponse> ListCallers();
  absl::StatusOr<v1::ListCostModelsResponse> ListCostModels();

 private:
  struct Stubs;
  explicit Client(std::unique_ptr<Stubs> stubs);
  std::unique_ptr<Stubs> stubs_;
};

}  // namespace meshwright
