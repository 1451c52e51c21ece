#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace meshwright {

// Calls of clients that the store keeps: the first answers to those that may be repeated, and who
// has called what. Times are Unix milliseconds, UTC.

// A call that may be repeated.
struct CallKey {
  std::optional<std::string> request_id = {};  // absent: each call is a new one
  std::string method = {};
  std::string request_hash = {};  // of the whole request
  std::int64_t time_ms = 0;
};

// The days for which a first answer is kept at least.
inline constexpr int kAnswerDays = 30;

// A call that changed something or was refused.
struct AuditRecord {
  std::int64_t sequence = 0;  // 1, 2, ... in the order of storing; the recorder assigns it
  std::int64_t time_ms = 0;
  std::string caller = {};  // empty: the server has no list of callers
  std::string role = {};
  std::string peer = {};
  std::string protocol = {};
  std::string method = {};
  std::string study_id = {};
  std::string code = {};    // "OK", ...
  std::string reason = {};  // empty: none
  bool operator==(const AuditRecord&) const = default;
};

// A filter whose present fields must all match.
struct AuditFilter {
  std::optional<std::string> caller = {};
  std::optional<std::string> method = {};
  std::optional<std::string> study_id = {};
  std::optional<std::int64_t> time_from_ms = {};
  std::optional<std::int64_t> time_before_ms = {};
};

struct AuditPage {
  std::vector<AuditRecord> events = {};
  std::string next_page_token = {};
};

}  // namespace meshwright
