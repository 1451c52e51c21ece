#include "cli/input/training_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "cli/input/log_formats.h"
#include "search_space/base/status.h"

namespace meshwright {
namespace {

// The quantities that a named group of a pattern may be, as workloads/measure/formats.py has them.
enum class Kind {
  kStep,
  kSeconds,
  kSamplesPerSecond,
  kTokensPerSecondPerDevice,
  kStepsPerSecond,
  kIntervalSeconds,
  kPeakBytes,
  kOther
};

struct Quantity {
  std::string_view name;
  Kind kind;
  double factor;
};

constexpr double kMebi = 1024.0 * 1024.0;
constexpr Quantity kQuantities[] = {
    {"step", Kind::kStep, 1},
    {"step_time_seconds", Kind::kSeconds, 1},
    {"step_time_ms", Kind::kSeconds, 1e-3},
    {"samples_per_second", Kind::kSamplesPerSecond, 1},
    {"tokens_per_second_per_device", Kind::kTokensPerSecondPerDevice, 1},
    {"steps_per_second", Kind::kStepsPerSecond, 1},
    {"interval_seconds", Kind::kIntervalSeconds, 1},
    {"peak_bytes", Kind::kPeakBytes, 1},
    {"peak_mb", Kind::kPeakBytes, 1e6},
    {"peak_mib", Kind::kPeakBytes, kMebi},
    {"peak_gb", Kind::kPeakBytes, 1e9},
    {"peak_gib", Kind::kPeakBytes, 1024 * kMebi},
};
constexpr std::string_view kPart = "part_ms_";  // groups with this prefix add up to the step time

Quantity QuantityOf(std::string_view name) {
  if (name.starts_with(kPart)) return {name, Kind::kSeconds, 1e-3};
  const auto* const found = std::ranges::find(kQuantities, name, &Quantity::name);
  return found == std::end(kQuantities) ? Quantity{name, Kind::kOther, 1} : *found;
}

// A kind of line.
struct Rule {
  std::string contains = {};
  std::unique_ptr<RE2> pattern = {};
  std::vector<std::pair<int, Quantity>> groups = {};  // number of the group, and what it is
};

struct Format {
  std::string name = {};
  bool is_alias = false;  // has the lines of another format
  std::vector<Rule> rules = {};
};

Rule RuleOf(const nlohmann::json& row) {
  Rule rule = {.contains = row.at("contains").get<std::string>(),
               .pattern = std::make_unique<RE2>(row.at("pattern").get<std::string>())};
  for (const auto& [name, number] : rule.pattern->NamedCapturingGroups()) {
    rule.groups.emplace_back(number, QuantityOf(name));
  }
  return rule;
}

// Formats with JSON lines are left out: only our own programs print them.
std::vector<Format> AllFormats() {
  std::vector<Format> formats;
  const nlohmann::json table = nlohmann::json::parse(log_formats().front().text);
  for (const auto& [name, row] : table.items()) {
    const nlohmann::json& described =
        row.contains("like") ? table.at(row.at("like").get<std::string>()) : row;
    Format format = {.name = name, .is_alias = row.contains("like")};
    for (const nlohmann::json& rule : described.at("rules")) {
      if (rule.contains("pattern")) format.rules.push_back(RuleOf(rule));
    }
    if (!format.rules.empty()) formats.push_back(std::move(format));
  }
  return formats;
}

const std::vector<Format>& Formats() {
  static const auto* const kFormats = new std::vector<Format>(AllFormats());
  return *kFormats;
}

// Reads a number that may have commas between its thousands, or the suffix K, M or B.
std::optional<double> NumberIn(std::string_view text) {
  std::string digits(text);
  std::erase(digits, ',');
  double factor = 1;
  for (const auto& [suffix, thousands] : {std::pair('K', 1e3), {'M', 1e6}, {'B', 1e9}}) {
    if (!digits.ends_with(suffix)) continue;
    digits.pop_back();
    factor = thousands;
    break;
  }
  double value = 0;
  const char* const last = digits.data() + digits.size();
  const auto [end, error] = std::from_chars(digits.data(), last, value);
  const bool is_number = error == std::errc() && end == last;
  return is_number && std::isfinite(value * factor) ? std::optional(value * factor) : std::nullopt;
}

// The quantities that a line has.
struct Line {
  std::optional<std::int64_t> step = {};
  std::optional<double> seconds = {};
  std::optional<double> peak_bytes = {};
  std::string missing = {};  // to turn its rate into a time; empty: nothing, or it has no rate
};

// The rates of a line; 0: it has none.
struct Rates {
  double samples_per_second = 0;
  double tokens_per_second_per_device = 0;
  double steps_per_second = 0;
  double interval_seconds = 0;  // of a whole number of steps
};

// Returns the time of a step by the rates, if they and the size of the job give one.
std::optional<double> SecondsBy(const Rates& rates, const LogOptions& job) {
  if (rates.steps_per_second > 0) {
    if (rates.interval_seconds <= 0) return 1 / rates.steps_per_second;
    const double steps = std::round(rates.interval_seconds * rates.steps_per_second);
    return rates.interval_seconds / std::max(1.0, steps);
  }
  if (rates.samples_per_second > 0 && job.global_batch_size.has_value()) {
    return *job.global_batch_size / rates.samples_per_second;
  }
  if (rates.tokens_per_second_per_device > 0 && job.global_batch_size && job.sequence_length &&
      job.device_count) {
    return 1.0 * *job.global_batch_size * *job.sequence_length / *job.device_count /
           rates.tokens_per_second_per_device;
  }
  return std::nullopt;
}

// Returns what is missing to turn a rate into the time of a step, each with the flags that state
// it.
std::string MissingFor(const Rates& rates, const LogOptions& job) {
  std::vector<std::string_view> missing;
  if (!job.global_batch_size.has_value()) missing.emplace_back("the global batch size");
  if (rates.samples_per_second <= 0) {
    if (!job.sequence_length.has_value()) missing.emplace_back("the sequence length");
    if (!job.device_count.has_value()) missing.emplace_back("the number of devices");
  }
  return fmt::format("{}", fmt::join(missing, ", "));
}

// Takes what a group of a rule has matched.
void Note(Kind kind, double value, Line& line, Rates& rates) {
  if (kind == Kind::kStep) line.step = std::llround(std::min(value, 1e15));
  if (kind == Kind::kSeconds) line.seconds = line.seconds.value_or(0) + value;
  if (kind == Kind::kSamplesPerSecond) rates.samples_per_second = value;
  if (kind == Kind::kTokensPerSecondPerDevice) {
    rates.tokens_per_second_per_device = value;
  }
  if (kind == Kind::kStepsPerSecond) rates.steps_per_second = value;
  if (kind == Kind::kIntervalSeconds) rates.interval_seconds = value;
  if (kind == Kind::kPeakBytes) line.peak_bytes = value;
}

std::optional<Line> ReadLine(const Rule& rule, std::string_view text, const LogOptions& job) {
  if (text.find(rule.contains) == std::string_view::npos) return std::nullopt;
  const int count = rule.pattern->NumberOfCapturingGroups() + 1;
  std::vector<re2::StringPiece> found(static_cast<std::size_t>(count));
  if (!rule.pattern->Match(text, 0, text.size(), RE2::UNANCHORED, found.data(), count)) {
    return std::nullopt;
  }
  Line line;
  Rates rates;
  for (const auto& [group, quantity] : rule.groups) {
    const re2::StringPiece& piece = found[static_cast<std::size_t>(group)];
    const std::optional<double> number = NumberIn({piece.data(), piece.size()});
    if (!number.has_value() || *number < 0) continue;
    Note(quantity.kind, *number * quantity.factor, line, rates);
  }
  const bool has_rate = rates.samples_per_second > 0 || rates.tokens_per_second_per_device > 0;
  if (const std::optional<double> by_rate = SecondsBy(rates, job)) {
    line.seconds = by_rate;
  } else if (has_rate) {
    line.missing = MissingFor(rates, job);
  }
  if (line.seconds == 0) line.seconds.reset();
  return line;
}

double MedianOf(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Collects what the lines of a log say in one format.
class Collector {
 public:
  Collector(const Format& format, const LogOptions& options) : format_(format), options_(options) {}

  void Take(std::string_view text) {
    for (const Rule& rule : format_.rules) {
      const std::optional<Line> line = ReadLine(rule, text, options_);
      if (!line.has_value()) continue;
      if (line->peak_bytes.has_value()) peak_ = std::max(peak_, *line->peak_bytes);
      if (line->seconds.has_value()) TakeTime(rule, *line);
      if (!line->seconds.has_value() && !line->missing.empty()) missing_ = line->missing;
      return;
    }
  }

  // Returns nullopt if no line had a time that counts.
  [[nodiscard]] std::optional<LoggedRun> Result() const {
    if (seconds_.empty()) return std::nullopt;
    LoggedRun run = {.format = format_.name,
                     .step_count = static_cast<int>(seconds_.size()),
                     .warmup_count = warmup_count_,
                     .step_time = Seconds(MedianOf(seconds_))};
    if (peak_ > 0) run.peak_memory = Bytes{std::llround(peak_)};
    return run;
  }

  [[nodiscard]] int warmup_count() const { return warmup_count_; }
  [[nodiscard]] const std::string& format() const { return format_.name; }
  // Returns what is missing to turn the rates of its lines into times; empty if nothing is.
  [[nodiscard]] const std::string& missing() const { return missing_; }

 private:
  void TakeTime(const Rule& rule, const Line& line) {
    if (timed_by_ == nullptr) timed_by_ = &rule;
    if (timed_by_ != &rule) return;
    if (line.step.has_value() && !steps_.insert(*line.step).second) return;
    const bool is_first = warmup_count_ == 0 && seconds_.empty();
    const std::int64_t step = line.step.value_or(warmup_count_ + 1);
    if (options_.warmup_steps > 0 && (is_first || step <= options_.warmup_steps)) {
      ++warmup_count_;
      return;
    }
    seconds_.push_back(*line.seconds);
  }

  const Format& format_;
  const LogOptions& options_;
  const Rule* timed_by_ = nullptr;
  std::set<std::int64_t> steps_ = {};
  std::vector<double> seconds_ = {};
  int warmup_count_ = 0;
  std::string missing_ = {};
  double peak_ = 0;
};

absl::Status NoSteps(int warmup_count, std::string_view tried) {
  const std::string found =
      warmup_count == 0
          ? fmt::format("has no line with the time of a step in the format {}", tried)
          : fmt::format("has {} lines with the time of a step, all of them warm-up; must have more",
                        warmup_count);
  return InvalidFields({{.field = "log", .description = found}});
}

std::string RatesOnly(std::string_view format, std::string_view missing) {
  return fmt::format(
      "in the format {}, its lines have rates, from which the time of a step follows with {}; "
      "state --workload, or --from, and --cluster, or --chip and --nodes",
      format, missing);
}

}  // namespace

std::vector<std::string> LogFormats() {
  std::vector<std::string> names;
  for (const Format& format : Formats()) names.push_back(format.name);
  return names;
}

absl::StatusOr<LoggedRun> ReadTrainingLog(std::string_view text, const LogOptions& options) {
  std::vector<Collector> collectors;
  for (const Format& format : Formats()) {
    if (options.format.empty() ? !format.is_alias : options.format == format.name) {
      collectors.emplace_back(format, options);
    }
  }
  if (collectors.empty()) {
    return InvalidFields({{.field = "log_format",
                           .description = fmt::format("{}; must be one of {}", options.format,
                                                      fmt::join(LogFormats(), ", "))}});
  }
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    for (Collector& collector : collectors) collector.Take(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  int warmup_count = 0;
  std::string rates;
  for (const Collector& collector : collectors) {
    if (!collector.missing().empty()) rates = RatesOnly(collector.format(), collector.missing());
    if (const std::optional<LoggedRun> run = collector.Result()) return *run;
    warmup_count = std::max(warmup_count, collector.warmup_count());
  }
  if (warmup_count == 0 && !rates.empty()) {
    return InvalidFields({{.field = "log", .description = rates}});
  }
  return NoSteps(warmup_count, options.format.empty()
                                   ? fmt::format("{}", fmt::join(LogFormats(), ", "))
                                   : options.format);
}

}  // namespace meshwright
