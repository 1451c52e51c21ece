#include "server/changes/answer_once.h"

#include <fmt/format.h>

#include <utility>

#include "search_space/digest/fnv.h"

namespace meshwright {
namespace {

constexpr std::size_t kLongestId = 200;

}  // namespace

absl::StatusOr<CallKey> CallKeyOf(std::string_view method, std::optional<std::string> request_id,
                                  std::string_view bytes) {
  CallKey key = {.method = std::string(method), .time_ms = NowMs()};
  if (!request_id.has_value()) return key;
  if (request_id->empty()) {
    return InvalidFields(
        {{.field = "request_id", .description = "empty; must be absent or an id of the request"}});
  }
  if (request_id->size() > kLongestId) {
    return InvalidFields({{.field = "request_id",
                           .description = fmt::format("{} bytes; must be at most {} bytes",
                                                      request_id->size(), kLongestId)}});
  }
  key.request_id = std::move(request_id);
  key.request_hash = Fnv1a128Hex(bytes);
  return key;
}

}  // namespace meshwright
