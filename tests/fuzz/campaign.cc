#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "tests/fuzz/targets.h"

// The program of bench/fuzz.sh: libFuzzer for one target.
//
//   fuzz_campaign --targets                       prints the names of the targets
//   fuzz_campaign --target=NAME --seeds           prints the paths of the target's inputs
//   fuzz_campaign --target=NAME [libFuzzer's flags and folders]

namespace {

using meshwright::FuzzTarget;

const FuzzTarget* campaign_target = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  constexpr std::string_view kTarget = "--target=";
  bool prints_seeds = false;
  for (int i = 1; i < *count; ++i) {
    const std::string_view argument = (*arguments)[i];
    if (argument == "--targets") {
      for (const FuzzTarget& target : meshwright::FuzzTargets()) {
        std::printf("%s\n", std::string(target.name).c_str());
      }
      std::exit(0);
    }
    if (argument.starts_with(kTarget)) {
      campaign_target = meshwright::FindFuzzTarget(argument.substr(kTarget.size()));
    }
    prints_seeds = prints_seeds || argument == "--seeds";
  }
  if (campaign_target == nullptr) {
    std::fprintf(stderr, "--target=NAME: must be one of those that --targets prints\n");
    std::exit(2);
  }
  if (prints_seeds) {
    for (const auto& path : meshwright::SeedsOf(*campaign_target)) {
      std::printf("%s\n", path.c_str());
    }
    std::exit(0);
  }
  // The time of an input does not contain what a target loads once, such as the chip files.
  if (campaign_target->broken_law("").has_value()) std::abort();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (const auto broken = campaign_target->broken_law(input)) {
    std::fprintf(stderr, "Broken law of %s: %s\n", std::string(campaign_target->name).c_str(),
                 broken->c_str());
    std::abort();
  }
  return 0;
}
