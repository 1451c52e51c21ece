#include "server/tuner/trials/harness_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "search_space/base/file_text.h"

namespace meshwright {
namespace {

using Json = nlohmann::json;

constexpr std::streamoff kTailBytes = 4096;  // about ten lines

struct HarnessState {
  std::string_view written;
  std::string_view word;
};
constexpr HarnessState kHarnessStates[] = {{"STARTING", "starting"},
                                           {"WARMUP", "warmup"},
                                           {"MEASURING", "measuring"},
                                           {"COLLECTING", "collecting"}};

// Returns the last complete line; the file may still grow.
std::string LastWholeLine(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  file.seekg(std::max<std::streamoff>(0, file.tellg() - kTailBytes));
  std::string text = RestOf(file);
  text.resize(text.rfind('\n') + 1);
  if (text.empty()) return "";
  text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

std::optional<HarnessProgress> ReadHarnessProgress(const std::string& folder,
                                                   const std::string& attempt_id,
                                                   std::int64_t token) {
  const std::string line = LastWholeLine(fmt::format("{}/{}.progress.jsonl", folder, attempt_id));
  const Json read = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!read.is_object() || read.value("token", Json()) != token) return std::nullopt;
  const Json state = read.value("state", Json());
  const Json steps = read.value("steps", Json());
  if (!state.is_string() || !steps.is_number_integer()) return std::nullopt;
  const auto known =
      std::ranges::find(kHarnessStates, state.get<std::string>(), &HarnessState::written);
  if (known == std::end(kHarnessStates)) return std::nullopt;
  const std::int64_t count =
      std::clamp<std::int64_t>(steps.get<std::int64_t>(), 0, std::numeric_limits<int>::max());
  return HarnessProgress{.state = std::string(known->word), .step_count = static_cast<int>(count)};
}

}  // namespace meshwright
