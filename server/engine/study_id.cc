#include "server/engine/study_id.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>

#include "server/tuner/question/launcher_facts.h"

namespace meshwright {
namespace {

constexpr std::size_t kShortestId = 3;

// Spreads every input bit over the output (the finalizer of splitmix64, Steele et al., OOPSLA
// 2014).
std::uint64_t Mix(std::uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

bool IsLowerLetter(char c) { return c >= 'a' && c <= 'z'; }
bool IsIdCharacter(char c) { return IsLowerLetter(c) || (c >= '0' && c <= '9') || c == '-'; }

}  // namespace

std::string NewStudyId() {
  // The counter separates the ids of one process; the time and the random number separate those of
  // several.
  static std::atomic<std::uint64_t> counter = 0;
  static const std::uint64_t seed = [] {
    std::random_device device;
    return (std::uint64_t{device()} << 32U) | device();
  }();
  const auto time = std::chrono::system_clock::now().time_since_epoch().count();
  const std::uint64_t id =
      Mix(seed ^ Mix(static_cast<std::uint64_t>(time)) ^ Mix(counter.fetch_add(1) + 1));
  return fmt::format("study-{:012x}", id >> 16U);
}

std::optional<FieldViolation> CheckStudyId(std::string_view id, std::string_view launcher) {
  const LauncherFacts* const facts = FindLauncher(launcher);
  const std::size_t longest = (facts == nullptr ? LauncherFacts() : *facts).longest_study_id;
  if (id.size() >= kShortestId && id.size() <= longest && IsLowerLetter(id.front()) &&
      std::all_of(id.begin(), id.end(), IsIdCharacter)) {
    return std::nullopt;
  }
  return FieldViolation{
      .field = "study_id",
      .description = fmt::format("'{}'; must match [a-z][a-z0-9-]{{2,{}}}", id, longest - 1)};
}

}  // namespace meshwright
