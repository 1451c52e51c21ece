#include "recorder/transfer_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

#include "search_space/base/clean_text.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/digest/base_encoding.h"
#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kFormat[] = "meshwright-history";
constexpr char kNote[] = "note";
constexpr char kRetractionTime[] = "retraction_time_ms";
constexpr char kRetractionReason[] = "retraction_reason";

// Describes each line's members once, for both directions.
template <typename Record, typename Members>
void VisitCalibration(Record& record, Members& members) {
  members.Value("id", record.id);
  members.Value("chip", record.chip);
  members.Value("framework", record.framework);
  members.Value("framework_version", record.framework_version);
  members.Value("job_fingerprint", record.job_fingerprint);
  members.Value("last_sequence", record.last_sequence);
  members.Value("measurement_count", record.measurement_count);
  members.Value("time_ratio", record.time_ratio);
  members.Value("memory_ratio", record.memory_ratio);
  members.Value("model_version", record.model_version);
  members.Value("create_time_ms", record.create_time_ms);
  members.Binary("content", record.content);
}

template <typename Record, typename Members>
void VisitQuestion(Record& record, Members& members) {
  members.Value("digest", record.digest);
  members.Value("model_name", record.model_name);
  members.Value("cluster_name", record.cluster_name);
  members.Value("chip", record.chip);
  members.Value("framework", record.framework);
  members.Value("framework_version", record.framework_version);
  members.Value("device_count", record.device_count);
  members.Value("job_fingerprint", record.job_fingerprint);
  members.Value("hardware_fingerprint", record.hardware_fingerprint);
  members.Value("software_fingerprint", record.software_fingerprint);
  members.Value("chip_fingerprint", record.chip_fingerprint);
  members.Binary("question", record.question);
}

template <typename Record, typename Members>
void VisitMeasurement(Record& record, Members& members) {
  members.Value("id", record.id);
  members.Value("source", record.source);
  members.Value("question_digest", record.question.digest);
  members.Value("study_id", record.study_id);
  members.Value("plan_key", record.plan_key);
  members.Value("plan_digest", record.plan_digest);
  members.Binary("plan", record.plan);
  members.Value("outcome", record.outcome);
  members.Value("step_time_seconds", record.step_time);
  members.Value("peak_memory_bytes", record.peak_memory);
  members.Value("expected_step_time_seconds", record.expected.step_time);
  members.Value("expected_low_seconds", record.expected.low);
  members.Value("expected_high_seconds", record.expected.high);
  members.Value("expected_peak_memory_bytes", record.expected.peak_memory);
  members.Value("calibration_id", record.expected.calibration_id);
  members.Value("device_seconds", record.device_time);
  members.Value("time_ms", record.time_ms);
  members.Value("job_name", record.job_name);
  members.Value(kNote, record.note);
  members.Group(record.retraction, {kRetractionTime, kRetractionReason},
                [&members](auto& retraction) {
                  members.Value(kRetractionTime, retraction.time_ms);
                  members.Value(kRetractionReason, retraction.reason);
                });
}

class Writer {
 public:
  explicit Writer(Json& json) : json_(json) {}
  template <typename T>
  void Value(const char* name, const T& value) const {
    json_[name] = value;
  }
  void Value(const char* name, const MeasurementSource& source) const {
    json_[name] = std::string(Word(source));
  }
  void Value(const char* name, const Outcome& outcome) const {
    json_[name] = std::string(Word(outcome));
  }
  void Value(const char* name, const Seconds& time) const { json_[name] = time.count(); }
  void Value(const char* name, const Bytes& memory) const { json_[name] = memory.count; }
  template <typename T>
  void Value(const char* name, const std::optional<T>& value) const {
    if (value.has_value()) Value(name, *value);
  }
  void Binary(const char* name, const std::string& bytes) const { json_[name] = ToBase64(bytes); }
  // Writes the members of a part that may be absent.
  template <typename Part, typename Visit>
  void Group(const std::optional<Part>& part, std::initializer_list<const char*> /*names*/,
             const Visit& visit) const {
    if (part.has_value()) visit(*part);
  }

