#include "tests/layering/declarations.h"

#include <cctype>
#include <cstddef>
#include <span>

namespace meshwright {
namespace {

struct Token {
  std::string_view text;
  int line = 0;
};

bool IsNameCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool IsName(const Token& token) {
  return IsNameCharacter(token.text.front()) &&
         std::isdigit(static_cast<unsigned char>(token.text.front())) == 0;
}

// "kMost", but not "kilo".
bool IsConstant(std::string_view word) {
  return word.size() > 1 && word[0] == 'k' &&
         std::isupper(static_cast<unsigned char>(word[1])) != 0;
}

class Tokenizer {
 public:
  explicit Tokenizer(std::string_view text) : text_(text) {}

  std::vector<Token> Read() {
    std::vector<Token> tokens;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#' && is_line_start_) {
        SkipDirective();
      } else if (c == '/' && Follows("//")) {
        SkipTo("\n", 0);
      } else if (c == '/' && Follows("/*")) {
        SkipTo("*/", 2);
      } else if (c == 'R' && Follows("R\"(")) {
        SkipTo(")\"", 2);
      } else if (c == '"' || c == '\'') {
        SkipQuoted(c);
      } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
        Step();
      } else {
        tokens.push_back(ReadToken());
      }
    }
    return tokens;
  }

 private:
  [[nodiscard]] bool Follows(std::string_view text) const {
    return text_.substr(at_).starts_with(text);
  }

  void Step() {
    if (text_[at_] == '\n') {
      ++line_;
      is_line_start_ = true;
    } else if (std::isspace(static_cast<unsigned char>(text_[at_])) == 0) {
      is_line_start_ = false;
    }
    ++at_;
  }

  void SkipTo(std::string_view end, std::size_t length) {
    const std::size_t found = text_.find(end, at_ + length);
    const std::size_t stop = found == std::string_view::npos ? text_.size() : found + length;
    while (at_ < stop) Step();
  }

  void SkipDirective() {
    while (at_ < text_.size() && text_[at_] != '\n') {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) Step();
      Step();
    }
  }

  void SkipQuoted(char quote) {
    Step();
    while (at_ < text_.size() && text_[at_] != quote) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) Step();
      Step();
    }
    if (at_ < text_.size()) Step();
  }

  Token ReadToken() {
    const std::size_t start = at_;
    const int line = line_;
    if (Follows("::") || Follows("->")) {
      Step();
      Step();
    } else if (IsNameCharacter(text_[at_])) {
      // A digit separator is part of its number.
      while (
          at_ < text_.size() &&
          (IsNameCharacter(text_[at_]) ||
           (text_[at_] == '\'' && std::isdigit(static_cast<unsigned char>(text_[start])) != 0))) {
        Step();
      }
    } else {
      Step();
    }
    return {.text = text_.substr(start, at_ - start), .line = line};
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool is_line_start_ = true;
};

bool IsTypeKeyword(std::string_view word) {
  return word == "struct" || word == "class" || word == "enum" || word == "using" ||
         word == "concept" || word == "typename";
}

// Keywords that precede the use of a name, not its declaration.
bool IsUseKeyword(std::string_view word) {
  static constexpr std::string_view kWords[] = {
      "return",    "const",  "new",     "case",      "else",      "public",  "typename", "throw",
      "sizeof",    "static", "inline",  "constexpr", "final",     "mutable", "virtual",  "explicit",
      "co_return", "friend", "private", "protected", "namespace", "template"};
  for (const std::string_view keyword : kWords) {
    if (word == keyword) return true;
  }
  return false;
}

class Reader {
 public:
  explicit Reader(std::span<const Token> tokens) : tokens_(tokens) {}

  Declarations Read() {
    for (at_ = 0; at_ < tokens_.size(); ++at_) {
      const Token& token = tokens_[at_];
      if (token.text == "{") {
        blocks_.push_back(is_namespace_);
        is_namespace_ = false;
      } else if (token.text == "}") {
        if (!blocks_.empty()) blocks_.pop_back();
        is_enum_ = false;
      } else if (token.text == ";") {
        is_namespace_ = false;
      } else if (token.text == "namespace") {
        is_namespace_ = true;
      } else if (IsTypeKeyword(token.text)) {
        ReadType();
      } else if (IsName(token)) {
        ReadOther();
      }
    }
    return std::move(declared_);
  }

 private:
  [[nodiscard]] std::string_view TextAt(std::size_t index) const {
    return index < tokens_.size() ? tokens_[index].text : std::string_view();
  }

  [[nodiscard]] bool IsOutside() const {
    for (const bool is_namespace : blocks_) {
      if (!is_namespace) return false;
    }
    return true;
  }

  void ReadType() {
    std::size_t name = at_ + 1;
    if (TextAt(at_) == "enum" && (TextAt(name) == "class" || TextAt(name) == "struct")) ++name;
    if (name >= tokens_.size() || !IsName(tokens_[name])) return;
    const std::string_view next = TextAt(name + 1);
    // A forward declaration outside of a type declares nothing: the name is that of its header.
    const bool is_definition = next == "{" || next == ":" || next == "final" || next == "=";
    const bool is_parameter = next == ">" || next == ",";  // "template <typename T>"
    const bool is_nested = next == ";" && !IsOutside();
    is_enum_ = is_definition && TextAt(at_) == "enum";
    auto& names = is_definition && IsOutside() ? declared_.outer : declared_.inner;
    if (is_definition || is_parameter || is_nested) names.emplace(TextAt(name));
    at_ = name;
  }

  // Reads a function or member: "Bytes Weights(", a constant: "int kMost =", or an enumerator.
  void ReadOther() {
    if (at_ == 0) return;
    if (is_enum_) declared_.inner.emplace(tokens_[at_].text);
    const std::string_view next = TextAt(at_ + 1);
    const bool is_constant =
        IsConstant(tokens_[at_].text) && (next == "=" || next == "[" || next == "{");
    if (next != "(" && !is_constant) return;
    const Token& before = tokens_[at_ - 1];
    const bool follows_type = (IsName(before) && !IsUseKeyword(before.text)) ||
                              before.text == ">" || before.text == "&" || before.text == "*";
    if (!follows_type && !is_constant) return;
    auto& names = IsOutside() ? declared_.outer : declared_.inner;
    names.emplace(tokens_[at_].text);
  }

  std::span<const Token> tokens_;
  std::size_t at_ = 0;
  std::vector<bool> blocks_;  // true for a namespace
  bool is_namespace_ = false;
  bool is_enum_ = false;
  Declarations declared_;
};

}  // namespace

Declarations DeclarationsOf(std::string_view text) {
  const std::vector<Token> tokens = Tokenizer(text).Read();
  return Reader(tokens).Read();
}

std::vector<NameUse> NamesUsedIn(std::string_view text) {
  std::vector<NameUse> uses;
  std::set<std::string_view> seen;
  const std::vector<Token> tokens = Tokenizer(text).Read();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const Token& token = tokens[i];
    const bool is_capital = std::isupper(static_cast<unsigned char>(token.text.front())) != 0;
    if (!is_capital && !IsConstant(token.text)) continue;
    const std::string_view before = i == 0 ? std::string_view() : tokens[i - 1].text;
    if (before == "." || before == "->" || before == "::") continue;
    if (!seen.insert(token.text).second) continue;
    uses.push_back({.name = std::string(token.text), .line = token.line});
  }
  return uses;
}

}  // namespace meshwright
