#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "absl/status/statusor.h"
#include "meshwright/v1/catalog.pb.h"
#include "server/convert/study_wire.h"
#include "server/engine/history_queries.h"
#include "server/engine/journal_events.h"
#include "server/tuner/question/knowledge.h"

namespace meshwright {

// The journals of studies, as Engine and Followers offer them.
struct EventFeed {
  // Calls the sink with all events after a revision, then with each new one, and once with nullopt.
  std::function<absl::StatusOr<std::int64_t>(std::string_view study_id, std::int64_t after_revision,
                                             EventSink sink)>
      subscribe = {};
  std::function<void(std::int64_t subscription)> unsubscribe = {};
};

// The part of the server that the pages and their API read. It outlives the server; all of it may
// be used from any thread.
struct ReadFace {
  const Knowledge& knowledge;
  const HistoryQueries history;
  const EventFeed feed;
  const std::function<v1::GetServerInfoResponse()> server_info;
  const std::function<v1::ListCostModelsResponse()> list_cost_models = {};  // null: there are none
  const ShowStudy show = AsStored;
};

}  // namespace meshwright