 private:
  Json& json_;
};

// Replaces bytes that are not UTF-8: a job's name from a terminal must not prevent the export of a
// whole history.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Returns a value for an error message, without its nested contents, which may be arbitrarily deep
// and long.
std::string Shown(const Json& json) {
  constexpr std::size_t kMaxShown = 100;
  return json.is_structured() ? json.type_name() : Dump(json).substr(0, kMaxShown);
}

// Returns false also for an unsigned 64-bit number that does not fit in int64, which we never
// write.
bool IsInteger(const Json& json) {
  return json.is_number_integer() &&
         !(json.is_number_unsigned() && !std::in_range<std::int64_t>(json.get<std::uint64_t>()));
}

// Reads members and collects all mistakes in them.
class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {}

  [[nodiscard]] const std::vector<std::string>& errors() const { return errors_; }

  template <typename T>
  void Value(const char* name, T& value) {
    if (!json_.contains(name)) {
      errors_.push_back(fmt::format("{}: must be present", name));
    } else if (const auto read = Read<T>(json_[name]); read.has_value()) {
      value = *read;
      if constexpr (std::is_same_v<T, std::string>) CheckText(name, value);
    } else {
      errors_.push_back(fmt::format("{} = {}; must be {}", name, Shown(json_[name]), Kind<T>()));
    }
  }
  template <typename T>
  void Value(const char* name, std::optional<T>& value) {
    if (json_.contains(name)) Value(name, value.emplace());
  }
  void Binary(const char* name, std::string& bytes) {
    std::string text;
    Value(name, text);
    std::optional<std::string> read = FromBase64(text);
    if (!read.has_value()) errors_.push_back(fmt::format("{}: must be base64", name));
    bytes = std::move(read).value_or("");
  }
  // Reads a part if one of its members is there; then all must be.
  template <typename Part, typename Visit>
  void Group(std::optional<Part>& part, std::initializer_list<const char*> names,
             const Visit& visit) {
    const auto is_there = [this](const char* name) { return json_.contains(name); };
    if (std::ranges::any_of(names, is_there)) visit(part.emplace());
  }

 private:
  // Checks a text; only a note may have several lines.
  void CheckText(std::string_view name, const std::string& text) {
    const TextLayout layout = name == kNote ? TextLayout::kLines : TextLayout::kOneLine;
    const auto mistake = TextMistake(text, layout);
    if (mistake.has_value()) errors_.push_back(fmt::format("{} = {}", name, *mistake));
  }

  template <typename T>
  static std::optional<T> Read(const Json& json) {
    if constexpr (std::is_same_v<T, std::string>) {
      if (json.is_string()) return json.get<std::string>();
    } else if constexpr (std::is_enum_v<T>) {
      if (json.is_string()) return ParseChoice<T>(json.get_ref<const std::string&>());
    } else if constexpr (std::is_same_v<T, Seconds>) {
      if (json.is_number()) return Seconds(json.get<double>());
    } else if constexpr (std::is_same_v<T, double>) {
      if (json.is_number()) return json.get<double>();
    } else if constexpr (std::is_same_v<T, Bytes>) {
      if (IsInteger(json)) return Bytes{json.get<std::int64_t>()};
    } else {
      static_assert(std::is_integral_v<T>);
      if (IsInteger(json) && std::in_range<T>(json.get<std::int64_t>())) {
        return static_cast<T>(json.get<std::int64_t>());
      }
    }
    return std::nullopt;
  }
  template <typename T>
  static std::string Kind() {
    if constexpr (std::is_same_v<T, std::string>) return "a text";
    if constexpr (std::is_enum_v<T>) return "one of " + AllowedWords<T>();
    if constexpr (std::is_same_v<T, Seconds> || std::is_same_v<T, double>) return "a number";
    return fmt::format("an integer of {} bits", 8 * sizeof(T));
  }

  const Json& json_;
  std::vector<std::string> errors_ = {};
};

