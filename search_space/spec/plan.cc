#include "search_space/spec/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <system_error>
#include <type_traits>
#include <utility>

#include "search_space/digest/fnv.h"
#include "search_space/spec/limits.h"

namespace meshwright {
namespace {

// The text of a key: one `<code><value>` a field, in the order of the struct, so that the three
// lists of fields below are the only place that writer and reader know.
//   fields of a plan '.'   stages ';'   fields of a stage ':'   elements of a list ','
// Strings keep [A-Za-z0-9_] and write every other byte as %xx; the empty string is a lone '%', so a
// list that holds one empty string differs from an empty list. A double is its shortest text that
// reads back equal, with '_' for the point.

template <typename Recompute, typename Visitor>
void VisitRecompute(Recompute& recompute, Visitor& visit) {
  visit("rg", recompute.granularity);
  visit("rl", recompute.layer_counts);
  visit("rm", recompute.modules);
  visit.UnlessUsual("rs", recompute.selective_layer_counts);
}

template <typename Stage, typename Visitor>
void VisitStage(Stage& stage, Visitor& visit) {
  visit("pl", stage.pool);
  visit("nd", stage.node_count);
  visit("tp", stage.tensor_parallel);
  visit("dp", stage.data_parallel);
  visit("cp", stage.context_parallel);
  visit("ly", stage.layer_count);
  visit("mb", stage.micro_batch_size);
  VisitRecompute(stage.recompute, visit);
}

template <typename Plan, typename Visitor>
void VisitPlan(Plan& plan, Visitor& visit) {
  visit("tp", plan.tensor_parallel);
  visit("sp", plan.sequence_parallel);
  visit("pp", plan.pipeline_parallel);
  visit("vp", plan.virtual_pipeline);
  visit("dp", plan.data_parallel);
  visit("cp", plan.context_parallel);
  visit("ck", plan.context_parallel_kind);
  visit("ep", plan.expert_parallel);
  visit("et", plan.expert_tensor_parallel);
  visit("mb", plan.micro_batch_size);
  visit("zs", plan.zero_stage);
  visit("zg", plan.zero_group_size);
  visit("sc", plan.schedule);
  VisitRecompute(plan.recompute, visit);
  visit("lp", plan.layers_per_stage);
  visit("oo", plan.optimizer_offload_ratio);
  visit("st", plan.stages);
  visit.UnlessUsual("ro", plan.rank_order);
  visit.UnlessUsual("ao", plan.activation_offload_ratio);
  visit.UnlessUsual("ww", plan.whole_weights_ratio);
}

bool IsPlain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Appends the fields it visits to `text`.
class Writer {
 public:
  Writer(std::string& text, char separator) : text_(text), separator_(separator) {}

  template <typename Value>
  void operator()(std::string_view code, const Value& value) {
    if (is_separated_) text_ += separator_;
    is_separated_ = true;
    text_ += code;
    Write(value);
  }

  // A field that came after the first keys were kept: its first value is not written.
  template <typename Value>
  void UnlessUsual(std::string_view code, const Value& value) {
    if (value != Value{}) (*this)(code, value);
  }

 private:
  void Write(int value) {
    std::array<char, 16> digits;
    text_.append(digits.data(),
                 std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr);
  }
  void Write(bool value) { text_ += value ? '1' : '0'; }
  void Write(double value) {
    // Adding 0 makes -0, which is equal to 0, the same text.
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
      Writer stage_writer(text_, ':');
      VisitStage(stages[i], stage_writer);
    }
  }

  std::string& text_;
  char separator_;
  bool is_separated_ = false;
};

// The text up to the next `separator`; takes both off `rest`, which ends as nullopt.
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

// Fills the fields it visits from the text; `ok` says whether every one was there.
class Reader {
 public:
  Reader(std::string_view text, char separator) : rest_(text), separator_(separator) {}

  template <typename Value>
  void operator()(std::string_view code, Value& value) {
    ok_ = ok_ && rest_.has_value();
    if (!ok_) return;
    const std::string_view part = TakePart(rest_, separator_);
    ok_ = part.starts_with(code) && Read(part.substr(code.size()), value);
  }

  template <typename Value>
  void UnlessUsual(std::string_view code, Value& value) {
    if (rest_.has_value() && rest_->starts_with(code)) (*this)(code, value);
  }

  [[nodiscard]] bool ok() const { return ok_ && !rest_.has_value(); }

 private:
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
      VisitStage(stages.emplace_back(), stage_reader);
      if (!stage_reader.ok()) return false;
    }
    return true;
  }

  std::optional<std::string_view> rest_;
  char separator_;
  bool ok_ = true;
};

std::string KeyText(const ParallelPlan& plan) {
  std::string text;
  text.reserve(160);
  Writer writer(text, '.');
  VisitPlan(plan, writer);
  return text;
}

