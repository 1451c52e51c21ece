#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "recorder/page_token.h"
#include "search_space/base/clean_text.h"
#include "search_space/base/secrets.h"
#include "search_space/base/status.h"
#include "search_space/spec/plan.h"
#include "tests/fuzz/targets.h"

namespace meshwright {

BrokenLaw PlanKeyLaw(std::string_view input) {
  const auto plan = ParsePlanKey(input);
  if (!plan.has_value()) return std::nullopt;
  const PlanKey key = MakePlanKey(*plan);
  return First({Holds(key.text == input, "a plan's key is the text that it was read from"),
                Holds(ParsePlanKey(key.text) == plan, "equal keys are of equal plans"),
                Holds(key.digest.size() == 16, "a digest has 16 digits")});
}

BrokenLaw PageTokenLaw(std::string_view input) {
  const auto read = DecodePageToken("studies", input);
  if (read.ok()) {
    if (EncodePageToken("studies", *read) != input) return "a token is read as what it was made of";
  } else if (auto broken = First(
                 {ErrorLaw(read.status()), Holds(Reason(read.status()) == "INVALID_PAGE_TOKEN",
                                                 "a damaged token is an invalid one")})) {
    return broken;
  }
  // The input is also the key of a row, with its first bytes as the number.
  PageKey key = {.text = std::string(input.substr(std::min<std::size_t>(8, input.size())))};
  for (const char c : input.substr(0, 8)) {
    key.number = static_cast<std::int64_t>((static_cast<std::uint64_t>(key.number) << 8) |
                                           static_cast<unsigned char>(c));
  }
  const std::string token = EncodePageToken("trials", key);
  const auto again = DecodePageToken("trials", token);
  return First({Holds(again.ok() && *again == key, "a token is read as what it was made of"),
                Holds(!DecodePageToken("studies", token).ok(), "another list refuses a token"),
                Holds(!DecodePageToken("trials", token.substr(1)).ok(), "a cut token is refused")});
}

BrokenLaw CleanTextLaw(std::string_view input) {
  for (const bool keeps_lines : {false, true}) {
    for (const bool keeps_end : {false, true}) {
      for (const std::size_t longest : {std::size_t{0}, std::size_t{7}, input.size()}) {
        const std::string clean = CleanText(
            input, {.longest_bytes = longest, .keeps_lines = keeps_lines, .keeps_end = keeps_end});
        const auto layout = keeps_lines ? TextLayout::kLines : TextLayout::kOneLine;
        if (clean.size() > longest) return "a cleaned text has at most its longest length";
        if (TextMistake(clean, layout).has_value()) {
          return fmt::format("a cleaned text is one that every edge takes: {}", QuotedText(clean));
        }
      }
    }
  }
  const std::string quoted = QuotedText(input);
  return First({Holds(!TextMistake(quoted, TextLayout::kOneLine).has_value(),
                      "a quoted text is one clean line"),
                Holds(quoted.size() < 1000, "a quoted text is short"),
                TextLaw(TextMistake(input, TextLayout::kOneLine).value_or("none")),
                TextLaw(TextMistake(input, TextLayout::kLines).value_or("none"))});
}

BrokenLaw SecretsLaw(std::string_view input) {
  std::string masked(input);
  MaskSecrets(masked);
  if (masked.size() != input.size()) return "masking keeps the length";
  for (std::size_t i = 0; i < input.size(); ++i) {
    if (masked[i] != input[i] && masked[i] != '*') return "masking writes nothing but stars";
  }
  return std::nullopt;
}

}  // namespace meshwright
