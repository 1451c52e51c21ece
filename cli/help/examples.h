#pragma once

#include <string_view>
#include <vector>

namespace meshwright {

// A command line that a user may type, and what it does.
struct Example {
  std::string_view line = {};
  std::string_view note = {};
};

// Returns the examples of a command ("meshwright study show"); those of a group are those of its
// commands.
std::vector<Example> ExamplesOf(std::string_view command);

// Returns all examples.
std::vector<Example> AllExamples();

}  // namespace meshwright
