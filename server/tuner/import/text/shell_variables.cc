#include "server/tuner/import/text/shell_variables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "server/tuner/import/text/shell_arithmetic.h"

namespace meshwright {
namespace {

constexpr char kBegin = '\x01';
constexpr char kEnd = '\x02';

constexpr std::size_t kMaxExpandedBytes = 64U << 20U;
constexpr std::size_t kBytesPerValue = 32;  // beside its text
constexpr int kMaxDefaultNesting = 32;      // of words inside "${NAME:-...}"

std::string Mark(std::string_view name) { return fmt::format("{}{}{}", kBegin, name, kEnd); }

bool IsNameChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool IsBlankChar(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

}  // namespace

// Expands one word from left to right.
class WordExpander {
 public:
  WordExpander(const ShellVariables& variables, std::string_view raw, int nesting = 0)
      : variables_(variables), raw_(raw), nesting_(nesting) {}

  std::vector<std::string> Words() {
    while (at_ < raw_.size()) {
      const char c = raw_[at_];
      if (c == '\'') {
        AddQuoted(raw_.substr(at_ + 1, raw_.find('\'', at_ + 1) - at_ - 1));
        at_ = std::min(raw_.size(), raw_.find('\'', at_ + 1)) + 1;
      } else if (c == '"') {
        ExpandQuoted();
      } else if (c == '\\') {
        if (++at_ < raw_.size()) AddQuoted(raw_.substr(at_++, 1));
      } else if (c == kBegin) {
        AddQuoted(TakeMark());
      } else if (c == '$' || c == '`') {
        AddSplit(ExpandVariable());
      } else {
        AddQuoted(raw_.substr(at_++, 1));
      }
    }
    if (has_word_) words_.push_back(std::move(word_));
    return std::move(words_);
  }

  std::string Text(bool has_quotes) {
    std::string text;
    while (at_ < raw_.size()) {
      const char c = raw_[at_];
      if (has_quotes && c == '\'' && !is_inside_) {
        const std::size_t end = std::min(raw_.size(), raw_.find('\'', at_ + 1));
        text += raw_.substr(at_ + 1, end - at_ - 1);
        at_ = end + 1;
      } else if (has_quotes && c == '"') {
        is_inside_ = !is_inside_;
        ++at_;
      } else if (c == kBegin) {
        text += TakeMark();
      } else if (c == '\\') {
        text += TakeEscaped();
      } else if (c == '$' || c == '`') {
        text += Joined(ExpandVariable());
      } else {
        text += c;
        ++at_;
      }
    }
    return text;
  }

 private:
  static std::string Joined(const std::vector<std::string>& values) {
    std::string text;
    for (std::size_t i = 0; i < values.size(); ++i) text += (i > 0 ? " " : "") + values[i];
    return text;
  }

  // Takes a backslash and returns the character behind it; nothing for a continued line.
  std::string_view TakeEscaped() {
    at_ = std::min(raw_.size(), at_ + 2);
    const std::string_view escaped = raw_.substr(at_ - 1, 1);
    return escaped == "\n" ? escaped.substr(1) : escaped;
  }

  std::string_view TakeMark() {
    const std::size_t begin = at_;
    at_ = std::min(raw_.size(), raw_.find(kEnd, at_)) + 1;
    return raw_.substr(begin, at_ - begin);
  }

  void AddQuoted(std::string_view text) {
    word_ += text;
    has_word_ = true;
  }

  void EndWord() {
    if (has_word_) words_.push_back(std::exchange(word_, {}));
    has_word_ = false;
  }

  void AddSplit(const std::vector<std::string>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i > 0) EndWord();
      bool is_marked = false;
      for (const char c : values[i]) {
        if (c == kBegin) is_marked = true;
        if (c == kEnd) is_marked = false;
        if (!is_marked && IsBlankChar(c)) {
          EndWord();
        } else {
          AddQuoted({&c, 1});
        }
      }
    }
  }

  void ExpandQuoted() {
    ++at_;
    has_word_ = true;
    while (at_ < raw_.size() && raw_[at_] != '"') {
      const char c = raw_[at_];
      if (c == '\\' && at_ + 1 < raw_.size()) {
        AddEscapedInQuotes();
      } else if (c == '$' || c == '`') {
        AddVariableInQuotes();
      } else {
        word_ += c;
        ++at_;
      }
    }
    ++at_;
  }

