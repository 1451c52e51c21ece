#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "search_space/digest/fnv.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/plan_fields.h"

namespace meshwright {
namespace {

// The text of a key has one `<code><value>` for each row of the table of plan fields, in the order
// of the table. The fields of a recomputation are among those of its plan or stage. Separators:
//   fields of a plan '.'   stages ';'   fields of a stage ':'   elements of a list ','
//   replica groups '|'   fields of a group '/'
// Strings keep [A-Za-z0-9_] and write every other byte as %xx. The empty string is a lone '%', so
// that a list that holds one empty string differs from an empty list. A double is the shortest text
// that reads back equal, with '_' for the point.

bool IsPlain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Appends the fields of plans, stages and recomputations to a text.
class Writer {
 public:
  Writer(std::string& text, char separator) : text_(text), separator_(separator) {}

  template <typename Fields, typename Struct>
  void WriteAll(const Fields& fields, const Struct& values) {
    ForEachRow(fields, [&](const auto& field) {
      const auto& value = values.*field.member;
      const bool omits_default =
          field.facts.default_is_written != DefaultIsWritten::kInKeysAndAnswers;
      if (omits_default && value == DefaultOf(field)) return;
      WriteField(field.facts.code, value);
    });
  }

 private:
  void WriteField(std::string_view, const RecomputePlan& recompute) {
    WriteAll(kRecomputeFields, recompute);
  }
  template <typename Value>
  void WriteField(std::string_view code, const Value& value) {
    if (is_separated_) text_ += separator_;
    is_separated_ = true;
    text_ += code;
    Write(value);
  }

  void Write(int value) {
    std::array<char, 16> digits;
    text_.append(digits.data(),
                 std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr);
  }
  void Write(bool value) { text_ += value ? '1' : '0'; }
  void Write(double value) {
    // Adding 0 gives -0 the text of 0, which it equals.
    for (const char c : fmt::format("{}", value + 0.0)) text_ += c == '.' ? '_' : c;
  }
  void Write(const std::string& value) {
    if (value.empty()) text_ += '%';
    for (const char c : value) {
      if (IsPlain(c)) {
        text_ += c;
      } else {
        text_ += fmt::format("%{:02x}", static_cast<unsigned char>(c));
      }
    }
  }
  template <typename Enum>
  requires std::is_enum_v<Enum>
  void Write(Enum value) { text_ += Word(value); }
  template <typename Value>
  void Write(const std::vector<Value>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i > 0) text_ += ',';
      Write(values[i]);
    }
  }
  void Write(const std::vector<StagePlan>& stages) {
    for (std::size_t i = 0; i < stages.size(); ++i) {
      if (i > 0) text_ += ';';
      Writer(text_, ':').WriteAll(kStageFields, stages[i]);
    }
  }
  void Write(const std::vector<ReplicaGroup>& groups) {
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (i > 0) text_ += '|';
      Writer(text_, '/').WriteAll(kReplicaGroupFields, groups[i]);
    }
  }

  std::string& text_;
  char separator_;
  bool is_separated_ = false;
};

// Returns the text up to the next `separator` and removes both from `rest`, which becomes nullopt
// at the end.
std::string_view TakePart(std::optional<std::string_view>& rest, char separator) {
  const std::size_t end = rest->find(separator);
  const std::string_view part = rest->substr(0, end);
  if (end == std::string_view::npos) {
    rest.reset();
  } else {
    rest = rest->substr(end + 1);
  }
  return part;
}

// Reads the fields of plans, stages and recomputations from a text.
class Reader {
 public:
  Reader(std::string_view text, char separator) : rest_(text), separator_(separator) {}

  template <typename Fields, typename Struct>
  void ReadAll(const Fields& fields, Struct& values) {
    ForEachRow(fields, [&](const auto& field) {
      const bool may_be_absent =
          field.facts.default_is_written != DefaultIsWritten::kInKeysAndAnswers;
      const bool is_next = rest_.has_value() && rest_->starts_with(field.facts.code);
      if (may_be_absent && !is_next) return;
      ReadField(field.facts.code, values.*field.member);
    });
  }

