#include "server/convert/wire_time.h"

#include <fmt/chrono.h>

#include <chrono>
#include <ctime>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "search_space/base/clean_text.h"

namespace meshwright {

std::string WireTime(std::int64_t unix_milliseconds) {
  const std::chrono::sys_time<std::chrono::milliseconds> time{
      std::chrono::milliseconds(unix_milliseconds)};
  const auto second = std::chrono::floor<std::chrono::seconds>(time);
  return fmt::format("{:%FT%T}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(second)),
                     (time - second).count());
}

std::string WireTimeNow() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return WireTime(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

std::optional<std::int64_t> ParseWireTime(std::string_view text) {
  const absl::string_view stated(text.data(), text.size());
  absl::Time time;
  const bool is_read = absl::ParseTime(absl::RFC3339_full, stated, &time, nullptr) ||
                       absl::ParseTime("%Y-%m-%d", stated, &time, nullptr);
  if (!is_read || time == absl::InfiniteFuture() || time == absl::InfinitePast()) {
    return std::nullopt;
  }
  return absl::ToUnixMillis(time);
}

std::optional<std::int64_t> ReadTime(const MessageReader& in, std::string_view field) {
  const auto text = in.Text(field);
  if (!text.has_value()) return std::nullopt;
  const auto time_ms = ParseWireTime(*text);
  if (!time_ms.has_value()) {
    in.Add(field,
           fmt::format("{}; must be a date or a time, such as 2026-01-31 or 2026-01-31T23:59:59Z",
                       QuotedText(*text)));
  }
  return time_ms;
}

}  // namespace meshwright
