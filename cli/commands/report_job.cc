#include "cli/commands/report_job.h"

#include <optional>

#include "cli/local/local_history.h"
#include "cli/source/connection.h"
#include "recorder/recorder.h"
#include "recorder/store_access.h"
#include "search_space/base/status.h"
#include "server/convert/job_report_wire.h"
#include "server/engine/wall_clock.h"
#include "server/rpc/client/client.h"
#include "server/tuner/question/knowledge.h"

namespace meshwright {
namespace {

// Answers a request here or at the server. A request whose JSON has mistakes is sent nowhere.
template <typename Response, typename Request>
absl::StatusOr<Response> Keep(const Parsed<Request>& asked, const GlobalFlags& flags,
                              const std::string& who,
                              absl::StatusOr<Response> (Client::*served)(const Request&),
                              absl::StatusOr<Response> (*embedded)(const Request&,
                                                                   const ReportContext&)) {
  if (!flags.server.empty() && asked.violations.empty()) {
    ASSIGN_OR_RETURN(Client client, ConnectTo(flags));
    return (client.*served)(asked.message);
  }
  ASSIGN_OR_RETURN(const Knowledge knowledge, LoadKnowledge(flags.chips));
  if (!asked.violations.empty()) return ReportMistakes(asked.message, knowledge, asked.violations);
  // The store is opened at its first use, so that a wrong report does not leave a new store behind.
  std::optional<Recorder> store;
  const auto open = [&]() -> absl::StatusOr<StoreAccess> {
    if (!store.has_value()) {
      ASSIGN_OR_RETURN(store, OpenLocalWriter(flags.store, who));
    }
    return DirectAccess(*store);
  };
  const StoreAccess access = {.read = [&](const StoreRead& read) -> absl::Status {
                                ASSIGN_OR_RETURN(const StoreAccess opened, open());
                                return opened.read(read);
                              },
                              .write = [&](const StoreCall& call) -> absl::Status {
                                ASSIGN_OR_RETURN(const StoreAccess opened, open());
                                return opened.write(call);
                              }};
  return embedded(asked.message, {.knowledge = knowledge, .store = access, .time_ms = NowMs()});
}

}  // namespace

absl::StatusOr<v1::CreateJobReportResponse> KeepReport(
    const Parsed<v1::CreateJobReportRequest>& asked, const GlobalFlags& flags,
    const std::string& who) {
  return Keep(asked, flags, who, &Client::CreateJobReport, CreateJobReport);
}

absl::StatusOr<v1::BatchCreateJobReportsResponse> KeepReports(
    const Parsed<v1::BatchCreateJobReportsRequest>& asked, const GlobalFlags& flags,
    const std::string& who) {
  return Keep(asked, flags, who, &Client::BatchCreateJobReports, BatchCreateJobReports);
}

}  // namespace meshwright