int ShareOf(int layers, double ratio) {
  // 0.29 x 100 is a little less than 29 in binary.
  constexpr double kRounding = 1e-9;
  return std::clamp(static_cast<int>(ratio * layers + kRounding), 0, layers);
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
  VisitPlan(plan, reader);
  // Only the canonical spelling counts: no leading zeros, no needless escapes.
  if (!reader.ok() || KeyText(plan) != text) return std::nullopt;
  return plan;
}

int OffloadedLayers(double ratio, int layers) {
  return std::min(ShareOf(layers, ratio), std::max(0, layers - 1));
}

int WholeLayers(double ratio, int layers) { return ShareOf(layers, ratio); }

int StageCount(const ParallelPlan& plan) {
  return plan.stages.empty() ? plan.pipeline_parallel : static_cast<int>(plan.stages.size());
}

int MicroBatchCount(const ParallelPlan& plan, int global_batch_size) {
  // All stages of a mixed cluster run the same micro-batches, so the first one speaks for all.
  const int data_parallel =
      plan.stages.empty() ? plan.data_parallel : plan.stages.front().data_parallel;
  const int micro_batch_size =
      plan.stages.empty() ? plan.micro_batch_size : plan.stages.front().micro_batch_size;
  const std::int64_t sequences = std::int64_t{data_parallel} * micro_batch_size;
  assert(sequences > 0);
  return static_cast<int>(global_batch_size / sequences);
}

namespace {

// More than any cluster, model or batch has; products of four of them stay inside 64 bits.
constexpr int kLargestSize = 10'000;
constexpr int kLargestDeviceSize = 100'000'000;

void CheckCounts(LimitChecker& checker, const std::string& field, const std::vector<int>& counts) {
  for (std::size_t i = 0; i < counts.size(); ++i) {
    checker.Range(field + "[" + std::to_string(i) + "]", counts[i], 0, kLargestSize);
  }
}

void CheckRecompute(LimitChecker& checker, const std::string& at, const RecomputePlan& recompute) {
  CheckCounts(checker, at + ".layer_counts", recompute.layer_counts);
  CheckCounts(checker, at + ".selective_layer_counts", recompute.selective_layer_counts);
}

void CheckStage(LimitChecker& checker, const std::string& at, const StagePlan& stage) {
  checker.Range(at + ".node_count", stage.node_count, 1, kLargestDeviceSize);
  checker.Range(at + ".tensor_parallel", stage.tensor_parallel, 1, kLargestSize);
  checker.Range(at + ".data_parallel", stage.data_parallel, 1, kLargestDeviceSize);
  checker.Range(at + ".context_parallel", stage.context_parallel, 1, kLargestSize);
  checker.Range(at + ".layer_count", stage.layer_count, 0, kLargestSize);
  checker.Range(at + ".micro_batch_size", stage.micro_batch_size, 1, kLargestDeviceSize);
  CheckRecompute(checker, at + ".recompute", stage.recompute);
}

}  // namespace

std::vector<FieldViolation> Validate(const PlanRequest& plan, std::string_view prefix) {
  LimitChecker checker(prefix);
  const auto range = [&](std::string_view field, const std::optional<int>& value, int low,
                         int high) {
    if (value.has_value()) checker.Range(field, *value, low, high);
  };
  range("tensor_parallel", plan.tensor_parallel, 1, kLargestSize);
  range("pipeline_parallel", plan.pipeline_parallel, 1, kLargestSize);
  range("virtual_pipeline", plan.virtual_pipeline, 1, kLargestSize);
  range("data_parallel", plan.data_parallel, 1, kLargestDeviceSize);
  range("context_parallel", plan.context_parallel, 1, kLargestSize);
  range("expert_parallel", plan.expert_parallel, 1, kLargestSize);
  range("expert_tensor_parallel", plan.expert_tensor_parallel, 1, kLargestSize);
  range("micro_batch_size", plan.micro_batch_size, 1, kLargestDeviceSize);
  range("zero_stage", plan.zero_stage, 0, 3);
  range("zero_group_size", plan.zero_group_size, 0, kLargestDeviceSize);
  CheckCounts(checker, "layers_per_stage", plan.layers_per_stage);
  if (plan.recompute.has_value()) {
    CheckRecompute(checker, "recompute", *plan.recompute);
  }
  const auto ratio = [&](std::string_view field, const std::optional<double>& value) {
    if (value.has_value() && !(*value >= 0 && *value <= 1)) {
      checker.Add(field, fmt::format("{}; must be 0 .. 1", *value));
    }
  };
  ratio("optimizer_offload_ratio", plan.optimizer_offload_ratio);
  ratio("activation_offload_ratio", plan.activation_offload_ratio);
  ratio("whole_weights_ratio", plan.whole_weights_ratio);
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    CheckStage(checker, "stages[" + std::to_string(i) + "]", plan.stages[i]);
  }
  return std::move(checker).violations();
}

}  // namespace meshwright