struct ToJson {
  Json operator()(const TransferHeader& header) const {
    return {{"kind", "header"}, {"format", kFormat}, {"version", header.version}};
  }
  Json operator()(const QuestionRecord& question) const {
    Json json = {{"kind", "question"}};
    Writer writer(json);
    VisitQuestion(question, writer);
    return json;
  }
  Json operator()(const CalibrationRecord& calibration) const {
    Json json = {{"kind", "calibration"}};
    Writer writer(json);
    VisitCalibration(calibration, writer);
    return json;
  }
  Json operator()(const MeasurementRecord& measurement) const {
    Json json = {{"kind", "measurement"}};
    Writer writer(json);
    VisitMeasurement(measurement, writer);
    return json;
  }
  Json operator()(const TransferEnd& end) const {
    return {{"kind", "end"}, {"count", end.count}, {"sha256", end.sha256}};
  }
};

bool HasFormat(const Json& header) {
  const auto format = header.find("format");
  return format != header.end() && *format == kFormat;
}

// Returns nullopt if the kind of line is unknown.
std::optional<TransferLine> FromJson(std::string_view kind, Reader& reader) {
  TransferLine line;
  if (kind == "header") {
    reader.Value("version", line.emplace<TransferHeader>().version);
  } else if (kind == "question") {
    VisitQuestion(line.emplace<QuestionRecord>(), reader);
  } else if (kind == "calibration") {
    VisitCalibration(line.emplace<CalibrationRecord>(), reader);
  } else if (kind == "measurement") {
    VisitMeasurement(line.emplace<MeasurementRecord>(), reader);
  } else if (kind == "end") {
    auto& end = line.emplace<TransferEnd>();
    reader.Value("count", end.count);
    reader.Value("sha256", end.sha256);
  } else {
    return std::nullopt;
  }
  return line;
}

}  // namespace

void LineTally::Add(std::string_view line) {
  ++count_;
  digest_.Add(line);
  digest_.Add("\n");
}

std::string EncodeLine(const TransferLine& line) { return Dump(std::visit(ToJson(), line)); }

absl::StatusOr<TransferLine> DecodeLine(std::string_view line) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) return absl::InvalidArgumentError("must be a JSON object");
  Reader reader(json);
  std::string kind;
  reader.Value("kind", kind);
  const auto decoded = FromJson(kind, reader);
  if (!decoded.has_value()) {
    return absl::InvalidArgumentError(
        fmt::format("kind = {}; must be one of header, question, calibration, measurement, end",
                    QuotedText(kind)));
  }
  if (std::holds_alternative<TransferHeader>(*decoded) && !HasFormat(json)) {
    return absl::InvalidArgumentError(fmt::format("format: must be '{}'", kFormat));
  }
  if (!reader.errors().empty()) {
    return absl::InvalidArgumentError(fmt::format("{}", fmt::join(reader.errors(), "; ")));
  }
  return *decoded;
}

std::vector<std::string> Differences(const MeasurementRecord& ours,
                                     const MeasurementRecord& theirs) {
  const auto without_retraction = [](MeasurementRecord record) {
    record.retraction.reset();
    return ToJson()(record);
  };
  const Json here = without_retraction(ours);
  const Json there = without_retraction(theirs);
  const auto text = [](const Json& json, const std::string& name) {
    return json.contains(name) ? Shown(json.at(name)) : "absent";
  };
  std::set<std::string> names;
  for (const auto& member : here.items()) names.insert(member.key());
  for (const auto& member : there.items()) names.insert(member.key());
  std::vector<std::string> differences;
  for (const std::string& name : names) {
    const std::string mine = text(here, name);
    const std::string other = text(there, name);
    if (mine == other) continue;
    differences.push_back(fmt::format("{}: {} stored, {} in the import", name, mine, other));
  }
  return differences;
}

}  // namespace meshwright
