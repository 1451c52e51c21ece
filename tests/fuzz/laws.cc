#include "tests/fuzz/laws.h"

#include <fmt/format.h>

#include "search_space/base/clean_text.h"

namespace meshwright {
namespace {

// Twenty fields and a count, with a path and a mistake of up to 4 KiB each.
constexpr std::size_t kLongestError = 180 << 10;

std::size_t CountedFields(const absl::Status& status) { return FieldViolations(status).size(); }

}  // namespace

BrokenLaw TextLaw(std::string_view text) {
  if (text.size() > kLongestError) {
    return fmt::format("an error has at most {} bytes, this one {}: {}", kLongestError, text.size(),
                       QuotedText(text));
  }
  const auto mistake = TextMistake(text, TextLayout::kLines);
  if (!mistake.has_value()) return std::nullopt;
  return fmt::format("an error is clean text, this one is {}: {}", *mistake, QuotedText(text));
}

BrokenLaw ViolationsLaw(std::span<const FieldViolation> violations) {
  if (violations.empty()) return std::nullopt;
  return ErrorLaw(InvalidFields({violations.begin(), violations.end()}));
}

BrokenLaw ErrorLaw(const absl::Status& status) {
  if (status.ok()) return std::nullopt;
  return First({Holds(!status.message().empty(), "an error says something"),
                TextLaw(std::string(status.message())),
                Holds(CountedFields(status) <= kMaxListedFields + 1, "an error lists few fields")});
}

BrokenLaw First(std::initializer_list<BrokenLaw> laws) {
  for (const BrokenLaw& law : laws) {
    if (law.has_value()) return law;
  }
  return std::nullopt;
}

BrokenLaw Holds(bool holds, std::string_view law) {
  if (holds) return std::nullopt;
  return std::string(law);
}

}  // namespace meshwright
