#include "server/engine/attempt_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "search_space/base/secrets.h"
#include "server/process/regular_file.h"

namespace meshwright {
namespace {

constexpr std::int64_t kLongestCharacter = 4;  // bytes of UTF-8

struct Span {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

Span SpanOf(std::int64_t log_size, const LogRange& range) {
  const std::int64_t offset = range.offset.value_or(-range.size);
  const std::int64_t begin = std::clamp<std::int64_t>(
      offset < 0 ? log_size + std::max(offset, -log_size) : offset, 0, log_size);
  return {.begin = begin, .end = begin + std::min(range.size, log_size - begin)};
}

bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

// Returns how many bytes the character has that begins with this one; 1 for what begins none.
std::int64_t LengthOfCharacter(char first) {
  const auto byte = static_cast<unsigned char>(first);
  if (byte >= 0xF0U) return 4;
  if (byte >= 0xE0U) return 3;
  return byte >= 0xC0U ? 2 : 1;
}

// Drops the parts of characters at both ends. A character that the end cuts is left to whoever
// reads on from there; at the end of the log it stays.
LogPart Trimmed(std::string text, const Span& span, std::int64_t log_size) {
  const auto size = static_cast<std::int64_t>(text.size());
  std::int64_t first = 0;
  while (span.begin > 0 && first < std::min(size, kLongestCharacter - 1) &&
         IsContinuation(text[static_cast<std::size_t>(first)])) {
    ++first;
  }
  std::int64_t last = size;  // behind the last byte
  if (span.begin + size < log_size) {
    std::int64_t start = size - 1;
    while (start > first && size - start < kLongestCharacter &&
           IsContinuation(text[static_cast<std::size_t>(start)])) {
      --start;
    }
    const bool is_cut =
        start > first && start + LengthOfCharacter(text[static_cast<std::size_t>(start)]) > size;
    if (is_cut) last = start;
  }
  text = text.substr(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first));
  return {.text = std::move(text), .offset = span.begin + first, .log_size = log_size};
}

// Returns the span of a log without its secrets, of which a part may stand outside of it.
template <typename Read>
std::string MaskedText(const Span& span, std::int64_t log_size, const Read& read) {
  constexpr auto kMargin = static_cast<std::int64_t>(kSecretMargin);
  const std::int64_t begin = std::max<std::int64_t>(0, span.begin - kMargin);
  const std::int64_t end = std::min(log_size, span.end + kMargin);
  std::string text = read(begin, end - begin);
  MaskSecrets(text);
  const auto before = std::min(static_cast<std::size_t>(span.begin - begin), text.size());
  return text.substr(before, static_cast<std::size_t>(span.end - span.begin));
}

std::optional<LogPart> ReadFile(const std::string& path, const LogRange& range) {
  const auto file = RegularFile::Open(path);
  if (!file.has_value() || file->size() == 0) return std::nullopt;
  const Span span = SpanOf(file->size(), range);
  const auto read = [&file](std::int64_t begin, std::int64_t count) {
    return file->Read(begin, count);
  };
  return Trimmed(MaskedText(span, file->size(), read), span, file->size());
}

}  // namespace

LogPart PartOfLog(std::string_view log, const LogRange& range) {
  const auto log_size = static_cast<std::int64_t>(log.size());
  const Span span = SpanOf(log_size, range);
  const auto read = [log](std::int64_t begin, std::int64_t count) {
    return std::string(
        log.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(count)));
  };
  return Trimmed(MaskedText(span, log_size, read), span, log_size);
}

std::optional<LogPart> ReadAttemptLog(const std::string& folder, const std::string& attempt_id,
                                      const LogRange& range) {
  for (const char* const kind : {"out", "log"}) {
    auto part = ReadFile(fmt::format("{}/{}.{}", folder, attempt_id, kind), range);
    if (part.has_value()) return part;
  }
  return std::nullopt;
}

}  // namespace meshwright
