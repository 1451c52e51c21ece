#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/call_records.h"
#include "recorder/recorder.h"
#include "recorder/store_access.h"
#include "search_space/base/status.h"
#include "server/convert/convert.h"
#include "server/engine/wall_clock.h"

namespace meshwright {

// Returns the key of a call whose first answer is kept. `bytes` is the whole request.
// INVALID_ARGUMENT for a request_id that is empty or longer than 200 bytes.
absl::StatusOr<CallKey> CallKeyOf(std::string_view method, std::optional<std::string> request_id,
                                  std::string_view bytes);

template <typename Request>
absl::StatusOr<CallKey> CallKeyOf(std::string_view method, const Request& request) {
  return CallKeyOf(method,
                   request.has_request_id() ? std::optional(request.request_id()) : std::nullopt,
                   StableBytes(request));
}

// Reads an answer that was kept as bytes.
template <typename Response>
absl::StatusOr<Response> ParseAnswer(const absl::StatusOr<std::string>& answer) {
  if (!answer.ok()) return answer.status();
  Response response;
  if (response.ParseFromString(*answer)) return response;
  return absl::DataLossError("the first answer to this request_id cannot be read");
}

// Returns what `work` returns, a StatusOr of a response, or its first answer to the same call.
// `work` is idempotent and stores its own changes: a call that is repeated after the process was
// killed between the two runs it once more, since nobody has had its first answer. Errors are not
// kept.
template <typename Response, typename Work>
absl::StatusOr<Response> AnswerOnce(const StoreAccess& store, const CallKey& key,
                                    const Work& work) {
  if (!key.request_id.has_value()) return work();
  ASSIGN_OR_RETURN(const auto kept, ReadFrom(store, [&key](const Recorder& recorder) {
                     return recorder.FirstAnswer(key);
                   }));
  if (kept.has_value()) return ParseAnswer<Response>(*kept);
  ASSIGN_OR_RETURN(const Response response, work());
  return ParseAnswer<Response>(WriteTo(store, [&](Recorder& recorder) {
    return recorder.AnswerOnce(
        key, [&]() -> absl::StatusOr<std::string> { return StableBytes(response); });
  }));
}

}  // namespace meshwright
