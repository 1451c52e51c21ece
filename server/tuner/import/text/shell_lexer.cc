#include "server/tuner/import/text/shell_lexer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace meshwright {
namespace {

constexpr std::string_view kEndsWord = " \t\r\n;&|()<>";
constexpr int kMaxQuoteNesting =
    64;  // of quotes and brackets; deeper ones are read as plain characters

class ShellLexer {
 public:
  explicit ShellLexer(std::string_view text) : text_(text) {}

  std::vector<ShellToken> Lex() {
    while (!IsAtEnd()) {
      SkipBlanks();
      if (IsAtEnd()) break;
      if (Peek() == '#') {
        SkipComment();
      } else if (kEndsWord.find(Peek()) != std::string_view::npos) {
        LexOperator();
      } else {
        LexWord();
      }
    }
    return std::move(tokens_);
  }

 private:
  [[nodiscard]] bool IsAtEnd() const { return at_ >= text_.size(); }
  [[nodiscard]] char Peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  char Next() {
    if (Peek() == '\n') ++line_;
    return text_[at_++];
  }

  // Skips blanks and continued lines. A blank behind the backslash is a common slip, which a shell
  // reads as an argument of one blank; no flag has such a value.
  void SkipBlanks() {
    while (!IsAtEnd()) {
      const char c = Peek();
      if (c == ' ' || c == '\t' || c == '\r') {
        Next();
        continue;
      }
      std::size_t blanks = 1;
      while (Peek(blanks) == ' ' || Peek(blanks) == '\t' || Peek(blanks) == '\r') ++blanks;
      if (c != '\\' || Peek(blanks) != '\n') return;
      for (std::size_t i = 0; i <= blanks; ++i) Next();
    }
  }

  void SkipComment() {
    while (!IsAtEnd() && Peek() != '\n') Next();
  }

  void LexOperator() {
    constexpr std::array<std::string_view, 10> kOperators = {"<<<", "&>>", "&&", "||", ";;",
                                                             ">>",  "<<",  "&>", ">&", "<&"};
    const int line = line_;
    for (const std::string_view name : kOperators) {
      if (text_.substr(at_, name.size()) != name) continue;
      at_ += name.size();
      if (name == "<<") return StartHereDocument();
      tokens_.push_back(
          {.kind = ShellTokenKind::kOperator, .text = std::string(name), .line = line});
      return;
    }
    const char c = Next();
    tokens_.push_back({.kind = ShellTokenKind::kOperator, .text = {c}, .line = line});
    if (c == '\n') ReadHereDocuments();
  }

  void StartHereDocument() {
    if (Peek() == '-') Next();
    SkipBlanks();
    std::string word = ReadWord();
    std::erase_if(word, [](char c) { return c == '\'' || c == '"' || c == '\\'; });
    awaited_.push_back({tokens_.size(), word});
    tokens_.push_back({.kind = ShellTokenKind::kHereDocument, .line = line_});
  }

  void ReadHereDocuments() {
    for (const auto& [index, end] : std::exchange(awaited_, {})) {
      std::string body;
      while (!IsAtEnd()) {
        std::string line;
        while (!IsAtEnd() && Peek() != '\n') line += Next();
        if (!IsAtEnd()) Next();
        std::string_view trimmed = line;
        trimmed.remove_prefix(std::min(trimmed.find_first_not_of('\t'), trimmed.size()));
        if (trimmed == end) break;
        body += line + "\n";
      }
      tokens_[index].items = {std::move(body)};
    }
  }

  void LexWord() {
    const int line = line_;
    std::string word = ReadWord();
    if (word.ends_with('=') && Peek() == '(') {
      Next();
      tokens_.push_back({.kind = ShellTokenKind::kArray,
                         .text = std::move(word),
                         .items = ReadArray(),
                         .line = line});
      return;
    }
    tokens_.push_back({.text = std::move(word), .line = line});
  }

  std::vector<std::string> ReadArray() {
    std::vector<std::string> items;
    while (!IsAtEnd()) {
      SkipBlanks();
      if (Peek() == '#') {
        SkipComment();
      } else if (Peek() == ')') {
        Next();
        break;
      } else if (kEndsWord.find(Peek()) != std::string_view::npos) {
        Next();
      } else {
        items.push_back(ReadWord());
      }
    }
    return items;
  }

  // Reads up to the end of a word, with everything that is quoted or in brackets of a variable.
  std::string ReadWord() {
    std::string word;
    while (!IsAtEnd() && kEndsWord.find(Peek()) == std::string_view::npos) {
      const char c = Peek();
      if (c == '\\') {
        ReadEscaped(word);
      } else if (c == '\x01') {
        ReadMark(word);
      } else if (c == '\'' || c == '"' || c == '`') {
        ReadQuoted(c, word);
      } else if (c == '$' && (Peek(1) == '(' || Peek(1) == '{')) {
        word += Next();
        ReadBracketed(word);
      } else {
        word += Next();
      }
    }
    return word;
  }

  void ReadEscaped(std::string& word) {
    const bool is_continued = Peek(1) == '\n';
    for (int i = 0; i < 2 && !IsAtEnd(); ++i) {
      const char c = Next();
      if (!is_continued) word += c;
    }
  }

  // A mark of an expanded text (shell_variables.cc) is one piece.
  void ReadMark(std::string& word) {
    while (!IsAtEnd() && Peek() != '\x02') word += Next();
    if (!IsAtEnd()) word += Next();
  }

  void ReadQuoted(char quote, std::string& word) {
    word += Next();
    while (!IsAtEnd() && Peek() != quote) {
      if (Peek() == '\\' && quote != '\'') {
        word += Next();
        if (!IsAtEnd()) word += Next();
      } else if (quote == '"' && Peek() == '$' && (Peek(1) == '(' || Peek(1) == '{')) {
        word += Next();
        ReadBracketed(word);
      } else {
        word += Next();
      }
    }
    if (!IsAtEnd()) word += Next();
  }

  void ReadBracketed(std::string& word) {
    if (nesting_ >= kMaxQuoteNesting) return;
    ++nesting_;
    const char open = Peek();
    const char close = open == '(' ? ')' : '}';
    int depth = 0;
    do {
      const char c = Peek();
      if (c == '\'' || c == '"') {
        ReadQuoted(c, word);
        continue;
      }
      if (c == open) ++depth;
      if (c == close) --depth;
      word += Next();
    } while (!IsAtEnd() && depth > 0);
    --nesting_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
  int nesting_ = 0;
  std::vector<ShellToken> tokens_;
  std::vector<std::pair<std::size_t, std::string>> awaited_;  // here-documents of this line
};

}  // namespace

std::vector<ShellToken> LexShell(std::string_view script) { return ShellLexer(script).Lex(); }

}  // namespace meshwright
