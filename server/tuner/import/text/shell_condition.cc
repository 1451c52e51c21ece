#include "server/tuner/import/text/shell_condition.h"

#include <fnmatch.h>

#include <charconv>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright {
namespace {

using Truth = std::optional<bool>;

std::optional<long long> NumberOf(std::string_view text) {
  long long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole ? std::optional(value) : std::nullopt;
}

Truth CompareNumbers(std::string_view left, std::string_view name, std::string_view right) {
  const auto a = NumberOf(left);
  const auto b = NumberOf(right);
  if (!a.has_value() || !b.has_value()) return std::nullopt;
  if (name == "-eq") return *a == *b;
  if (name == "-ne") return *a != *b;
  if (name == "-lt") return *a < *b;
  if (name == "-le") return *a <= *b;
  if (name == "-gt") return *a > *b;
  if (name == "-ge") return *a >= *b;
  return std::nullopt;
}

// Returns the truth of the words between the brackets, without && and ||.
Truth Term(const std::vector<std::string>& words) {
  if (!words.empty() && words.front() == "!") {
    const Truth inner = Term({words.begin() + 1, words.end()});
    return inner.has_value() ? Truth(!*inner) : std::nullopt;
  }
  if (words.size() == 1) {
    return UnresolvedIn(words[0]).empty() ? Truth(!words[0].empty()) : std::nullopt;
  }
  if (words.size() == 2 && (words[0] == "-n" || words[0] == "-z")) {
    const bool is_empty = words[1].empty() || !UnresolvedIn(words[1]).empty();
    return (words[0] == "-z") == is_empty;
  }
  if (words.size() != 3) return std::nullopt;
  if (!UnresolvedIn(words[0]).empty() || !UnresolvedIn(words[2]).empty()) return std::nullopt;
  const std::string& name = words[1];
  const bool is_equal = fnmatch(words[2].c_str(), words[0].c_str(), 0) == 0;
  if (name == "=" || name == "==") return is_equal;
  if (name == "!=") return !is_equal;
  return CompareNumbers(words[0], name, words[2]);
}

}  // namespace

std::optional<bool> ShellCondition(std::span<const ShellToken> tokens,
                                   const ShellVariables& variables) {
  Truth any = false;
  Truth all = true;
  std::vector<std::string> words;
  bool is_test = false;
  const auto end_term = [&] {
    const Truth term = is_test ? Term(words) : std::nullopt;
    words.clear();
    if (all == false || term == false) {
      all = false;
    } else if (!term.has_value()) {
      all = std::nullopt;
    }
  };
  const auto end_alternative = [&] {
    end_term();
    if (any == true || all == true) {
      any = true;
    } else if (!all.has_value()) {
      any = std::nullopt;
    }
    all = true;
  };
  for (const ShellToken& token : tokens) {
    const std::string& text = token.text;
    if (token.kind == ShellTokenKind::kOperator) {
      if (text == "&&") {
        end_term();
      } else if (text == "||") {
        end_alternative();
      } else if (text != "\n" && text != ";") {
        return std::nullopt;  // brackets, < and >, pipes
      }
    } else if (text == "[" || text == "[[" || text == "test") {
      is_test = true;
    } else if (text == "-a") {
      end_term();
    } else if (text == "-o") {
      end_alternative();
    } else if (text != "]" && text != "]]") {
      // A word that expands to nothing is still there in "[[ ... ]]", and means the same in "[".
      words.push_back(variables.Text(text));
    }
  }
  end_alternative();
  return any;
}

}  // namespace meshwright