  // Between double quotes a backslash stays, except before these characters.
  void AddEscapedInQuotes() {
    const char escaped = raw_[at_ + 1];
    const bool is_special = std::string_view("$`\"\\\n").find(escaped) != std::string_view::npos;
    if (!is_special) word_ += '\\';
    if (escaped != '\n') word_ += escaped;
    at_ += 2;
  }

  void AddVariableInQuotes() {
    const bool is_list = raw_.substr(at_).starts_with("${") &&
                         raw_.substr(at_, raw_.find('}', at_) - at_).ends_with("[@]");
    const std::vector<std::string> values = ExpandVariable();
    if (!is_list) return AddQuoted(Joined(values));
    if (values.empty() && word_.empty()) has_word_ = false;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i > 0) EndWord();
      AddQuoted(values[i]);
    }
  }

  // Returns the values of what begins at a $ or `, and goes behind it.
  std::vector<std::string> ExpandVariable() {
    const std::size_t begin = at_;
    std::vector<std::string> values = ValuesHere();
    if (variables_.CanExpandTo(values)) return values;
    return {Mark(raw_.substr(begin, at_ - begin))};
  }

  std::vector<std::string> ValuesHere() {
    if (raw_[at_] == '`') {
      const std::size_t end = std::min(raw_.size(), raw_.find('`', at_ + 1));
      const std::string_view command = raw_.substr(at_, end + 1 - at_);
      at_ = end + 1;
      return {Mark(command)};
    }
    const std::string_view rest = raw_.substr(at_);
    if (rest.starts_with("$((")) return ExpandArithmetic();
    if (rest.starts_with("$(")) return {Mark(TakeBracketed('(', ')'))};
    if (rest.starts_with("${")) return ExpandBraces();
    std::size_t length = 1;
    while (length < rest.size() && IsNameChar(rest[length])) ++length;
    if (length > 1 && std::isdigit(static_cast<unsigned char>(rest[1])) != 0) length = 2;
    if (length == 1 && rest.size() > 1 &&
        std::string_view("@*#?$!-").find(rest[1]) != std::string_view::npos) {
      length = 2;
    }
    at_ += length;
    if (length == 1) return {"$"};
    const std::string name(rest.substr(1, length - 1));
    const auto* values = variables_.Find(name);
    if (values == nullptr) return {Mark("$" + name)};
    return values->empty() ? std::vector<std::string>() : std::vector{values->front()};
  }

  std::string_view TakeBracketed(char open, char close) {
    const std::size_t begin = at_;
    int depth = 0;
    while (at_ < raw_.size()) {
      const char c = raw_[at_++];
      if (c == open) ++depth;
      if (c == close && --depth == 0) break;
    }
    return raw_.substr(begin, at_ - begin);
  }

  std::vector<std::string> ExpandArithmetic() {
    const std::string_view whole = TakeBracketed('(', ')');  // "$(( ... ))"
    const std::string_view inside = whole.size() >= 5 ? whole.substr(3, whole.size() - 5) : "";
    std::string text;
    for (std::size_t i = 0; i < inside.size();) {
      const bool is_name =
          IsNameChar(inside[i]) && std::isdigit(static_cast<unsigned char>(inside[i])) == 0;
      if (inside[i] == '$' && inside.substr(i, 2) != "$(") {
        const bool has_braces = inside.substr(i, 2) == "${";
        const std::size_t end = has_braces ? std::min(inside.find('}', i), inside.size() - 1) + 1
                                           : NameEnd(inside, i + 1);
        text += Nested(inside.substr(i, end - i)).Text(false);
        i = end;
      } else if (is_name) {
        const std::size_t end = NameEnd(inside, i);
        const std::string name = "$" + std::string(inside.substr(i, end - i));
        text += Nested(name).Text(false);
        i = end;
      } else {
        text += inside[i++];
      }
    }
    if (const std::string name = UnresolvedIn(text); !name.empty()) return {Mark(name)};
    const std::optional<long long> value = ShellArithmetic(text);
    return {value.has_value() ? fmt::format("{}", *value) : Mark(whole)};
  }

  static std::size_t NameEnd(std::string_view text, std::size_t at) {
    while (at < text.size() && IsNameChar(text[at])) ++at;
    return at;
  }

  // Expands "${NAME}", "${NAME[@]}", "${NAME:-word}" and the like. Other forms stay unresolved.
  std::vector<std::string> ExpandBraces() {
    const std::string_view whole = TakeBracketed('{', '}');
    if (nesting_ > kMaxDefaultNesting) return {Mark(whole)};
    const std::string_view inside = whole.substr(2, whole.size() - 3);
    const std::size_t end = NameEnd(inside, 0);
    const std::string name(inside.substr(0, end));
    std::string_view form = inside.substr(end);
    const auto* values = variables_.Find(name);
    const bool is_list = form == "[@]" || form == "[*]";
    if (form.empty() || is_list) {
      if (values == nullptr) return {Mark("$" + name)};
      if (is_list || values->empty()) return *values;
      return {values->front()};
    }
    const bool checks_empty = form.starts_with(':');
    if (checks_empty) form.remove_prefix(1);
    const bool has_value =
        values != nullptr && !(checks_empty && (values->empty() || values->front().empty()));
    if (name.empty() || form.empty() || std::string_view("-=+").find(form[0]) == form.npos) {
      return {Mark(whole)};
    }
    const bool uses_word = form[0] == '+' ? has_value : !has_value;
    if (uses_word) return {Nested(form.substr(1)).Text(true)};
    if (form[0] == '+') return {};
    return values->empty() ? std::vector<std::string>() : std::vector{values->front()};
  }

  [[nodiscard]] WordExpander Nested(std::string_view raw) const {
    return {variables_, raw, nesting_ + 1};
  }

  const ShellVariables& variables_;
  std::string_view raw_;
  int nesting_;
  std::size_t at_ = 0;
  bool is_inside_ = false;  // of double quotes
  std::vector<std::string> words_;
  std::string word_;
  bool has_word_ = false;
};

