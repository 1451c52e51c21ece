#include "server/launchers/jobs/attempt_result.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "search_space/base/clean_text.h"
#include "search_space/base/file_text.h"
#include "search_space/base/status.h"
#include "search_space/spec/attempt.h"
#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 1;
constexpr char kMeasured[] = "ok";
constexpr std::size_t kLogEndBytes = 64 << 10;
constexpr TextForm kLogHead = {.longest_bytes = kLogEndBytes, .keeps_lines = true};
constexpr TextForm kLogTail = {
    .longest_bytes = kLogEndBytes, .keeps_lines = true, .keeps_end = true};
constexpr std::size_t kLongestMessage = 4000;

absl::Status Damaged(std::string_view what) {
  return absl::DataLossError(fmt::format("the result of the attempt: {}", what));
}

template <typename Value>
std::optional<Value> Member(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return std::nullopt;
  if constexpr (std::is_same_v<Value, std::string>) {
    if (!found->is_string()) return std::nullopt;
  } else if constexpr (std::is_same_v<Value, double>) {
    if (!found->is_number()) return std::nullopt;
  } else {
    if (!found->is_number_integer()) return std::nullopt;
  }
  return found->get<Value>();
}

absl::StatusOr<Ran> RunOf(const Json& object) {
  const auto seconds = Member<double>(object, "step_time_seconds");
  if (!seconds.has_value() || !std::isfinite(*seconds) || *seconds <= 0) {
    return Damaged("step_time_seconds; must be a number > 0");
  }
  Ran run = {.step_time = Seconds(*seconds)};
  if (const auto bytes = Member<std::int64_t>(object, "peak_memory_bytes"); bytes.has_value()) {
    if (*bytes < 0) return Damaged(fmt::format("peak_memory_bytes = {}; must be >= 0", *bytes));
    if (*bytes > 0) run.peak_memory = Bytes{*bytes};  // some logs round down to 0
  }
  return run;
}

// Returns a member's text as CleanText leaves it, or an empty text if there is none.
std::string CleanMember(const Json& object, const char* name, const TextForm& form) {
  return CleanText(Member<std::string>(object, name).value_or(""), form);
}

std::string Line(const Json& object, const char* name) {
  return CleanMember(object, name, {.longest_bytes = kLongestMessage});
}

// Returns the reasons, each as one line: the store separates them by line feeds.
std::vector<std::string> SuspectReasonsOf(const Json& object) {
  std::vector<std::string> reasons;
  const auto found = object.find("suspect");
  if (found == object.end() || !found->is_array()) return reasons;
  for (const Json& each : *found) {
    if (!each.is_object()) continue;
    std::string text = Line(each, "reason");
    const std::string message = Line(each, "message");
    if (!message.empty()) text += (text.empty() ? "" : ": ") + message;
    if (!text.empty()) reasons.push_back(std::move(text));
  }
  return reasons;
}

// Reads what describes the measurement's quality. The time counts without any of it.
AttemptQuality QualityOf(const Json& object) {
  const auto seconds = [&](const char* name) -> std::optional<Seconds> {
    const auto value = Member<double>(object, name);
    return value.has_value() ? std::optional(Seconds(*value)) : std::nullopt;
  };
  AttemptQuality quality = {.step_time_low = seconds("step_time_low_seconds"),
                            .step_time_high = seconds("step_time_high_seconds"),
                            .spread_ratio = Member<double>(object, "spread_ratio"),
                            .suspect_reasons = SuspectReasonsOf(object)};
  if (const auto steps = Member<std::int64_t>(object, "steps");
      steps.has_value() && *steps >= 0 && *steps <= std::numeric_limits<int>::max()) {
    quality.step_count = static_cast<int>(*steps);
  }
  const auto environment = object.find("environment");
  if (environment != object.end() && environment->is_object()) {
    quality.environment = environment->dump();
    quality.environment_digest = Line(*environment, "digest");
  }
  return quality;
}

}  // namespace

absl::StatusOr<AttemptResult> ParseAttemptResult(const std::string& text) {
  const Json object = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return Damaged("is not a JSON object");
  const auto version = Member<std::int64_t>(object, "meshwright_result");
  if (version != kVersion) return Damaged(fmt::format("is not of version {}", kVersion));
  const auto attempt = Member<std::string>(object, "attempt");
  const auto token = Member<std::int64_t>(object, "token");
  const auto word = Member<std::string>(object, "class");
  if (!attempt.has_value() || !token.has_value() || !word.has_value()) {
    return Damaged("lacks the attempt, the token or the class");
  }
  AttemptResult result = {.attempt_id = *attempt,
                          .token = *token,
                          .message = Line(object, "message"),
                          .log_head = CleanMember(object, "log_head", kLogHead),
                          .log_tail = CleanMember(object, "log_tail", kLogTail),
                          .quality = QualityOf(object)};
  const auto start_ms = Member<std::int64_t>(object, "start_time_ms");
  const auto end_ms = Member<std::int64_t>(object, "end_time_ms");
  if (start_ms.has_value() && end_ms.has_value() && *start_ms <= *end_ms) {
    result.run_time =
        Seconds(1e-3 * (static_cast<double>(*end_ms) - static_cast<double>(*start_ms)));
  }
  if (*word == kMeasured) {
    ASSIGN_OR_RETURN(result.run, RunOf(object));
    return result;
  }
  result.failure = ParseChoice<FailureClass>(*word);
  if (!result.failure.has_value()) {
    return Damaged(fmt::format("class {} is unknown", QuotedText(*word)));
  }
  return result;
}

namespace {

absl::StatusOr<std::optional<AttemptResult>> ReadResult(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  const std::string text = RestOf(file);
  ASSIGN_OR_RETURN(AttemptResult result, ParseAttemptResult(text));
  return std::optional(std::move(result));
}

}  // namespace

std::optional<AttemptResult> ReadRankFailure(const std::string& folder,
                                             const std::string& attempt_id, std::int64_t token) {
  std::optional<AttemptResult> first;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(attempt_id + ".rank") || !name.ends_with(".failure.json")) continue;
    auto read = ReadResult(entry->path().string());
    if (!read.ok() || !read->has_value() || (*read)->token != token) continue;
    if (!(*read)->failure.has_value()) continue;
    if (!first.has_value() || *(*read)->failure < *first->failure) first = **std::move(read);
  }
  return first;
}

LogEnds ReadLogEnds(const std::string& folder, const std::string& attempt_id) {
  std::ifstream file;
  for (const char* const name : {"out", "log"}) {
    file = std::ifstream(fmt::format("{}/{}.{}", folder, attempt_id, name), std::ios::binary);
    if (file && file.peek() != std::ifstream::traits_type::eof()) break;
  }
  if (!file) return {};
  std::string head(kLogEndBytes, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(file.gcount()));
  std::string tail;
  if (file) {
    constexpr auto kEnd = static_cast<std::streamoff>(kLogEndBytes);
    file.seekg(0, std::ios::end);
    const std::streamoff size = file.tellg();
    file.seekg(std::max(kEnd, size - kEnd));
    tail = RestOf(file);
    // The file may have grown meanwhile.
    if (tail.size() > kLogEndBytes) tail.erase(0, tail.size() - kLogEndBytes);
  }
  return {.head = CleanText(head, kLogHead), .tail = CleanText(tail, kLogTail)};
}

absl::StatusOr<std::optional<AttemptResult>> ReadAttemptResult(const std::string& folder,
                                                               const std::string& attempt_id) {
  return ReadResult(fmt::format("{}/{}.result.json", folder, attempt_id));
}

}  // namespace meshwright
