#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace meshwright {

// The bytes of a log that somebody asks for.
struct LogRange {
  // From the beginning or, if negative, from the end. Absent: the last `size` bytes.
  std::optional<std::int64_t> offset = {};
  std::int64_t size = 0;
};

// A part of a log, which begins and ends between two characters of UTF-8.
struct LogPart {
  std::string text = {};  // as the program printed it, with its secrets masked (secrets.h)
  std::int64_t offset = 0;
  std::int64_t log_size = 0;
};

// Cuts a part out of a log that is at hand.
LogPart PartOfLog(std::string_view log, const LogRange& range);

// Reads a part of what an attempt has printed: of its masked <folder>/<attempt_id>.out or, if the
// harness never ran, of the job's <folder>/<attempt_id>.log. Returns nullopt if there is neither
// or both are empty. Links are not followed: whoever may write into the folder must not show what
// only this program may read.
std::optional<LogPart> ReadAttemptLog(const std::string& folder, const std::string& attempt_id,
                                      const LogRange& range);

}  // namespace meshwright
