#include "server/convert/study_wire.h"

#include <optional>
#include <utility>
#include <vector>

#include "recorder/recorder.h"
#include "search_space/base/status.h"
#include "server/convert/convert.h"
#include "server/convert/message_reader.h"
#include "server/convert/status_wire.h"
#include "server/convert/trial_wire.h"
#include "server/convert/wire_time.h"
#include "server/engine/journal_events.h"

namespace meshwright {
namespace {

absl::StatusOr<StudyFilter> ReadFilter(const v1::ListStudiesRequest& request) {
  if (!request.has_filter()) return StudyFilter();
  std::vector<FieldViolation> found;
  const MessageReader in(request.filter(), "filter", found);
  StudyFilter filter = {.state = in.Choice<StudyState>("state"),
                        .outcome = in.Text("outcome"),
                        .text = in.Text("text")};
  if (!found.empty()) return InvalidFields(found);
  return filter;
}

}  // namespace

v1::Study AsStored(const StudyRecord& study) { return ToWire(study); }

absl::StatusOr<v1::ListStudiesResponse> ListStudies(const HistoryQueries& history,
                                                    const v1::ListStudiesRequest& request,
                                                    const ShowStudy& show) {
  ASSIGN_OR_RETURN(const StudyFilter filter, ReadFilter(request));
  ASSIGN_OR_RETURN(const StudyPage page,
                   history.ListStudies(request.page_size(), request.page_token(), filter));
  v1::ListStudiesResponse response;
  for (const StudyRecord& study : page.studies) *response.add_studies() = show(study);
  response.set_next_page_token(page.next_page_token);
  return response;
}

absl::StatusOr<v1::GetStudyResponse> GetStudy(const HistoryQueries& history, const std::string& id,
                                              const ShowStudy& show) {
  ASSIGN_OR_RETURN(const StudyRecord study, history.GetStudy(id));
  v1::GetStudyResponse response;
  *response.mutable_study() = show(study);
  if (!response.mutable_question()->ParseFromString(study.question)) {
    return DamagedInStore("question of study", id);
  }
  if (study.result.has_value()) RETURN_IF_ERROR(FillAnswer(*study.result, response));
  return response;
}

absl::StatusOr<v1::ListPlansResponse> ListPlans(const HistoryQueries& history,
                                                const v1::ListPlansRequest& request) {
  ASSIGN_OR_RETURN(const PlanPage page, history.ListPlans(request.study_id(), request.page_size(),
                                                          request.page_token()));
  return ToWire(page);
}

v1::WatchStudyResponse ToWire(const EventRecord& event) {
  v1::WatchStudyResponse message;
  message.set_revision(event.revision);
  message.set_time(WireTime(event.time_ms));
  message.set_kind(event.kind);
  if (event.kind == kStateEventKind) message.set_state(event.payload);
  if (event.kind == kProgressEventKind) message.mutable_progress()->ParseFromString(event.payload);
  return message;
}

}  // namespace meshwright