ShellVariables::ShellVariables(std::map<std::string, std::string> stated)
    : stated_(std::move(stated)) {
  for (const auto& [name, value] : stated_) values_[name] = {value};
}

const std::vector<std::string>* ShellVariables::Find(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}

bool ShellVariables::CanExpandTo(const std::vector<std::string>& values) const {
  for (const std::string& value : values) {
    expanded_bytes_ =
        std::min(expanded_bytes_ + value.size() + kBytesPerValue, kMaxExpandedBytes + 1);
  }
  return expanded_bytes_ <= kMaxExpandedBytes;
}

void ShellVariables::Assign(const std::string& name, std::vector<std::string> values,
                            bool appends) {
  if (stated_.contains(name)) return;
  std::vector<std::string>& own = values_[name];
  if (!appends) own.clear();
  own.insert(own.end(), std::move_iterator(values.begin()), std::move_iterator(values.end()));
}

void ShellVariables::AssignText(const std::string& name, std::string value, bool appends) {
  if (stated_.contains(name)) return;
  const bool has_text = values_.contains(name) && !values_.at(name).empty();
  if (appends && has_text) {
    values_.at(name).front() += value;
    return;
  }
  Assign(name, {std::move(value)}, false);
}

std::vector<std::string> ShellVariables::Words(std::string_view raw) const {
  return WordExpander(*this, raw).Words();
}

std::string ShellVariables::Text(std::string_view raw) const {
  return WordExpander(*this, raw).Text(true);
}

std::string ShellVariables::Document(std::string_view raw) const {
  return WordExpander(*this, raw).Text(false);
}

std::map<std::string, std::string> ShellVariables::Texts() const {
  std::map<std::string, std::string> texts;
  for (const auto& [name, values] : values_) {
    if (values.size() == 1 && UnresolvedIn(values.front()).empty()) texts[name] = values.front();
  }
  return texts;
}

std::string UnresolvedIn(std::string_view text) {
  const std::size_t begin = text.find(kBegin);
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin + 1, text.find(kEnd, begin) - begin - 1));
}

std::string Shown(std::string_view text) {
  std::string shown(text);
  std::erase_if(shown, [](char c) { return c == kBegin || c == kEnd; });
  return shown;
}

}  // namespace meshwright
