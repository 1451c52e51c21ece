#include "server/tuner/import/text/shell_condition.h"

#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

namespace meshwright {
namespace {

using Truth = std::optional<bool>;

constexpr int kMaxStars = 4;

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
  if (words.size() > 1 && words.front() == "!" && words[1] != "!") {
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
  if (name == "=" || name == "==") return MatchesPattern(words[0], words[2]);
  if (name == "!=") {
    const Truth is_equal = MatchesPattern(words[0], words[2]);
    return is_equal.has_value() ? Truth(!*is_equal) : std::nullopt;
  }
  return CompareNumbers(words[0], name, words[2]);
}

// The terms of "a && b || c" in their order: alternatives of terms that && joins, as inside of
// "[[ ... ]]". Between commands a shell reads from left to right, which differs for "a || b && c".
class Terms {
 public:
  explicit Terms(const ShellVariables& variables) : variables_(variables) {}

  // Returns false for an operator that no condition has.
  bool Add(const ShellToken& token) {
    const std::string& text = token.text;
    const bool is_operator = token.kind == ShellTokenKind::kOperator;
    if (is_operator && (text == "\n" || text == ";")) return true;
    if (text == "-a" || (is_operator && text == "&&")) {
      EndTerm();
    } else if (text == "-o" || (is_operator && text == "||")) {
      EndAlternative();
    } else if (is_operator) {
      return false;  // brackets, < and >, pipes
    } else if (text == "[" || text == "[[" || text == "test") {
      is_test_ = true;
    } else if (text != "]" && text != "]]") {
      // A word that expands to nothing is still there in "[[ ... ]]", and means the same in "[".
      words_.push_back(variables_.Text(text));
    }
    return true;
  }

  Truth End() {
    EndAlternative();
    return any_;
  }

 private:
  void EndTerm() {
    Truth term;
    if (is_test_) term = Term(words_);
    words_.clear();
    if (!all_.value_or(true) || !term.value_or(true)) {
      all_ = false;
    } else if (!term.has_value()) {
      all_ = std::nullopt;
    }
  }

  void EndAlternative() {
    EndTerm();
    if (any_ == true || all_ == true) {
      any_ = true;
    } else if (!all_.has_value()) {
      any_ = std::nullopt;
    }
    all_ = true;
  }

  const ShellVariables& variables_;
  Truth any_ = false;
  Truth all_ = true;
  std::vector<std::string> words_;
  bool is_test_ = false;
};

}  // namespace

std::optional<bool> MatchesPattern(const std::string& text, const std::string& pattern) {
  if (std::ranges::count(pattern, '*') > kMaxStars) return std::nullopt;
  return fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

std::optional<bool> ShellCondition(std::span<const ShellToken> tokens,
                                   const ShellVariables& variables) {
  Terms terms(variables);
  for (const ShellToken& token : tokens) {
    if (!terms.Add(token)) return std::nullopt;
  }
  return terms.End();
}

}  // namespace meshwright
