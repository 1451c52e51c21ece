#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "search_space/base/status.h"
#include "server/tuner/import/text/config_settings.h"

namespace meshwright {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxTomlDepth = 64;  // of lists and tables in one line

bool IsBareKey(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
}

// Reads one text; the first mistake ends it.
class TomlReader {
 public:
  TomlReader(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  absl::StatusOr<std::vector<Setting>> Read() {
    while (error_.empty()) {
      SkipBlanks(true);
      if (IsAtEnd()) return std::move(settings_);
      if (Peek() == '[') {
        ReadTable();
      } else {
        ReadPair(table_);
      }
      SkipBlanks(false);
      if (error_.empty() && !IsAtEnd() && Peek() != '\n') Fail("one key or table a line");
    }
    return InvalidFields(
        {{.field = fmt::format("{} line {}", file_, line_), .description = error_}});
  }

 private:
  [[nodiscard]] bool IsAtEnd() const { return at_ >= text_.size(); }
  [[nodiscard]] char Peek() const { return IsAtEnd() ? '\0' : text_[at_]; }
  void Fail(std::string_view wanted) {
    if (error_.empty()) error_ = fmt::format("must have {} here", wanted);
  }
  char Next() {
    if (Peek() == '\n') ++line_;
    return IsAtEnd() ? '\0' : text_[at_++];
  }
  bool TakeIf(char c) {
    if (IsAtEnd() || Peek() != c) return false;
    Next();
    return true;
  }

  void SkipBlanks(bool passes_lines) {
    while (!IsAtEnd()) {
      const char c = Peek();
      if (c == '#') {
        while (!IsAtEnd() && Peek() != '\n') Next();
      } else if (c == ' ' || c == '\t' || c == '\r' || (passes_lines && c == '\n')) {
        Next();
      } else {
        return;
      }
    }
  }

  std::string ReadKey() {
    std::string path;
    do {
      SkipBlanks(false);
      std::string part;
      if (Peek() == '"' || Peek() == '\'') {
        part = ReadText();
      } else {
        while (IsBareKey(Peek())) part += Next();
      }
      if (part.empty()) Fail("a key");
      path += (path.empty() ? "" : ".") + part;
      SkipBlanks(false);
    } while (TakeIf('.'));
    return path;
  }

  void ReadTable() {
    Next();
    if (Peek() == '[') return Fail("a table, not an array of tables,");
    table_ = ReadKey();
    if (!TakeIf(']')) Fail("a ] after the name of a table");
  }

  void ReadPair(const std::string& table) {
    const int line = line_;
    const std::string key = ReadKey();
    if (!TakeIf('=')) return Fail("an = after a key");
    SkipBlanks(false);
    const std::string path = table.empty() ? key : fmt::format("{}.{}", table, key);
    if (Peek() == '{') return ReadInlineTable(path);
    const Json value = ReadValue();
    settings_.push_back({.key = path,
                         .value = value.is_string() ? value.get<std::string>() : Shown(value),
                         .place = fmt::format("{} line {}", file_, line)});
  }

  static std::string Shown(const Json& value) {
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  // Returns false, with a mistake, below too many lists and tables.
  bool Enter() {
    if (++nesting_ <= kMaxTomlDepth) return true;
    Fail(fmt::format("at most {} lists and tables in each other", kMaxTomlDepth));
    return false;
  }

  void ReadInlineTable(const std::string& path) {
    if (!Enter()) return;
    Next();
    SkipBlanks(false);
    if (!TakeIf('}')) {
      do {
        ReadPair(path);
        SkipBlanks(false);
      } while (error_.empty() && TakeIf(','));
      if (!TakeIf('}')) Fail("a } after a table in one line");
    }
    --nesting_;
  }

  Json ReadValue() {
    if (Peek() == '"' || Peek() == '\'') return ReadText();
    if (Peek() == '[') return ReadList();
    std::string word;
    while (!IsAtEnd() && std::string_view(" \t\r\n,]}#").find(Peek()) == std::string_view::npos) {
      word += Next();
    }
    std::string number = word;
    std::erase(number, '_');
    if (number.starts_with('+')) number.erase(0, 1);
    Json value = Json::parse(number, nullptr, false);
    if (value.is_number() || value.is_boolean()) return value;
    Fail(fmt::format("a number, true, false, a text or a list instead of \"{}\"", word));
    return nullptr;
  }

  Json ReadList() {
    Json list = Json::array();
    if (!Enter()) return list;
    Next();
    while (error_.empty()) {
      SkipBlanks(true);
      if (TakeIf(']')) break;
      list.push_back(ReadValue());
      SkipBlanks(true);
      if (TakeIf(',')) continue;
      if (!TakeIf(']')) Fail("a , or ] in a list");
      break;
    }
    --nesting_;
    return list;
  }

  std::string ReadText() {
    const char quote = Next();
    std::string text;
    while (!IsAtEnd() && Peek() != quote && Peek() != '\n') {
      const char c = Next();
      if (c != '\\' || quote == '\'') {
        text += c;
        continue;
      }
      const char escaped = Next();
      if (escaped == 'n') {
        text += '\n';
      } else if (escaped == 't') {
        text += '\t';
      } else if (escaped == '"' || escaped == '\\') {
        text += escaped;
      } else {
        Fail(R"(one of \n, \t, \" and \\)");
      }
    }
    if (!TakeIf(quote)) Fail("the end of a text");
    if (text.empty() && Peek() == quote) Fail("a text of one line");
    return text;
  }

  std::string_view text_;
  std::string_view file_;
  std::size_t at_ = 0;
  int line_ = 1;
  int nesting_ = 0;
  std::string table_;
  std::string error_;
  std::vector<Setting> settings_;
};

}  // namespace

absl::StatusOr<std::vector<Setting>> TomlSettings(std::string_view text, std::string_view file) {
  return TomlReader(text, file).Read();
}

}  // namespace meshwright
