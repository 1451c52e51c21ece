#include "server/http/watch_events.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "proto/json/json.h"
#include "recorder/records.h"
#include "search_space/base/status.h"
#include "server/convert/study_wire.h"
#include "server/engine/journal_events.h"

namespace meshwright {
namespace {

constexpr char kEndEvent[] = "event: end\ndata: {}\n\n";

std::string TextOf(const EventRecord& event) {
  return fmt::format("id: {}\ndata: {}\n\n", event.revision, PrintJson(ToWire(event), {}));
}

}  // namespace

absl::StatusOr<OpenEvents> WatchEvents(const ReadFace& face, const v1::WatchStudyRequest& asked) {
  ASSIGN_OR_RETURN(const StudyRecord study, face.history.GetStudy(asked.study_id()));
  const bool has_seen_all = IsTerminal(study.state) && asked.after_revision() >= study.revision;
  return OpenEvents([&face, asked, has_seen_all](
                        const std::shared_ptr<EventWriter>& writer) -> std::function<void()> {
    auto has_ended = std::make_shared<std::atomic<bool>>(has_seen_all);
    const auto subscription =
        face.feed.subscribe(asked.study_id(), asked.after_revision(),
                            [writer, has_ended](const std::optional<EventRecord>& event) {
                              if (event.has_value()) {
                                if (event->kind == kStateEventKind) *has_ended = EndsStudy(*event);
                                writer->Write(TextOf(*event));
                                return;
                              }
                              // Without the study's last event, the server stops: browsers come
                              // back and find the next.
                              if (*has_ended) writer->Write(kEndEvent);
                              writer->End();
                            });
    if (!subscription.ok()) {
      writer->End();
      return {};
    }
    return [&face, id = *subscription] { face.feed.unsubscribe(id); };
  });
}

}  // namespace meshwright