  // Returns true if every field was there and nothing else is.
  [[nodiscard]] bool is_whole() const { return is_whole_ && !rest_.has_value(); }

 private:
  void ReadField(std::string_view, RecomputePlan& recompute) {
    ReadAll(kRecomputeFields, recompute);
  }
  template <typename Value>
  void ReadField(std::string_view code, Value& value) {
    is_whole_ = is_whole_ && rest_.has_value();
    if (!is_whole_) return;
    const std::string_view part = TakePart(rest_, separator_);
    is_whole_ = part.starts_with(code) && Read(part.substr(code.size()), value);
  }
  template <typename Number>
  static bool ReadNumber(std::string_view text, Number& value) {
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    return error == std::errc() && stop == end;
  }
  static bool Read(std::string_view text, int& value) { return ReadNumber(text, value); }
  static bool Read(std::string_view text, bool& value) {
    value = text == "1";
    return value || text == "0";
  }
  static bool Read(std::string_view text, double& value) {
    std::string point(text);
    for (char& c : point) c = c == '_' ? '.' : c;
    return ReadNumber(point, value) && std::isfinite(value);
  }
  static bool Read(std::string_view text, std::string& value) {
    value.clear();
    if (text == "%") return true;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '%') {
        value += text[i];
        continue;
      }
      const std::string_view digits = text.substr(i + 1, 2);
      unsigned char byte = 0;
      const auto [stop, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
      if (error != std::errc() || stop != digits.data() + 2) return false;
      value += static_cast<char>(byte);
      i += 2;
    }
    return true;
  }
  template <typename Enum>
  requires std::is_enum_v<Enum>
  static bool Read(std::string_view text, Enum& value) {
    const std::optional<Enum> choice = ParseChoice<Enum>(text);
    if (choice.has_value()) value = *choice;
    return choice.has_value();
  }
  template <typename Value>
  static bool Read(std::string_view text, std::vector<Value>& values) {
    if (text.empty()) return true;
    for (std::optional<std::string_view> rest = text; rest.has_value();) {
      if (!Read(TakePart(rest, ','), values.emplace_back())) return false;
    }
    return true;
  }
  static bool Read(std::string_view text, std::vector<StagePlan>& stages) {
    if (text.empty()) return true;
    for (std::optional<std::string_view> rest = text; rest.has_value();) {
      Reader stage_reader(TakePart(rest, ';'), ':');
      stage_reader.ReadAll(kStageFields, stages.emplace_back());
      if (!stage_reader.is_whole()) return false;
    }
    return true;
  }
  static bool Read(std::string_view text, std::vector<ReplicaGroup>& groups) {
    if (text.empty()) return true;
    for (std::optional<std::string_view> rest = text; rest.has_value();) {
      Reader group_reader(TakePart(rest, '|'), '/');
      group_reader.ReadAll(kReplicaGroupFields, groups.emplace_back());
      if (!group_reader.is_whole()) return false;
    }
    return true;
  }

  std::optional<std::string_view> rest_;
  char separator_;
  bool is_whole_ = true;
};

std::string KeyText(const ParallelPlan& plan) {
  std::string text;
  text.reserve(160);
  Writer(text, '.').WriteAll(kPlanFields, plan);
  return text;
}

}  // namespace

PlanKey MakePlanKey(const ParallelPlan& plan) {
  std::string text = KeyText(plan);
  std::string digest = Fnv1a64Hex(text);
  return {.text = std::move(text), .digest = std::move(digest)};
}

std::optional<ParallelPlan> ParsePlanKey(std::string_view text) {
  ParallelPlan plan;
  Reader reader(text, '.');
  reader.ReadAll(kPlanFields, plan);
  // Only the canonical spelling is accepted, without leading zeros or needless escapes.
  if (!reader.is_whole() || KeyText(plan) != text) return std::nullopt;
  return plan;
}

}  // namespace meshwright
